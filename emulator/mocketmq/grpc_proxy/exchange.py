"""The requests and responses of one RPC as protobuf messages, counted for the memory limits, or tapped."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.door_tap import DoorTap, GrpcAnswerMade, GrpcRequestRead
from mocketmq.grpc_proxy.codes import Status, StatusError
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.stream import Stream


class Exchange:
    """One RPC's requests, of the protobuf class ``request``, and responses.

    A ``MemoryReservation`` of the broker: messages for a consumer count until they are sent.
    """

    def __init__(self, memory: Memory, stream: Stream, request: Any) -> None:
        self.stream = stream
        self._memory = memory
        self._connection = stream.connection
        self._request = request
        self._unsent = 0

    def header(self, name: str) -> str:
        """A header of the request; "" if the request lacks it."""
        return self.stream.headers.get(name, "")

    @property
    def client_id(self) -> str:
        """The client id from the request's headers."""
        return self.header("x-mq-client-id")

    @property
    def remote(self) -> str:
        """The client's ``host:port``."""
        return str(self._connection.peer)

    @property
    def local(self) -> RegisteredBroker | None:
        """The broker to whose endpoint the client is connected; None for the cluster's endpoint."""
        found: RegisteredBroker | None = self._connection.local
        return found

    @property
    def has_begun(self) -> bool:
        """Whether the first response was sent."""
        return self.stream.has_begun

    @property
    def remaining_s(self) -> float | None:
        """Real seconds until the client's deadline, if it has one; 0 if it should get a response at once."""
        if self.stream.is_hurried:
            return 0.0
        expires_us = self.stream.expires_us
        return None if expires_us is None else (expires_us - steady_us()) / US_PER_S

    async def read(self) -> Any:
        """Return the client's next message, or None at the end. The message's bytes count until ``end``.

        Raises StatusError, and GrpcError for errors that belong in a response.
        """
        data = await self.stream.message()
        if data is None:
            return None
        try:
            return self._request.FromString(data)
        except Exception as error:  # noqa: BLE001 - protobuf's class depends on its implementation
            raise StatusError(
                Status.INVALID_ARGUMENT, f"the request message cannot be decoded: {error}"
            ) from None

    async def read_one(self) -> Any:
        """Return the client's only message. Raises StatusError if there is none."""
        message = await self.read()
        if message is None:
            raise StatusError(Status.INTERNAL, "Half-closed without a request")
        return message

    def send(self, message: Any) -> Awaitable[None]:
        """Send a response. While sending, only the serialized bytes are kept, not the message."""
        return self.stream.send(message.SerializeToString())

    def send_bytes(self, message: bytes) -> Awaitable[None]:
        """Send a response that was serialized before."""
        return self.stream.send(message)

    def finished(self) -> None:
        """Called after the last response."""

    async def wait_for_room(self, is_needed: Callable[[], bool] | None = None) -> None:
        """Do not wait: ``refuse`` is called if there is no room."""

    def reserve(self, most: int) -> int:
        """Reserve memory for up to ``most`` bytes of stored messages; return the number of bytes reserved.

        Raises CancelledError if the client has disconnected, so that the broker reads nothing for it. The
        handler would be cancelled anyway, a few iterations of the event loop later.
        """
        if not self.stream.is_connected:
            raise asyncio.CancelledError
        size = min(most, self._memory.room + self._unsent)
        self.settle(size)
        return size

    def settle(self, size: int) -> None:
        """Replace the reservation by the actual size, which counts until the messages are sent."""
        self._memory.unsent(self._connection, size - self._unsent)
        self._unsent = size

    def refuse(self) -> NoReturn:
        """Raise GrpcError, because memory for the next message is lacking."""
        self._memory.refuse_messages()

    def end(self) -> None:
        """Stop counting the requests that were read. May be called twice."""
        self.stream.release()

    def read_no_more(self) -> None:
        """Drop what the client still sends, which would count until it has read the last response."""
        self.stream.fail(StatusError(Status.CANCELLED, "the request was refused"))
        self.end()

    def hang_up(self) -> None:
        self._connection.end()


class TappedExchange(Exchange):
    """An exchange that is reported to the tap: each request once it is read, its responses once complete.

    On a Telemetry stream, each response belongs to the last request.
    """

    def __init__(self, memory: Memory, stream: Stream, request: Any, tap: DoorTap, rpc: str) -> None:
        super().__init__(memory, stream, request)
        self._tap = tap
        self._rpc = rpc
        self._number = 0
        self._responses: list[bytes] = []

    async def read(self) -> Any:
        """Read a message, and report it."""
        message = await super().read()
        if message is not None:
            headers = {
                name: value for name, value in self.stream.headers.items() if name.startswith("x-mq-client")
            }
            read = GrpcRequestRead(
                self._rpc,
                self.stream.stream_id,
                headers,
                self.header("x-mq-language"),
                message.SerializeToString(),
            )
            self._number = self._tap.asked(self.stream.connection.tap_number, read)
        return message

    def send(self, message: Any) -> Awaitable[None]:
        """Send a response, and keep it for the report."""
        self._keep(message.SerializeToString())
        return super().send(message)

    def send_bytes(self, message: bytes) -> Awaitable[None]:
        """Send a response, and keep it for the report."""
        self._keep(message)
        return super().send_bytes(message)

    def _keep(self, response: bytes) -> None:
        self._responses.append(response)
        if self._rpc == "Telemetry":
            self.finished()

    def finished(self) -> None:
        """Report the responses."""
        if self._number and self._responses:
            self._tap.answered(self._number, GrpcAnswerMade(self._responses))
        self._number, self._responses = 0, []
