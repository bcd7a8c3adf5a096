"""Fuzzing of every door of a real broker: ``python -m tests.hostile.fuzz --minutes 60``."""
