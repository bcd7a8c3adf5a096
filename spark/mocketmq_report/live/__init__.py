"""Follow the lateness of a running broker."""
