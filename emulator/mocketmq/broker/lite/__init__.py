"""Lite topics, RIP-83: who subscribes to them, and when they expire."""
