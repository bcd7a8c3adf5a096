"""Delay schemes for any due time: a folder for each, and what is common to all."""
