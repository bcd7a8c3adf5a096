"""The ledger: read from stores, exports and files as one frame of rows."""
