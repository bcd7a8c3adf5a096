"""Looking: histories, pending messages, progress and consumers, for people who ask."""
