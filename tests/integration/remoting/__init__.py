"""Remoting over real sockets."""
