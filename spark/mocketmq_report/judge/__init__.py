"""Judges a report by thresholds, and compares it with earlier reports."""
