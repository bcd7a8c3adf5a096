"""Verify messages, for tests: what was sent, what became of it, what is left over, what happened."""
