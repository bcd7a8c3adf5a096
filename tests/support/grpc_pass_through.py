"""A gRPC server between a client and a proxy, which forwards every RPC and records what the client sends."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from grpclib.client import Channel
from grpclib.const import Cardinality, Handler
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream

from mocketmq.grpc_proxy.definitions import SERVICE
from tests.doors.grpc.recorded import Recorded

HOST = "127.0.0.1"
RPCS: Mapping[str, Cardinality] = {
    "ReceiveMessage": Cardinality.UNARY_STREAM,
    "Telemetry": Cardinality.STREAM_STREAM,
    **dict.fromkeys(
        (
            *("QueryRoute", "QueryAssignment", "Heartbeat", "SendMessage", "AckMessage", "EndTransaction"),
            *("ForwardMessageToDeadLetterQueue", "NotifyClientTermination", "ChangeInvisibleDuration"),
            *("RecallMessage", "SyncLiteSubscription"),
        ),
        Cardinality.UNARY_UNARY,
    ),
}


class _Bytes:
    """A codec of grpclib that leaves messages as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: bytes, _message_type: Any) -> bytes:
        return message

    def decode(self, data: bytes, _message_type: Any) -> bytes:
        return data


class PassThrough:
    """Forwards to a proxy, and keeps what clients sent."""

    def __init__(self, channel: Channel) -> None:
        self.port = 0
        self.sent: list[Recorded] = []
        self._channel = channel

    def __mapping__(self) -> dict[str, Handler]:
        """Return the handlers, as grpclib asks."""

        def handler(name: str, cardinality: Cardinality) -> Handler:
            async def handle(stream: Stream[bytes, bytes]) -> None:
                await self._forward(name, cardinality, stream)

            return Handler(handle, cardinality, bytes, bytes)

        return {f"/{SERVICE}/{name}": handler(name, cardinality) for name, cardinality in RPCS.items()}

    async def _forward(self, name: str, cardinality: Cardinality, stream: Stream[bytes, bytes]) -> None:
        assert stream.metadata is not None
        headers = {key: value for key, value in stream.metadata.items() if isinstance(value, str) and value}
        kind = "TelemetryCommand" if name == "Telemetry" else f"{name}Request"
        path = f"/{SERVICE}/{name}"
        is_endless = cardinality is Cardinality.STREAM_STREAM
        deadline = None if is_endless else stream.deadline  # grpclib writes Java's, of years, in a wrong form
        request = self._channel.request(path, cardinality, bytes, bytes, deadline=deadline, metadata=headers)
        async with request as onward:
            await onward.send_request()

            async def send_on() -> None:
                while (message := await stream.recv_message()) is not None:
                    self.sent.append(Recorded(kind, headers, message))
                    await onward.send_message(message, end=not is_endless)
                    if not is_endless:
                        return
                await onward.end()

            sending = asyncio.create_task(send_on())
            try:
                while (answer := await onward.recv_message()) is not None:
                    await stream.send_message(answer)
            except GRPCError as error:
                raise GRPCError(error.status, error.message) from None
            finally:
                sending.cancel()
                await asyncio.wait([sending])


@asynccontextmanager
async def passing_through(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[PassThrough]:
    """Run a server before the proxy at this port; with ``tls``, for clients that insist on TLS."""
    codec: Any = _Bytes()
    channel = Channel(HOST, port, codec=codec)
    between = PassThrough(channel)
    server = Server([between], codec=codec)
    await server.start(HOST, 0, ssl=tls)
    assert isinstance(server._server, asyncio.Server)
    between.port = server._server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        server.close()
        await server.wait_closed()
        channel.close()
