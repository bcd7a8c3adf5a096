"""Remove messages: reset and deletion, retention."""
