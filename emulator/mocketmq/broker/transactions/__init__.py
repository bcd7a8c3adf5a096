"""Transactions: half messages, and how they are committed or rolled back."""
