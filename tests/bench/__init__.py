"""Measurements: ``make bench``. CI does not judge them, because its machines are too noisy."""
