"""One connection of the HTTP server, between the transport and aiohttp's protocol.

Plain sends whose head is known go to ``FastSends``, everything else to aiohttp. The connection also limits
the time of a request's header, which aiohttp leaves to a reverse proxy.
"""

import asyncio
from typing import Any, Final

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.door_tap import DoorTap
from mocketmq.http_api import web
from mocketmq.http_api.fast_sends import FastSends, RequestHead, head_of
from mocketmq.http_api.request import address_of

HEADER_US: Final = 10 * US_PER_S
"""Time limit from the first byte of a request to the end of its header."""
SILENT_US: Final = 120 * US_PER_S
"""Time limit until the first byte of a connection. aiohttp itself limits the time between requests."""
KEPT_ALIVE_S: Final = 3600
"""Time from the last request that aiohttp served until aiohttp closes an idle connection."""
_UNSEEN_US: Final = KEPT_ALIVE_S // 2 * US_PER_S
"""Time after which a plain send goes to aiohttp too, so that a busy connection does not look idle to it."""
TICK_S: Final = 5.0


class HttpConnection(asyncio.Protocol):
    """Passes the events of a connection on to aiohttp's protocol ``inner``, except sends on the fast path.

    ``client`` is the client's address and port, ``tap_number`` the connection's number in a recording of
    requests. ``fast_sends`` is None if all requests take the general path.
    """

    def __init__(
        self,
        inner: Any,
        open_ones: dict[Any, "HttpConnection"],
        fast_sends: FastSends | None = None,
        tap: DoorTap | None = None,
    ) -> None:
        self.tap_number = 0 if tap is None else tap.connected()
        self._tap = tap
        self.is_answering = False  # true from the end of a header to the end of the response
        self._head: RequestHead | None = None  # of the current request
        self._inner = inner
        self._open_ones = open_ones
        self._fast_sends = fast_sends
        self._has_begun = False
        self._since_us: int | None = steady_us()  # start of the current time limit
        # Whether the next byte begins a request, and all requests before it are answered. Stays false after
        # pipelined requests, and after a head that is long or came in pieces.
        self._is_between = True
        self._is_fast = False  # whether a request is on the fast path
        self._early = b""  # bytes received during a send on the fast path
        self._passed = 0  # bytes of the current request passed to aiohttp
        self._seen_us = steady_us()  # when aiohttp last served a request, or the connection began
        self._is_paused = False  # whether the client does not read

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the first byte."""
        self._transport: Any = transport  # uvloop's transport is not an asyncio.Transport
        self.client = address_of(transport.get_extra_info("peername"))
        self._open_ones[self._inner] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Record when a request begins, and begin it on the fast path if it is plain."""
        if not self._has_begun or self._since_us is None:
            self._has_begun = True
            self._since_us = steady_us()
        if self._is_fast:
            self._early += data
            self._transport.pause_reading()
        elif not self._begin_fast(data):
            self._passed += len(data)
            self._inner.data_received(data)

    def _begin_fast(self, data: bytes) -> bool:
        sends = self._fast_sends
        if sends is None or not self._is_between:
            return False
        self._is_between, self._passed = False, 0
        self._head = head = head_of(data)
        if head is None or self._is_paused or steady_us() - self._seen_us > _UNSEEN_US:
            return False
        self._is_fast = self.is_answering = True
        if sends.begin(self, head, data):
            return True
        self._is_fast = self.is_answering = False
        return False

    def respond(self, response: bytes) -> None:
        """Send the response to the request on the fast path."""
        self._is_fast, self._is_between = False, True
        self._end_time_limit()
        if self._transport.is_closing():
            return
        self._transport.write(response)
        if self._early:
            asyncio.get_running_loop().call_soon(self._take_early)

    def _take_early(self) -> None:
        data, self._early = self._early, b""
        if not self._transport.is_closing():
            self._transport.resume_reading()
            self.data_received(data)

    def answered(self) -> None:
        """End the time limit of a request that aiohttp has served. aiohttp limits the wait for the next."""
        self._end_time_limit()
        self._seen_us = steady_us()

    def take_head(self, request: web.BaseRequest) -> RequestHead | None:
        """The head of a request that aiohttp has served well; None unless the next byte begins a request."""
        head, self._head = self._head, None
        headers = request.headers
        if head is None or self._passed != head.size + (request.content_length or 0):
            return None
        if not request.keep_alive or "Upgrade" in headers or "Transfer-Encoding" in headers:
            return None
        self._is_between = True
        return head

    def _end_time_limit(self) -> None:
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
        self._is_paused = True
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell aiohttp that the client reads again."""
        self._is_paused = False
        self._inner.resume_writing()
