"""A request and its answers on a stream, as messages of protobuf, with the memory that they take."""

from collections.abc import Awaitable
from typing import Any, NoReturn

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.status import Status, StatusError
from mocketmq.grpc_proxy.stream import Stream


class Exchange:
    """Made by the handler of an RPC, whose requests are of the class ``request``.

    It is the load of its client, which counts messages until they are sent (``broker.consuming.load``).
    """

    def __init__(self, memory: Memory, stream: Stream, request: Any) -> None:
        self.stream = stream
        self._memory = memory
        self._connection = stream.connection
        self._request = request
        self._unsent = 0

    def header(self, name: str) -> str:
        """A header of the request; "" if it has none of this name."""
        return self.stream.headers.get(name, "")

    @property
    def client_id(self) -> str:
        """The id by which the client calls itself."""
        return self.header("x-mq-client-id")

    @property
    def remote(self) -> str:
        """The client's ``host:port``."""
        return str(self._connection.peer)

    @property
    def has_begun(self) -> bool:
        """Whether something was sent."""
        return self.stream.has_begun

    @property
    def remaining_s(self) -> float | None:
        """Real seconds until the client's deadline, if it has one."""
        expires_us = self.stream.expires_us
        return None if expires_us is None else (expires_us - steady_us()) / US_PER_S

    async def read(self) -> Any:
        """The next message of the client, None at the end; it counts until ``end``.

        Raises StatusError, and GrpcError for what is to be told in an answer.
        """
        data = await self.stream.message()
        if data is None:
            return None
        try:
            return self._request.FromString(data)
        except Exception as error:  # noqa: BLE001 - protobuf's class depends on its implementation
            raise StatusError(Status.INVALID_ARGUMENT, f"the message cannot be read: {error}") from None

    async def read_one(self) -> Any:
        """The only message of the client; raises StatusError if there is none."""
        message = await self.read()
        if message is None:
            raise StatusError(Status.INTERNAL, "Half-closed without a request")
        return message

    def send(self, message: Any) -> Awaitable[None]:
        """Send an answer. While it is under way only its bytes are kept, not the message."""
        return self.stream.send(message.SerializeToString())

    def reserve(self, most: int) -> int:
        """Count up to ``most`` bytes of messages that are to be read, as far as there is room."""
        size = min(most, self._memory.room + self._unsent)
        self.settle(size)
        return size

    def settle(self, size: int) -> None:
        """Count messages of so many bytes until they are sent, in place of those counted before."""
        self._memory.unsent(self._connection, size - self._unsent)
        self._unsent = size

    def refuse(self) -> NoReturn:
        """Raise GrpcError, as there is no room for the next message."""
        self._memory.refuse_messages()

    def end(self) -> None:
        """Stop counting what was read. May be called twice."""
        self.stream.release()

    def hang_up(self) -> None:
        """Close the connection."""
        self._connection.end()
