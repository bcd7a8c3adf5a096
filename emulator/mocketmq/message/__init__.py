"""Messages: what they are, their properties, their ids, and the names of topics and groups."""
