"""The delay scheme for any due time: a directory per second, a file per message."""
