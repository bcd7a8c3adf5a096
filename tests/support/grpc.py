"""A low-level gRPC client based on grpclib, and an emulator in the test's process."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from grpclib.client import Channel
from grpclib.config import Configuration
from grpclib.const import Cardinality

from mocketmq.app import Emulator, running_emulator
from mocketmq.calling.grpc_streams import begin
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.messages import Codec, message_class, set_us
from mocketmq.settings import Settings
from tests.support.brokers import FREE_PORTS
from tests.support.patience import PATIENCE_S

NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
COMMIT, ROLLBACK = 1, 2
UNAUTHORIZED = 40_100


class GrpcClient:
    """One connection of one client, opened by :func:`grpc_client`."""

    def __init__(
        self, channel: Channel, port: int, client_id: str, metadata: Mapping[str, str], patience_s: float
    ) -> None:
        self.channel = channel
        self.port = port
        self.patience_s = patience_s
        self.metadata = {"x-mq-client-id": client_id, "x-mq-language": "PYTHON"} | dict(metadata)
        self._numbers = itertools.count(1)

    async def call(self, rpc: str, *, path: str | None = None, **fields: Any) -> Any:
        """Call a unary RPC, at another path if ``path`` is given."""
        request_type, reply_type = message_class(f"{rpc}Request"), message_class(f"{rpc}Response")
        stream = self.channel.request(
            f"/{SERVICE}/{path or rpc}",
            Cardinality.UNARY_UNARY,
            request_type,
            reply_type,
            timeout=self.patience_s,
            metadata=self.metadata,
        )
        async with stream as call:
            await begin(call)
            await call.send_message(request_type(**fields), end=True)
            return await call.recv_message()

    async def send(self, *messages: Any) -> Any:
        """Send messages made by :meth:`message`."""
        return await self.call("SendMessage", messages=messages)

    def message(self, body: str, topic: str = "orders", delay_s: float | None = None, **system: Any) -> Any:
        """Build a message with the next id. ``delay_s`` sets its delivery timestamp."""
        message = message_class("Message")(
            topic={"name": topic},
            body=body.encode(),
            user_properties=system.pop("properties", {}),
            system_properties={"message_id": f"01{next(self._numbers):032X}", "body_encoding": 1, **system},
        )
        if delay_s is not None:
            set_us(message.system_properties.delivery_timestamp, wall_us() + int(delay_s * US_PER_S))
        return message

    async def receive(
        self,
        group: str = "billing",
        topic: str = "orders",
        *,
        invisible_s: int = 30,
        wait_s: float | None = 0,
        **more: Any,
    ) -> list[Any]:
        """Return the messages of a ReceiveMessage. Raises AssertionError if the server refuses."""
        status, messages = await self.try_receive(
            group, topic, invisible_s=invisible_s, wait_s=wait_s, **more
        )
        assert status.code in (20_000, 40_401), status
        assert bool(messages) == (status.code == 20_000)
        return messages

    async def try_receive(
        self, group: str, topic: str, *, invisible_s: float = 30, wait_s: float | None = 0, **more: Any
    ) -> tuple[Any, list[Any]]:
        """Return status and messages of a ReceiveMessage; without ``wait_s`` the request has no wait time."""
        request_type, reply_type = (
            message_class("ReceiveMessageRequest"),
            message_class("ReceiveMessageResponse"),
        )
        request = request_type(group={"name": group}, **({"batch_size": 32} | more))
        request.message_queue.topic.name = topic
        if not request.auto_renew:
            set_us(request.invisible_duration, int(invisible_s * US_PER_S))
        if wait_s is not None:
            set_us(request.long_polling_timeout, int(wait_s * US_PER_S))
        path = f"/{SERVICE}/ReceiveMessage"
        stream = self.channel.request(
            path,
            Cardinality.UNARY_STREAM,
            request_type,
            reply_type,
            timeout=self.patience_s + (wait_s or 0),
            metadata=self.metadata,
        )
        async with stream as call:
            await begin(call)
            await call.send_message(request, end=True)
            answers = [answer async for answer in call]
        kinds = [answer.WhichOneof("content") for answer in answers]
        status = answers[0].status
        if kinds != ["status"] or status.code != UNAUTHORIZED:  # then RocketMQ's proxy sends nothing else
            assert kinds == ["status", *["message"] * (len(answers) - 2), "delivery_timestamp"]
        return status, [answer.message for answer in answers[1:-1]]

    async def ack(self, *messages: Any, group: str = "billing", topic: str = "orders") -> Any:
        """Ack received messages."""
        entries = [
            {
                "message_id": one.system_properties.message_id,
                "receipt_handle": one.system_properties.receipt_handle,
            }
            for one in messages
        ]
        return await self.call("AckMessage", group={"name": group}, topic={"name": topic}, entries=entries)

    async def change(
        self, message: Any, invisible_s: float, group: str = "billing", topic: str = "orders"
    ) -> Any:
        """Change a received message's invisible duration."""
        return await self.call(
            "ChangeInvisibleDuration",
            group={"name": group},
            topic={"name": topic},
            receipt_handle=message.system_properties.receipt_handle,
            message_id=message.system_properties.message_id,
            invisible_duration={"seconds": int(invisible_s)},
        )

    @asynccontextmanager
    async def telemetry(self) -> AsyncIterator["Telemetry"]:
        """Open a Telemetry stream, and close it on exit."""
        command = message_class("TelemetryCommand")
        stream = self.channel.request(
            f"/{SERVICE}/Telemetry", Cardinality.STREAM_STREAM, command, command, metadata=self.metadata
        )
        async with stream as call:
            telemetry = Telemetry(call, self.patience_s)
            yield telemetry
            if not telemetry.is_half_closed:
                await call.cancel()


class Telemetry:
    """An open Telemetry stream."""

    def __init__(self, call: Any, patience_s: float) -> None:
        self.is_half_closed = False
        self._call = call
        self._patience_s = patience_s

    async def settings(self, **fields: Any) -> Any:
        """Send the client's settings, and return the answer."""
        await self.say(message_class("TelemetryCommand")(settings=fields))
        return await self.command()

    async def say(self, command: Any) -> None:
        """Send a command."""
        await self._call.send_message(command)

    async def produce(self, *topics: str) -> Any:
        """Register as a producer of these topics."""
        return await self.settings(
            client_type=1, publishing={"topics": [{"name": topic} for topic in topics]}
        )

    async def consume(self, group: str = "billing", topic: str = "orders") -> Any:
        """Register as a push consumer."""
        entry = {"topic": {"name": topic}, "expression": {"type": 1, "expression": "*"}}
        return await self.settings(
            client_type=2, subscription={"group": {"name": group}, "subscriptions": [entry]}
        )

    async def half_close(self) -> None:
        """Send nothing more. The server must end the stream."""
        self.is_half_closed = True
        await self._call.end()

    async def command(self) -> Any:
        """Return the server's next command."""
        async with asyncio.timeout(self._patience_s):
            return await self._call.recv_message()


@asynccontextmanager
async def grpc_client(
    port: int,
    client_id: str = "host@1@0@abc",
    *,
    metadata: Mapping[str, str] = {},
    ssl: Any = None,
    config: Configuration | None = None,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[GrpcClient]:
    """Connect a client that waits up to ``patience_s`` for answers."""
    codec: Any = Codec()
    channel = Channel("127.0.0.1", port, codec=codec, ssl=ssl, config=config)
    try:
        yield GrpcClient(channel, port, client_id, metadata, patience_s)
    finally:
        channel.close()


async def touch(address: str, ssl: Any = None) -> None:
    """Make the broker import its gRPC modules, because some SDKs time out first on a busy machine."""
    async with grpc_client(int(address.rpartition(":")[2]), ssl=ssl) as client:
        await client.call("Heartbeat")


@asynccontextmanager
async def running_grpc(**changed: Any) -> AsyncIterator[tuple[Emulator, GrpcClient]]:
    """Run an in-memory emulator with a manual clock, and a client connected to it."""
    settings = Settings(**{**FREE_PORTS, "data": ":memory:", "clock": "manual", **changed})
    async with running_emulator(settings) as emulator:
        door = emulator.doors.grpc
        assert door
        async with grpc_client(door.port) as client:
            yield emulator, client


def bodies(messages: list[Any]) -> list[str]:
    """Return the messages' bodies, sorted."""
    return sorted(message.body.decode() for message in messages)
