"""Hostile and broken clients against a broker in its own process."""
