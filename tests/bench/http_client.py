"""A minimal HTTP client, so that the server dominates the figures."""

import asyncio
import re
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


class _Repeater(asyncio.Protocol):
    """One connection that sends the same request again as soon as it is answered."""

    def __init__(self, request: bytes) -> None:
        self.answered = 0
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._until = 0.0
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it

    def begin(self, until: float) -> None:
        """Send the first request, and the last before ``until``."""
        assert self._transport
        self._until = until
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if not head.startswith(b"HTTP/1.1 201 ") or length is None:
            self._end(AssertionError(f"not the expected answer: {self._received!r}"))
        elif len(body) >= int(length[1]):
            self._received = b""
            self.answered += 1
            if perf_counter() < self._until:
                assert self._transport
                self._transport.write(self._request)
            else:
                self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or AssertionError("the server closed the connection"))

    def _end(self, error: Exception | None) -> None:
        assert self._transport
        self._transport.close()
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


async def posts_per_second(url: str, path: str, body: bytes, in_flight: int, seconds: float) -> float:
    """Return POSTs a second answered with 201, over this many connections with one request in flight each."""
    host, _, port = urlsplit(url).netloc.rpartition(":")
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: _Repeater(request), host, int(port)))[1]
        for _ in range(in_flight)
    ]
    started = perf_counter()
    for connection in connections:
        connection.begin(started + seconds)
    await asyncio.gather(*(connection.ended for connection in connections))
    return sum(connection.answered for connection in connections) / (perf_counter() - started)
