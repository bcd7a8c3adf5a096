"""The registry: topics, consumer groups, connected clients, and the state of the name server."""
