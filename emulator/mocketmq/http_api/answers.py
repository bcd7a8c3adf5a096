"""Counts large answers, from before what is in them is read until their clients have taken them.

When they take too much memory, whoever asks for more messages is refused, and clients that read nothing are
closed. Without need, these have as long as for a body.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

from aiohttp import web

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES, TURN_S
from mocketmq.connections.freed_memory import HighWater, give_back
from mocketmq.http_api.bodies import QUIET_S
from mocketmq.http_api.problem import HttpError

MAX_UNREAD_BYTES: Final = 16 << 20
"""In JSON, a body of control characters takes six times its bytes."""
_STILL_US: Final = int(TURN_S * US_PER_S)
_QUIET_US: Final = int(QUIET_S * US_PER_S)


class TooManyAnswersError(HttpError):
    """The answers that clients have not read take too much memory."""

    status = 503

    def __init__(self) -> None:
        super().__init__("too many large answers wait for clients to read them; ask again later")


class CountedRequest(web.BaseRequest):
    """A request with what counts its answer."""

    load: "AnswerLoad"


class AnswerLoad:
    """The answer to one request (``broker.consuming.load``)."""

    def __init__(self, answers: "Answers", request: web.BaseRequest) -> None:
        self.size = 0
        self._answers = answers
        self._request = request
        self._unread = 0  # when it was last looked at
        self._moved_us = 0

    def reserve(self, most: int) -> int:
        """Count up to ``most`` bytes of messages that are to be read, as far as there is room."""
        size = min(most, self._answers.room + self.size)
        self.settle(size)
        return size

    def settle(self, size: int) -> None:
        """Count so many bytes in place of those before."""
        self._answers.grow(size - self.size)
        self.size = size

    def refuse(self) -> NoReturn:
        """Raise TooManyAnswersError, as there is no room for the next message."""
        self._answers.close_still_ones(_STILL_US)
        raise TooManyAnswersError

    @asynccontextmanager
    async def reading(self, most: int) -> AsyncIterator[int]:
        """Read up to this many bytes of messages, one request after the other. Raises TooManyAnswersError."""
        async with self._answers.reading:
            size = self.reserve(most)
            if not size:
                self.refuse()
            yield size

    async def send(self, response: web.StreamResponse) -> None:
        """Send a large answer, and return when the client has read most of it. aiohttp sends all others."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) <= FREE_BYTES:
            return
        self.settle(len(body))
        self._moved_us = steady_us()
        self._answers.sending.add(self)
        try:
            await response.prepare(self._request)
            await response.write_eof()
        except ConnectionError:
            pass  # aiohttp finds out by itself
        finally:
            self._answers.sending.discard(self)

    def close_if_still(self, for_us: int) -> None:
        """Close the connection if its client has read nothing for so long."""
        transport: Any = self._request.transport
        if transport is None:
            return
        unread, now_us = transport.get_write_buffer_size(), steady_us()
        if unread != self._unread:
            self._unread, self._moved_us = unread, now_us
        elif now_us - self._moved_us >= for_us:
            transport.abort()


class Answers:
    """Those of all connections. ``held`` counts their bytes."""

    def __init__(self) -> None:
        self.held = 0
        self.reading = asyncio.Lock()
        self.sending: set[AnswerLoad] = set()
        self._high_water = HighWater()

    @property
    def room(self) -> int:
        """How many bytes more they may take."""
        return max(MAX_UNREAD_BYTES - self.held, 0)

    def begin(self, request: CountedRequest) -> AnswerLoad:
        """Begin to count the answer to a request."""
        request.load = AnswerLoad(self, request)
        return request.load

    def grow(self, size: int) -> None:
        """Count so many bytes more, or fewer."""
        self.held += size
        self._high_water.rise(self.held)

    def look_after(self) -> None:
        """Close connections whose clients have long read nothing; return freed memory after a flood."""
        self.close_still_ones()
        if self._high_water.has_fallen(self.held):
            give_back()

    def close_still_ones(self, for_us: int = _QUIET_US) -> None:
        """Close connections whose clients have read nothing for so long."""
        for load in list(self.sending):
            load.close_if_still(for_us)


def load_of(request: web.BaseRequest) -> AnswerLoad:
    """What counts the answer to a request."""
    load: AnswerLoad = request.load  # type: ignore[attr-defined]  # the server makes no others
    return load
