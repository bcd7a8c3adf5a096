"""Limits the memory of large responses, from the read of their messages until clients have received them.

At the limit, the API refuses further requests for messages, and closes the connections of clients that read
too slowly. Below the limit, a client may stop reading for as long as it may pause while it sends a request
body.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, NoReturn, cast

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater, give_back
from mocketmq.connections.reading_pace import LEAST_READ_BYTES, ReadingPace
from mocketmq.http_api import web
from mocketmq.http_api.bodies import QUIET_S
from mocketmq.http_api.json_response import body_of
from mocketmq.http_api.problem import HttpError

MAX_UNREAD_BYTES: Final = 16 << 20
"""Limit on the bytes of unread responses. As JSON, a body of control characters is six times as long."""
PIECE_BYTES: Final = 256 << 10
"""Largest part of a response that is written in one iteration of the event loop."""
_QUIET_US: Final = int(QUIET_S * US_PER_S)


class TooManyAnswersError(HttpError):
    """Unread responses take too much memory."""

    status = 503

    def __init__(self) -> None:
        super().__init__("unread responses use too much memory; retry later")


class CountedRequest(web.BaseRequest):
    """A request, and the counter for the bytes of its response, which ``load_of`` makes on first use.

    While requests are recorded, ``tap_connection`` is the number of its connection, and ``tap_number`` its
    own; otherwise both are -1.
    """

    answers: "Answers"
    load: "AnswerLoad | None" = None
    tap_connection: int = -1
    tap_number: int = -1

    def end_load(self) -> None:
        """Release the memory of the response."""
        if self.load is not None:
            self.load.end()
            self.load = None


class AnswerLoad:
    """The memory that one request's response takes. Implements the broker's ``MemoryReservation``."""

    __slots__ = ("_answers", "_moved_us", "_pace", "_request", "_unread", "size")

    def __init__(self, answers: "Answers", request: web.BaseRequest) -> None:
        self.size = 0
        self._answers = answers
        self._request = request
        self._unread = 0  # unread bytes at the last check
        self._moved_us = 0
        self._pace = ReadingPace(0)

    async def wait_for_room(self, is_needed: Callable[[], bool] | None = None) -> None:
        """Do not wait. If there is no room, the broker calls ``refuse``."""

    def reserve(self, most: int) -> int:
        """Reserve memory for up to ``most`` bytes of stored messages; return the number of bytes reserved."""
        size = min(most, self._answers.room + self.size)
        self.settle(size)
        return size

    def settle(self, size: int) -> None:
        """Replace the reservation by the number of bytes actually read."""
        if size != self.size:
            self._answers.grow(size - self.size)
            self.size = size

    def end(self) -> None:
        """Release the memory, and drop the request, which refers to this object.

        Without this, only the garbage collector would free the cycle, and with it the fifteen objects of a
        request.
        """
        self.settle(0)
        del self._request

    def refuse(self) -> NoReturn:
        """Close the connections of clients that read too slowly, and raise TooManyAnswersError."""
        self._answers.close_slow_ones()
        raise TooManyAnswersError

    @asynccontextmanager
    async def reading(self, most: int) -> AsyncIterator[int]:
        """Reserve memory to read messages; other requests wait meanwhile. Raises TooManyAnswersError."""
        async with self._answers.reading:
            size = self.reserve(most)
            if not size:
                self.refuse()
            yield size

    async def send(self, response: web.StreamResponse, size: int) -> None:
        """Send a response of this size; return when the client has read most of it."""
        with self._sending(size):
            await response.prepare(self._request)
            await response.write_eof()

    async def send_in_pieces(self, content: bytes, content_type: str) -> web.StreamResponse:
        """Send a very large body in pieces, so that no iteration of the event loop copies all of it."""
        response = web.StreamResponse(headers={"Content-Type": content_type})
        response.content_length = len(content)
        with self._sending(len(content)):
            await response.prepare(self._request)
            for begin in range(0, len(content), PIECE_BYTES):
                await response.write(content[begin : begin + PIECE_BYTES])
                await asyncio.sleep(0)
            await response.write_eof()
        return response

    @contextmanager
    def _sending(self, size: int) -> Iterator[None]:
        self.settle(size)
        self._moved_us = steady_us()
        self._pace = ReadingPace(self._moved_us)
        self._answers.sending.add(self)
        try:
            yield
        except ConnectionError:
            pass  # aiohttp handles the closed connection
        finally:
            self._answers.sending.discard(self)

    def close_if_slow(self, limit_us: int) -> None:
        """Close the connection if its client has read less than ``LEAST_READ_BYTES`` since ``limit_us``."""
        self._observe()
        if self._pace.since_us <= limit_us:
            self._abort()

    def close_if_still(self, limit_us: int) -> None:
        """Close the connection if its client has read nothing since ``limit_us``."""
        self._observe()
        if self._moved_us <= limit_us:
            self._abort()

    def _observe(self) -> None:
        """Record how much the client has read since the last check."""
        transport: Any = self._request.transport
        unread = self._unread if transport is None else transport.get_write_buffer_size()
        if unread != self._unread:
            self._moved_us = now_us = steady_us()
            # aiohttp writes a further piece only after the client has read most of the last one.
            size = self._unread - unread if unread < self._unread else LEAST_READ_BYTES
            self._pace.add_read(size, now_us)
            self._unread = unread

    def _abort(self) -> None:
        transport: Any = self._request.transport
        if transport is not None:
            transport.abort()


class Answers:
    """The large responses of all connections; ``held`` counts their bytes.

    At the limit, connections whose clients read less than ``LEAST_READ_BYTES`` in ``still_us`` are closed.
    """

    def __init__(self) -> None:
        self.held = 0
        self.still_us = int(TURN_S * US_PER_S)
        self.reading = asyncio.Lock()
        self.sending: set[AnswerLoad] = set()
        self._high_water = HighWater()

    @property
    def room(self) -> int:
        """Number of bytes left below the limit."""
        return max(MAX_UNREAD_BYTES - self.held, 0)

    def grow(self, size: int) -> None:
        """Add to the held bytes, or subtract if ``size`` is negative."""
        self.held += size
        self._high_water.rise(self.held)

    def look_after(self) -> None:
        """Close the connections of clients that have stopped reading; return freed memory after a flood."""
        limit_us = steady_us() - _QUIET_US
        for load in list(self.sending):
            load.close_if_still(limit_us)
        if self._high_water.has_fallen(self.held):
            give_back()

    def close_slow_ones(self) -> None:
        """Close connections whose clients read too slowly, because others need the memory."""
        limit_us = steady_us() - self.still_us
        for load in list(self.sending):
            load.close_if_slow(limit_us)


def load_of(request: web.BaseRequest) -> AnswerLoad:
    """The counter for the bytes of a request's response."""
    counted = cast(CountedRequest, request)  # the server creates all requests with this class
    if counted.load is None:
        counted.load = AnswerLoad(counted.answers, request)
    return counted.load


def large_size(response: web.StreamResponse) -> int:
    """The size of a complete response, if it is large enough to be counted; otherwise 0."""
    body = body_of(response)
    return len(body) if body is not None and len(body) > FREE_BYTES else 0
