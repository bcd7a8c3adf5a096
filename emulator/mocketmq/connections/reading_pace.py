"""The pace at which clients must read large responses while others need the memory."""

from typing import Final

LEAST_READ_BYTES: Final = 64 << 10
"""Bytes that a client must read in each ``TURN_S`` while others need the memory of its responses."""


class ReadingPace:
    """When a client last finished reading ``LEAST_READ_BYTES``, or began to read.

    ``since_us`` is that time by the steady clock. A client that reads a little now and then is as slow as one
    that has read nothing since.
    """

    __slots__ = ("_read", "since_us")

    def __init__(self, now_us: int) -> None:
        self.since_us = now_us
        self._read = 0

    def add_read(self, size: int, now_us: int) -> None:
        """Count bytes that the client has read."""
        self._read += size
        if self._read >= LEAST_READ_BYTES:
            self._read = 0
            self.since_us = now_us
