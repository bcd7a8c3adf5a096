"""The memory budget of remoting connections, which decides which connections may read at the limit.

gRPC has its own limiter, ``grpc_proxy/memory.py``, because a gRPC connection carries many requests at once
and can refuse one of them. A remoting connection can only stop reading.
"""

import asyncio
from typing import Final, Protocol

MAX_HELD_BYTES: Final = 64 << 20
"""Limit on the memory of incomplete frames and running requests, in bytes."""
FREE_BYTES: Final = 16 << 10
"""Bytes that each connection may hold beyond the limit, so that small requests always get through."""
TURN_S: Final = 2.0
"""Real seconds that a client gets to complete a frame while other connections wait for memory."""


class Holder(Protocol):
    """A connection, with the bytes that it holds and the number of frames that it has read so far."""

    held: int
    frames: int

    @property
    def incomplete(self) -> int:
        """Bytes read of the incomplete frame."""

    @property
    def lacking(self) -> int:
        """Bytes missing from the incomplete frame."""

    def regulate(self) -> None:
        """Pause or resume reading as the limits require."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""


class Budget:
    """Counts the bytes that connections hold. At the limit, large frames are read one at a time.

    A running request frees its memory when it ends, but an incomplete frame only after its rest is read. One
    waiting connection may therefore always read, beginning with the one that lacks the fewest bytes. All
    connections together hold at most the limit, the one frame being read, and ``FREE_BYTES`` each.
    """

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self.held = 0
        self.turn_s = TURN_S
        self._limit = limit
        self._waiting: set[Holder] = set()
        self._first: Holder | None = None
        self._frames = 0  # frames read by the first waiting connection when its turn began
        self._end: asyncio.TimerHandle | None = None

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.held >= self._limit

    def change(self, holder: Holder, held: int) -> None:
        """Set the number of bytes that the connection holds."""
        was_spent = self.is_spent
        self.held += held - holder.held
        holder.held = held
        if was_spent and not self.is_spent:
            for waiting in list(self._waiting):
                waiting.regulate()

    def may_read(self, holder: Holder) -> bool:
        """Whether the connection may continue reading. If not, ``regulate`` is called when that changes."""
        if not self._waiting and not self.is_spent:  # fast path
            return True
        if not self.is_spent or holder.incomplete <= FREE_BYTES:
            self.leave(holder)
            return not self.is_spent or holder.held <= FREE_BYTES
        self._waiting.add(holder)
        if self._first is None or (self._first is holder and holder.frames > self._frames):
            self._next(holder)
        return self._first is holder

    def leave(self, holder: Holder) -> None:
        """Remove the connection from the connections that wait to read."""
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
            self._end = asyncio.get_running_loop().call_later(self.turn_s, self._out_of_time, self._first)
            if self._first is not asking:
                self._first.regulate()

    def _out_of_time(self, holder: Holder) -> None:
        holder.abort("its incomplete frame holds memory that other connections need")
