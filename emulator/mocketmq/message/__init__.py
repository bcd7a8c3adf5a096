"""Messages, their properties and ids, and the rules for names of topics and groups."""
