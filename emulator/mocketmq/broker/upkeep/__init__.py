"""Upkeep: reset and retention."""
