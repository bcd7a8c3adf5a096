"""Holds up requests for tests, and observes the server's connections."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Handler
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.header import TopicHeader
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting

ROUTE = {"topic": "TBW102"}
CODE = RequestCode.GET_ROUTEINFO_BY_TOPIC


def serve_by(
    handler: Handler, remoting: Remoting, monkeypatch: pytest.MonkeyPatch, code: int = CODE, **changes: Any
) -> None:
    """Serve the requests with this code by another handler."""
    requests = remoting.server.dispatcher._requests
    changed = replace(requests[code], **changes)
    changed.handler = handler
    monkeypatch.setitem(requests, int(code), changed)


class Gate:
    """Replaces a handler, and holds up its requests by topic until the test releases them."""

    def __init__(self, remoting: Remoting, monkeypatch: pytest.MonkeyPatch, code: RequestCode = CODE) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.events: dict[str, asyncio.Event] = {}
        serve_by(self._handle, remoting, monkeypatch, code, header=TopicHeader, names={})

    async def _handle(self, call: RemotingCall[TopicHeader]) -> Response:
        topic = call.header.topic
        self.started.append(topic)
        try:
            await self.events.setdefault(topic, asyncio.Event()).wait()
        finally:
            self.ended.append(topic)
        return Response(body=topic.encode())

    def let_go(self, topic: str) -> None:
        self.events.setdefault(topic, asyncio.Event()).set()


async def until(condition: Any) -> None:
    """Run the event loop until the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what it looks at sets no event
            await asyncio.sleep(0)


def looked_after_by_hand(remoting: Remoting) -> None:
    """Stop the server's periodic checks of connections, so that only the test runs them."""
    assert remoting.server._ticking
    remoting.server._ticking.cancel()


class Watched:
    """A transport that records its writes."""

    def __init__(self, transport: asyncio.Transport, written: list[bytes]) -> None:
        self._transport = transport
        self._written = written

    def write(self, data: bytes) -> None:
        self._written.append(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def metrics(remoting: Remoting) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(remoting.emulator.url.rpartition(":")[2]))
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


class Unread:
    """A transport that claims to have ``size`` unread bytes."""

    def __init__(self, transport: asyncio.Transport, size: int) -> None:
        self._transport = transport
        self._size = size

    def get_write_buffer_size(self) -> int:
        return self._size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
