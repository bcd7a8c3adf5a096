"""Shares event loop turns fairly among connections with more frames than one turn may handle."""

import asyncio
from collections import deque
from typing import Final, Protocol

from mocketmq.grpc_proxy.limits import FRAMES_PER_TURN

_LEAST: Final = 2
"""Frames of a connection in its turn: those of a request."""


class Behind(Protocol):
    """A connection whose frames wait."""

    def work(self, frames: int) -> None:
        """Handle up to so many frames, and wait again if more are left."""


class FairShare:
    """The connections that wait, served in the order in which they began to, a few frames each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Behind] = deque()
        self._is_scheduled = False

    @property
    def at_once(self) -> int:
        """Frames that a connection may handle when they come: none while others wait."""
        return 0 if self._waiting else FRAMES_PER_TURN

    def wait(self, connection: Behind) -> None:
        """Handle more frames of the connection in a later turn."""
        self._waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        share = max(_LEAST, FRAMES_PER_TURN // len(self._waiting))
        try:
            for _ in range(min(len(self._waiting), FRAMES_PER_TURN // share)):
                self._waiting.popleft().work(share)
        finally:  # an exception from one connection must not stop the others
            if self._waiting:
                self._schedule()
