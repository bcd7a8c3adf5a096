"""Measure how late a real cluster delivers: a small client of RocketMQ, and a ledger of what it saw."""
