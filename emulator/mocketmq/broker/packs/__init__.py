"""Packs: the state of a broker and the story of a failed test, in one file."""
