"""Judging: thresholds, and comparisons with an earlier report."""
