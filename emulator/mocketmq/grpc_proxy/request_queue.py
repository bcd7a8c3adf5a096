"""Begins the handlers of requests, a few in each turn of the event loop.

A handler needs ten to twenty turns, and in each of them some of the loop's time. Handlers that begin together
go through their steps together, so a turn with many of them is long for everybody. ``fair_share`` limits
frames, of which two may begin a request; this limits the requests, each of which may cost ten times as much.

Requests begin at once unless many others do so in the same turn. The requests of a connection that is behind
with its frames, and all that come after those, wait in line; each turn begins the next of them, connection by
connection. No time passes between these turns, so a single busy client gets the whole loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from mocketmq.grpc_proxy.client_limits import ENDED_PER_TURN, REQUESTS_AT_ONCE, REQUESTS_PER_TURN
from mocketmq.grpc_proxy.stream import Stream


class RequestQueue:
    """The requests that wait to begin. ``begin`` starts the handler of a stream."""

    def __init__(self, begin: Callable[[Stream], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[object, deque[Stream]] = {}  # by connection; the first has waited longest
        self._left = REQUESTS_AT_ONCE
        self._has_turn = False  # the next turn of the loop calls `_turn`

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
