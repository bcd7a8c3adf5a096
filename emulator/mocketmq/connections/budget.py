"""Limits the memory of all connections together, and decides which may read when the limit is reached."""

import asyncio
from typing import Final, Protocol

MAX_HELD_BYTES: Final = 64 << 20
"""Memory of incomplete frames and of requests in work."""
FREE_BYTES: Final = 16 << 10
"""What each connection may hold beyond the limit, so that small requests always get through."""
TURN_S: Final = 2.0
"""Real seconds to complete a frame while other connections wait for its memory."""


class Holder(Protocol):
    """A connection: the bytes that it holds, and the number of frames that it has read so far."""

    held: int
    frames: int

    @property
    def incomplete(self) -> int:
        """Bytes read of the incomplete frame."""

    @property
    def lacking(self) -> int:
        """Bytes that are missing from it."""

    def regulate(self) -> None:
        """Pause or resume reading, by the limits."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""


class Budget:
    """Counts the bytes that connections hold. At the limit, large frames are read one at a time.

    Running requests free their memory when they end, but an incomplete frame only if the rest is read. So one
    waiting connection may always read, beginning with the one that lacks the fewest bytes. Together they hold
    at most the limit, that one frame, and ``FREE_BYTES`` each.
    """

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self.held = 0
        self._limit = limit
        self._waiting: set[Holder] = set()
        self._first: Holder | None = None
        self._frames = 0  # of the first, when its turn began
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.held >= self._limit

    def change(self, holder: Holder, held: int) -> None:
        """Note that the connection now holds this much."""
        was_spent = self.is_spent
        self.held += held - holder.held
        holder.held = held
        if was_spent and not self.is_spent:
            for waiting in list(self._waiting):
                waiting.regulate()

    def may_read(self, holder: Holder) -> bool:
        """Whether the connection may read on. If not, ``regulate`` is called when that changes."""
        if not self._waiting and not self.is_spent:  # as a rule
            return True
        if not self.is_spent or holder.incomplete <= FREE_BYTES:
            self.leave(holder)
            return not self.is_spent or holder.held <= FREE_BYTES
        self._waiting.add(holder)
        if self._first is None or (self._first is holder and holder.frames > self._frames):
            self._next(holder)
        return self._first is holder

    def leave(self, holder: Holder) -> None:
        """Remove the connection from those that wait."""
        self._waiting.discard(holder)
        if self._first is holder:
            self._next(holder)

    def _next(self, asking: Holder) -> None:
        """Give the turn to the waiting connection that lacks the fewest bytes."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        self._first = min(self._waiting, key=lambda holder: holder.lacking, default=None)
        if self._first is not None:
            self._frames = self._first.frames
            self._end = asyncio.get_running_loop().call_later(TURN_S, self._out_of_time, self._first)
            if self._first is not asking:
                self._first.regulate()

    def _out_of_time(self, holder: Holder) -> None:
        holder.abort("others wait for the memory that its unfinished frame takes")
