"""The durable ground: one SQLite database, one writer that commits in groups, readers beside it."""
