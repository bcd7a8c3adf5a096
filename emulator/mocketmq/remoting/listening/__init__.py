"""Listening: ports, the server, and its connections."""
