"""Measure how late a real cluster delivers: a small client for each of its protocols, and a ledger of what it saw."""
