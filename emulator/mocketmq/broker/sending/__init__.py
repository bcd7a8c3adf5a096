"""Sending: from a client's message to a stored one."""
