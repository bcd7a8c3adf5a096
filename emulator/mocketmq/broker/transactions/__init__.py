"""Transactions: half messages, and what becomes of them."""
