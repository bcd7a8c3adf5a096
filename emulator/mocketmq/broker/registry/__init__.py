"""Registry: topics, groups and clients, and what belongs to the name server."""
