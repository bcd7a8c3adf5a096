"""An RPC whose requests and responses are reported to the tap of the doors."""

from collections.abc import Awaitable
from typing import Any

from mocketmq.door_tap import DoorTap, GrpcAnswerMade, GrpcRequestRead
from mocketmq.grpc_proxy.exchange import Exchange
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.stream import Stream


class TappedExchange(Exchange):
    """Reports each request once it is read, and the responses to it once they are complete.

    On the stream of Telemetry, each response answers the last request.
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
