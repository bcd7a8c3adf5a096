"""Snapshots: the whole state of a broker in a file, to go back to between tests."""
