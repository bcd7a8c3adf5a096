"""Measure how late a real cluster delivers: a client for each of its protocols, and a ledger."""
