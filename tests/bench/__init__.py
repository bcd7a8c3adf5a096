"""Measurements: ``make bench``. They judge nothing in CI, where a machine's mood would decide."""
