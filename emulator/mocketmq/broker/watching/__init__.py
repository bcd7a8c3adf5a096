"""Watch the broker: what it does now, and short descriptions of what it has stored."""
