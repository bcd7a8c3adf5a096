"""A request and its answers on one of grpclib's streams, with the memory that they take."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from mocketmq.connections.budget import FREE_BYTES
from mocketmq.doors import with_port
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.grpc_proxy.memory import Memory, Upload

MAX_REQUEST_BYTES: Final = 32 << 20
"""Above any message that the settings allow, with its properties."""
_PREFIX_BYTES: Final = 5
_PIECE_BYTES: Final = 64 << 10
_REQUEST_BYTES: Final = 1 << 10
"""Memory of a request beside its bytes, roughly."""


class Exchange:
    """Made by the handler of an RPC."""

    def __init__(self, memory: Memory, stream: Any) -> None:
        self.stream = stream
        self._memory = memory
        self._connection = stream._stream._transport
        self._running = 0

    def header(self, name: str) -> str:
        """A header of the request; "" if it has none of this name."""
        return str(self.stream.metadata.get(name, ""))

    @property
    def client_id(self) -> str:
        """The id by which the client calls itself."""
        return self.header("x-mq-client-id")

    @property
    def remote(self) -> str:
        """The client's ``host:port``."""
        address = self.stream.peer.addr()
        return with_port(*address[:2]) if address else "127.0.0.1:0"

    @property
    def has_begun(self) -> bool:
        """Whether something was sent."""
        return bool(self.stream._send_initial_metadata_done)

    async def read(self, limit: int = MAX_REQUEST_BYTES) -> Any:
        """The next message of the client, None at the end; it counts until ``end``.

        As grpclib's, but limited. Raises GRPCError, and GrpcError for what is to be told in an answer.
        """
        below = self.stream._stream
        try:
            prefix = await below.recv_data(_PREFIX_BYTES)
        except AssertionError:
            raise _cut_short() from None
        if not prefix:
            return None
        size = int.from_bytes(prefix[1:], "big")
        if prefix[0]:
            raise GRPCError(Status.UNIMPLEMENTED, "compressed messages are not supported")
        if size > limit:
            raise GrpcError(
                Code.MESSAGE_BODY_TOO_LARGE, f"the request has {size} bytes; allowed: up to {limit}"
            )
        try:
            data = await (self._large(below, size) if size > FREE_BYTES else below.recv_data(size))
        except AssertionError:
            raise _cut_short() from None
        self._running = size + _REQUEST_BYTES
        self._memory.runs(self._connection, self._running)
        try:
            return self.stream._codec.decode(data, self.stream._recv_type)
        except Exception as error:  # noqa: BLE001 - protobuf's class depends on its implementation
            raise GRPCError(Status.INVALID_ARGUMENT, f"the message cannot be read: {error}") from None

    async def read_one(self, limit: int = MAX_REQUEST_BYTES) -> Any:
        """The only message of the client; raises GRPCError if there is none."""
        message = await self.read(limit)
        if message is None:
            raise GRPCError(Status.INTERNAL, "Half-closed without a request")
        return message

    async def _large(self, below: Any, size: int) -> bytes:
        task = asyncio.current_task()
        upload, pieces = Upload(self._connection, task), []
        try:
            while upload.size < size:
                piece = await below.recv_data(min(_PIECE_BYTES, size - upload.size))
                if not piece:  # at the end of the stream grpclib returns nothing, and does not wait
                    raise AssertionError
                self._memory.grow(upload, len(piece))
                pieces.append(piece)
        except asyncio.CancelledError:
            if not upload.is_given_up or task is None or task.uncancel():
                raise
            raise GrpcError(
                Code.TOO_MANY_REQUESTS, "others wait for the memory that this unfinished request takes"
            ) from None
        finally:
            self._memory.end(upload)
        return b"".join(pieces)

    async def send(self, message: Any) -> None:
        """Send an answer."""
        await self.stream.send_message(message)

    @contextmanager
    def sending(self, size: int) -> Iterator[Callable[[Any], Any]]:
        """Send messages of so many bytes by what this gives. Raises GrpcError."""
        self._memory.send(self._connection, size)
        try:
            yield self.stream.send_message
        finally:
            self._memory.sent(self._connection, size)

    def end(self) -> None:
        """Count what was read no more. May be called twice."""
        if self._running:
            running, self._running = self._running, 0
            self._memory.runs(self._connection, -running)

    def hang_up(self) -> None:
        """Close the connection."""
        self.stream._stream.connection.close()


def _cut_short() -> GRPCError:
    return GRPCError(Status.INTERNAL, "Encountered end-of-stream mid-frame")
