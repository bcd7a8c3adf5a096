"""Reads ledgers from stores, exports and other files as one table of rows."""
