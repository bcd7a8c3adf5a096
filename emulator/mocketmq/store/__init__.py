"""The store: one SQLite database, one writer with group commit, and readers."""
