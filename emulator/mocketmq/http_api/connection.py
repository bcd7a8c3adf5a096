"""A connection whose header must come in time: what aiohttp's server leaves to a proxy before it."""

import asyncio
from typing import Any, Final

from mocketmq.clock import US_PER_S, steady_us

HEADER_US: Final = 10 * US_PER_S
"""From the first byte of a request to the end of its header."""
SILENT_US: Final = 120 * US_PER_S
"""Until the first byte of a connection; later ones have aiohttp's own limit between requests."""
TICK_S: Final = 5.0


class HttpConnection(asyncio.Protocol):
    """Stands before aiohttp's protocol ``inner``, and passes everything on."""

    def __init__(self, inner: Any, open_ones: dict[Any, "HttpConnection"]) -> None:
        self.is_answering = False  # from the end of a header to that of its answer
        self._inner = inner
        self._open_ones = open_ones
        self._has_begun = False
        self._since_us: int | None = steady_us()  # when something began for which there is a limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that it is open."""
        self._transport: Any = transport  # uvloop's is no asyncio.Transport
        self._open_ones[self._inner] = self
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note when a request begins."""
        if not self._has_begun or self._since_us is None:
            self._has_begun = True
            self._since_us = steady_us()
        self._inner.data_received(data)

    def answered(self) -> None:
        """Wait for the next request."""
        self.is_answering = False
        self._since_us = None

    def is_late(self, now_us: int) -> bool:
        """Whether its client has taken too long."""
        limit_us = HEADER_US if self._has_begun else SILENT_US
        return not self.is_answering and self._since_us is not None and now_us - self._since_us > limit_us

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Note that it is closed."""
        self._open_ones.pop(self._inner, None)
        self._inner.connection_lost(error)

    def eof_received(self) -> Any:
        """The client sends nothing more."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._inner.resume_writing()
