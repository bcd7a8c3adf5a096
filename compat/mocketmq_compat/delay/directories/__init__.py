"""The scheme ``directories``: a directory for each second, with a file for each message due in it."""
