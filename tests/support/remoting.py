"""A low-level remoting client, and an emulator in the test's process."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mocketmq.app import Emulator, running_emulator
from mocketmq.calling.call import Credentials
from mocketmq.calling.connection import signed
from mocketmq.hosts import with_port
from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.rocketmq_versions import V4_9_8
from mocketmq.settings import Settings
from tests.support.brokers import FREE_PORTS
from tests.support.patience import PATIENCE_S

READERS = {code: request.reader for code, request in REQUESTS.items()}


class ClosedError(Exception):
    """The broker has closed the connection."""


class RemotingClient:
    """One connection, opened by :func:`connected`.

    Answers may arrive in any order and are matched to requests by ``opaque``. Requests of the broker are in
    ``pushes``. ``version`` is the version that the client claims. With an account, it signs its requests.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, account: Credentials | None = None
    ) -> None:
        self.pushes: asyncio.Queue[Command] = asyncio.Queue()
        self.address = with_port(*writer.get_extra_info("sockname")[:2])
        self.version = V4_9_8
        self._account = account
        self._reader = reader
        self._frames = FrameReader()
        self._is_closed = False
        self._writer = writer
        self._opaques = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self._reading = asyncio.create_task(self._read())

    async def call(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        """Send a request, and wait for its answer; ``more`` sets other fields of the command."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.ask(code, ext, body, **more)

    def ask(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> asyncio.Future[Command]:
        """Send a request, and return a future that gets the answer or a ClosedError."""
        opaque = next(self._opaques)
        answer = self.expect(opaque)
        more.setdefault("version", self.version)
        command = Command(code=code, opaque=opaque, ext=ext or {}, body=body, **more)
        self.send(command if self._account is None else signed(command, self._account))
        return answer

    def expect(self, opaque: int) -> asyncio.Future[Command]:
        """Return a future of the answer to a request that :meth:`send` or :meth:`write` sends."""
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            answer.set_exception(ClosedError())
        else:
            self._calls[opaque] = answer
        return answer

    async def ok(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", **more: Any
    ) -> Command:
        """Send a request that must succeed, and return its answer."""
        answer = await self.call(code, ext, body, **more)
        assert answer.code == 0, answer
        return answer

    def oneway(self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """Send a request without an answer."""
        self.send(Command.oneway(code, next(self._opaques), ext or {}, body))

    def send(self, *commands: Command) -> None:
        """Send commands unchanged, in one write."""
        self.write(b"".join(map(encode, commands)))

    def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Wait until most of the written data has been sent."""
        await self._writer.drain()

    def pause_reading(self) -> None:
        """Stop reading, so that answers fill every buffer on the way."""
        self._reading.cancel()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._reading = asyncio.create_task(self._read())

    async def push(self) -> Command:
        """Return the broker's next request."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.pushes.get()

    async def closed(self) -> None:
        """Wait until the broker closes the connection."""
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait([self._reading])

    async def close(self) -> None:
        """Close the connection. May be called twice."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.transport.abort()
        self._end()
        if not self._reading.cancelled():
            self._reading.result()

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(1 << 18):
                for command in self._frames.feed(data):
                    self._received(command)
        except ConnectionError:
            pass
        self._end()

    def _received(self, command: Command) -> None:
        if not command.is_response:
            self.pushes.put_nowait(command)
            return
        answer = self._calls.pop(command.opaque)  # KeyError means an unexpected or repeated answer
        if not answer.done():
            answer.set_result(command)

    def _end(self) -> None:
        self._is_closed = True
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(ClosedError())
                answer.exception()  # the caller need not await it
        self._calls.clear()


@asynccontextmanager
async def connected(
    host: str, port: int, account: Credentials | None = None, *, source: str | None = None
) -> AsyncIterator[RemotingClient]:
    """Connect a client to this address; with ``source``, from this address of the machine."""
    own = None if source is None else (source, 0)
    async with asyncio.timeout(PATIENCE_S):
        client = RemotingClient(*await asyncio.open_connection(host, port, local_addr=own), account)
    try:
        yield client
    finally:
        await client.close()


class Remoting:
    """An emulator and its clients; ``client`` is connected to the broker's port."""

    def __init__(self, emulator: Emulator, client: RemotingClient) -> None:
        assert emulator.remoting
        self.emulator = emulator
        self.broker = emulator.broker
        self.server = emulator.remoting
        self.client = client

    @asynccontextmanager
    async def another(
        self, port: int | None = None, host: str | None = None
    ) -> AsyncIterator[RemotingClient]:
        """Connect another client, by default to the broker's port."""
        host = host or self.emulator.settings.host
        async with connected(host, self.server.broker_port if port is None else port) as client:
            yield client

    async def route(self, topic: str) -> Any:
        """Return the route of a topic."""
        return json.loads((await self.client.ok(105, {"topic": topic})).body)


@asynccontextmanager
async def running_remoting(**changed: Any) -> AsyncIterator[Remoting]:
    """Run an emulator with a manual clock, by default in memory, and a client of its broker."""
    settings = Settings(**{**FREE_PORTS, "data": ":memory:", "clock": "manual", **changed})
    async with running_emulator(settings) as emulator:
        assert emulator.remoting
        hub = emulator.remoting.hub
        hub.tls = hub.tls._replace(handshake_s=PATIENCE_S)  # for busy machines
        async with connected(settings.host, emulator.remoting.broker_port) as client:
            yield Remoting(emulator, client)


@asynccontextmanager
async def patient_remoting(**changed: Any) -> AsyncIterator[Remoting]:
    """Like ``running_remoting``, but clock moves wait longer for producers, for busy machines."""
    async with running_remoting(**changed) as remoting:
        remoting.broker.check_backs.answer_s = PATIENCE_S
        yield remoting
