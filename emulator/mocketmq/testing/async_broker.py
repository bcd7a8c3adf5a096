"""The broker object for async tests: the operations of ``Broker`` as coroutines."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from mocketmq.client.answer import RawAnswer
from mocketmq.client.operations import CONNECT_S, Operations
from mocketmq.testing.broker import Broker
from mocketmq.testing.clock import AsyncClock
from mocketmq.testing.faults import AsyncFaults

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""


class AsyncBroker(Operations):
    """An asyncio view of ``broker``. Each request opens its own connection.

    No state outlives an operation or the test's event loop, so this class works under every plugin that runs
    async tests, and needs only the standard library. Running the blocking client in threads would not work: a
    thread outlives a cancelled wait, and waits that fill the thread pool would block the sends that end them.
    """

    # Callable, so ``broker.clock()`` still works although the attribute shadows the method.
    clock: AsyncClock
    faults: AsyncFaults

    def __init__(self, broker: Broker) -> None:
        super().__init__(*broker.login)
        self._broker = broker
        self.clock = AsyncClock(self)
        self.faults = AsyncFaults(self)

    @property
    def http_url(self) -> str:
        """The URL of the JSON API and of Aliyun's HTTP protocol."""
        return self.url

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server; several are separated by semicolons."""
        return self._broker.name_server

    @property
    def grpc_endpoint(self) -> str:
        """``host:port`` for the gRPC clients of RocketMQ 5."""
        return self._broker.grpc_endpoint

    async def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> RawAnswer:
        address = urlsplit(self.url)
        is_tls = address.scheme == "https"
        try:
            connecting = asyncio.open_connection(
                address.hostname, address.port or (443 if is_tls else 80), ssl=is_tls or None
            )
            reader, writer = await asyncio.wait_for(connecting, CONNECT_S)
        except (asyncio.TimeoutError, OSError):
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
    """A socket for ``http.client``, which only reads it as a file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, *_: Any) -> io.BytesIO:
        return io.BytesIO(self._content)


def _request(method: str, target: str, host: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = {**headers, "Host": host, "Content-Length": str(len(body)), "Connection": "close"}
    head = "".join(f"{name}: {text}\r\n" for name, text in lines.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body
