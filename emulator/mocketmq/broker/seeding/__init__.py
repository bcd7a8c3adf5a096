"""Seeding: storing messages with a history, from which a test begins."""
