"""The broker of an async test: the same operations, to be awaited."""

import asyncio
import io
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from mocketmq.client.answer import JsonObject, RawAnswer
from mocketmq.client.operations import CONNECT_S, Operations
from mocketmq.testing.broker import Broker
from mocketmq.testing.clock import AsyncClock
from mocketmq.testing.faults import AsyncFaults

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""


class AsyncBroker(Operations):
    """The same broker as ``broker``, for asyncio. Each request has a connection of its own.

    So nothing of it outlives an operation, nor the test's event loop: it works under every plugin that runs
    async tests, and needs the standard library alone. The blocking client in threads would not do: a thread
    would outlive a cancelled wait, and waits in all threads of the pool hold up the sends that end them.
    """

    # Callable, so ``broker.clock()`` still works although the attribute shadows the method.
    clock: AsyncClock
    faults: AsyncFaults

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.url, broker.token)
        self._broker = broker
        self.clock = AsyncClock(self)
        self.faults = AsyncFaults(self)

    @property
    def http_url(self) -> str:
        """The address for HTTP."""
        return self.url

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server."""
        return self._broker.name_server

    @property
    def grpc_endpoint(self) -> str:
        """``host:port`` for the gRPC clients of RocketMQ 5."""
        return self._broker.grpc_endpoint

    async def create_topic(self, name: str, *, queues: int = 4) -> JsonObject:
        """Create the topic, or change it. ``put_topic`` sets its permissions as well."""
        return await self.put_topic(name, read_queues=queues, write_queues=queues)

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        address = urlsplit(self.url)
        is_tls = address.scheme == "https"
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(
                    address.hostname, address.port or (443 if is_tls else 80), ssl=is_tls or None
                )
        except OSError:
            raise self._nobody() from None
        try:
            writer.write(_request(method, address.path + path, address.netloc, body or b"", headers))
            response = HTTPResponse(_Read(await reader.read()))  # type: ignore[arg-type]
            response.begin()
            return RawAnswer(response.status, response.reason, response.read())
        except (OSError, HTTPException) as error:
            raise self._silent(error) from None
        finally:
            writer.close()


class _Read:
    """Looks like a socket to ``http.client``, which reads it as a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._content)


def _request(method: str, target: str, host: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = {**headers, "Host": host, "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body
