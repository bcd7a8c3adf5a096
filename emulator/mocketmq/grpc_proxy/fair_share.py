"""Shares each iteration of the event loop among all connections, so that floods do not starve other clients.

An iteration of the event loop is called a *turn* here.

*Frames* are handled on arrival until the turn's budget for all connections is spent. Later frames wait for
the next turns, which serve the waiting connections in order. While connections wait, another connection still
gets the frames of one request handled on arrival, so floods do not delay an occasional client.

A request of an occasional client needs ten to twenty turns of the event loop. A turn that handles waiting
frames is therefore followed by a pause of three times its length, in which turns are short. Floods get a
quarter of the loop's time. Clients that send real requests lose nothing: their requests are processed in the
pauses, and take longer than these.

*Requests* cost ten times as much as the two frames that begin one. Handlers that begin together run their
steps together, so a turn with many of them is long for all clients. Requests therefore begin at once unless
many others begin in the same turn. The requests of a connection with waiting frames, and all requests after
them, wait in a queue; each turn begins the next few, connection by connection. There is no pause between
these turns, so a single busy client gets the whole loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.grpc_proxy.client_limits import (
    ARRIVALS_PER_TURN,
    ENDED_PER_TURN,
    FRAMES_AT_ONCE,
    FRAMES_PER_TURN,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_TURN,
)
from mocketmq.grpc_proxy.stream import Stream

_PAUSE: Final = 3
"""Length of the pause between two turns of waiting frames, in multiples of the duration of the first."""
_LEAST: Final = 2
"""Minimum number of frames handled per connection and turn: the HEADERS and DATA of one request."""


class Behind(Protocol):
    """A connection with frames that wait to be handled."""

    def work(self, frames: int) -> int:
        """Handle up to this many frames, and wait again if more are left; return how many were not needed."""


class FairShare:
    """The budget of a turn, and the queue of waiting connections; each turn handles a few frames of each."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Behind] = deque()
        self._is_scheduled = False
        self._pause_s = 0.0
        self._budget = ARRIVALS_PER_TURN
        self._is_renewing = False

    def arrived(self, connection: Behind) -> None:
        """Handle frames on arrival, but only the frames of one request while other connections wait."""
        if not self._is_renewing:
            self._is_renewing = True
            self._loop.call_soon(self._renew)
        frames = min(self._budget, _LEAST if self._waiting else FRAMES_AT_ONCE)
        self._budget -= frames - connection.work(frames)

    def _renew(self) -> None:
        self._is_renewing = False
        self._budget = ARRIVALS_PER_TURN

    def wait(self, connection: Behind) -> None:
        """Handle more frames of the connection in a later turn."""
        self._waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(self._pause_s, self._turn)

    def _turn(self) -> None:
        began_us = steady_us()
        share = max(_LEAST, FRAMES_PER_TURN // len(self._waiting))
        try:
            for _ in range(min(len(self._waiting), FRAMES_PER_TURN // share)):
                self._waiting.popleft().work(share)
        finally:  # an exception from one connection must not stop the others
            self._pause_s = _PAUSE * (steady_us() - began_us) / US_PER_S
            self._is_scheduled = False
            if self._waiting:
                self._schedule()


class RequestQueue:
    """The requests that wait to begin. ``begin`` starts the handler of a stream."""

    def __init__(self, begin: Callable[[Stream], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[object, deque[Stream]] = {}  # by connection; the first has waited longest
        self._left = REQUESTS_AT_ONCE
        self._has_turn = False  # the event loop calls `_turn` in its next iteration

    def add_request(self, stream: Stream) -> None:
        """Begin a request at once, or in a later turn."""
        connection = stream.http2
        self._schedule()
        if self._left and not connection.is_behind and connection not in self._waiting:
            self._left -= 1
            self._begin(stream)
        else:
            self._waiting.setdefault(connection, deque()).append(stream)

    def _schedule(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._has_turn = False
        self._left = REQUESTS_AT_ONCE
        begun = ended = 0
        while self._waiting and begun < REQUESTS_PER_TURN and ended < ENDED_PER_TURN:
            connection, streams = next(iter(self._waiting.items()))
            del self._waiting[connection]
            stream = streams.popleft()
            if streams:
                self._waiting[connection] = streams
            if stream.is_open:
                begun += 1
                self._begin(stream)
            else:
                ended += 1
        if self._waiting:
            self._schedule()
