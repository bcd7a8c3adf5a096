"""Listening: sockets, connections, TLS, and the memory that they may take."""
