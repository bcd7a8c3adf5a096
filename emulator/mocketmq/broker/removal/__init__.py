"""Removal of messages: resets between tests, deletion of topics, retention."""
