"""Answer people's questions about histories of messages, pending messages, groups and consumers."""
