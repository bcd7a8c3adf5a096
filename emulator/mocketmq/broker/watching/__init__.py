"""Watching: live figures of the broker, and summaries of stored records."""
