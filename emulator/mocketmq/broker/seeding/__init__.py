"""Seeding: storing messages with a past, from which a test begins."""
