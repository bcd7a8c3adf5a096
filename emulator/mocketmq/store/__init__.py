"""The store: one SQLite database, one writer that commits in groups, readers beside it."""
