"""Access control: accounts and their permissions, the same for every protocol."""
