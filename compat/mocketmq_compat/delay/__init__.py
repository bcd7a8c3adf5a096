"""Delay schemes for any due time: second directories, and what they stand on."""
