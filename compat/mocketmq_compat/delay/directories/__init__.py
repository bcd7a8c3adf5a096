"""Second directories: a directory per second, a file per message."""
