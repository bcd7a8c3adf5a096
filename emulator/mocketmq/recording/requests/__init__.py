"""Recordings of what clients asked a broker and were answered, and their replay on another broker."""
