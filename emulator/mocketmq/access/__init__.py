"""Access control with accounts and permissions, the same for every protocol."""
