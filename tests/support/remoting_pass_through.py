"""Ports between a remoting client and a cluster. They forward commands and record what the client asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from tests.doors.remoting.recorded import RecordedRequest

HOST = "127.0.0.1"


class RemotingPassThrough:
    """Forwards to a name server and its only broker, and replaces the broker's port in routes by its own."""

    def __init__(self, broker_port: int) -> None:
        self.namesrv_port = 0
        self.broker_port = 0
        self.sent: list[RecordedRequest] = []
        """What clients sent."""
        self._real_broker_port = broker_port

    async def listen(self, port: int) -> asyncio.Server:
        """Accept connections, and forward them to this port."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            onward_reader, onward_writer = await asyncio.open_connection(HOST, port)
            try:
                await asyncio.gather(
                    self._forward(reader, onward_writer), self._forward(onward_reader, writer)
                )
            finally:
                onward_writer.close()
                writer.close()

        return await asyncio.start_server(accept, HOST, 0)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader()
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                for command in frames.feed(data):
                    self._note(command)
                    writer.write(encode(command))
            writer.write_eof()

    def _note(self, command: Command) -> None:
        if not command.is_response:
            self.sent.append(RecordedRequest(command.code, command.version, dict(command.ext), command.body))
        elif command.body.startswith(b"{"):  # it may be a route
            real, own = (f'"{HOST}:{port}"'.encode() for port in (self._real_broker_port, self.broker_port))
            command.body = command.body.replace(real, own)


@asynccontextmanager
async def passing_remoting_through(namesrv_port: int, broker_port: int) -> AsyncIterator[RemotingPassThrough]:
    """Run ports before the name server and the broker."""
    between = RemotingPassThrough(broker_port)
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(await between.listen(namesrv_port))
        broker = await stack.enter_async_context(await between.listen(broker_port))
        between.namesrv_port, between.broker_port = (
            server.sockets[0].getsockname()[1] for server in (namesrv, broker)
        )
        yield between
