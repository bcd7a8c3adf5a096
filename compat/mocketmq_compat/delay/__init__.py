"""Second directories: a delay scheme for any due time, one file per message."""
