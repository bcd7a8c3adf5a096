"""Look into the broker, for people: histories of messages, pending messages, groups, consumers."""
