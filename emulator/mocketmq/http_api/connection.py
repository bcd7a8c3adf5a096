"""Closes HTTP connections whose request header takes too long. aiohttp leaves this to a reverse proxy."""

import asyncio
from typing import Any, Final

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.door_tap import DoorTap

HEADER_US: Final = 10 * US_PER_S
"""Time limit from the first byte of a request to the end of its header."""
SILENT_US: Final = 120 * US_PER_S
"""Time limit until the first byte of a connection. aiohttp itself limits the time between requests."""
TICK_S: Final = 5.0


class HttpConnection(asyncio.Protocol):
    """Wraps aiohttp's protocol ``inner`` to measure times, and passes all events on to it.

    ``tap_number`` is the connection's number in a recording of requests.
    """

    def __init__(
        self, inner: Any, open_ones: dict[Any, "HttpConnection"], tap: DoorTap | None = None
    ) -> None:
        self.tap_number = 0 if tap is None else tap.connected()
        self._tap = tap
        self.is_answering = False  # true from the end of a header to the end of the response
        self._inner = inner
        self._open_ones = open_ones
        self._has_begun = False
        self._since_us: int | None = steady_us()  # start of the current time limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the first byte."""
        self._transport: Any = transport  # uvloop's transport is not an asyncio.Transport
        self._open_ones[self._inner] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Record when a request begins."""
        if not self._has_begun or self._since_us is None:
            self._has_begun = True
            self._since_us = steady_us()
        self._inner.data_received(data)

    def answered(self) -> None:
        """End the current time limit. aiohttp limits the wait for the next request."""
        self.is_answering = False
        self._since_us = None

    def is_late(self, now_us: int) -> bool:
        """Whether the client has exceeded the current time limit."""
        limit_us = HEADER_US if self._has_begun else SILENT_US
        return not self.is_answering and self._since_us is not None and now_us - self._since_us > limit_us

    def abort(self) -> None:
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._open_ones.pop(self._inner, None)
        if self._tap is not None:
            self._tap.disconnected(self.tap_number)
        self._inner.connection_lost(error)

    def eof_received(self) -> Any:
        """Tell aiohttp that the client sends nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Tell aiohttp that the client does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell aiohttp that the client reads again."""
        self._inner.resume_writing()
