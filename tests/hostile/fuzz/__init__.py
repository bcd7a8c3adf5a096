"""Fuzzing of every protocol of a real broker: ``python -m tests.hostile.fuzz --minutes 60``."""
