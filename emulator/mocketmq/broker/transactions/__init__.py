"""Transactions: half messages, check-backs to their producers, commit and rollback."""
