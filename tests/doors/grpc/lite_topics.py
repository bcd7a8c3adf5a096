"""Lite topics of the topic ``chats``, and the requests of their consumers over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from mocketmq.app import Emulator
from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, USUAL
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.grpc_proxy.clients import LITE_PUSH_CONSUMER
from tests.support.grpc import GrpcClient, Telemetry, grpc_client
from tests.support.patience import PATIENCE_S

ADD, REMOVE, REPLACE, LEAVE = range(4)
LITE = 5
OK = 20_000
MINUTE_US = 60_000_000


async def make(emulator: Emulator, topic: Mapping[str, str] = {}, **group: str) -> None:
    """Create the topic ``chats`` of lite topics, and a group that consumes them, with these attributes."""
    registry = emulator.broker.registry
    attributes = {"message.type": "LITE", **topic}
    await registry.topics.put("chats", 4, 4, 6, replace(PLAIN, attributes=attributes))
    of_group = {f"lite.sub.{name.replace('_', '.')}": value for name, value in group.items()}
    config = replace(USUAL, attributes={LITE_BIND_TOPIC: "chats", **of_group})
    await registry.groups.put("agents", 16, 1, config)


@asynccontextmanager
async def lite_client(
    port: int, client_id: str = "a@1@0@x", kind: int = LITE_PUSH_CONSUMER, group: str = "agents"
) -> AsyncIterator[tuple[GrpcClient, Telemetry]]:
    """Connect a consumer of lite topics of ``chats``."""
    entry = {"topic": {"name": "chats"}, "expression": {"type": 1, "expression": "*"}}
    subscription = {"group": {"name": group}, "subscriptions": [entry]}
    async with grpc_client(port, client_id) as client, client.telemetry() as telemetry:
        answer = await telemetry.settings(client_type=kind, subscription=subscription)
        assert answer.status.code == OK
        yield client, telemetry


async def sync(client: GrpcClient, action: int, *names: str, group: str = "agents", **more: Any) -> Any:
    """Call SyncLiteSubscription, and return the status."""
    answer = await client.call(
        "SyncLiteSubscription",
        action=action,
        topic={"name": "chats"},
        group={"name": group},
        lite_topic_set=names,
        **more,
    )
    return answer.status


async def send(client: GrpcClient, name: str, *bodies: str) -> None:
    """Send messages to a lite topic of ``chats``."""
    answer = await client.send(*(client.message(body, "chats", lite_topic=name) for body in bodies))
    assert answer.status.code == OK, answer


async def receive(client: GrpcClient, **more: Any) -> list[Any]:
    """Receive for ``agents``."""
    return await client.receive("agents", "chats", **more)


def bodies(messages: list[Any]) -> list[str]:
    return [f"{one.system_properties.lite_topic}:{one.body.decode()}" for one in messages]


async def ack(client: GrpcClient, *messages: Any) -> None:
    """Acknowledge as SDKs do, with the lite topics."""
    entries = [
        {
            "message_id": one.system_properties.message_id,
            "receipt_handle": one.system_properties.receipt_handle,
            "lite_topic": one.system_properties.lite_topic,
        }
        for one in messages
    ]
    answer = await client.call(
        "AckMessage", group={"name": "agents"}, topic={"name": "chats"}, entries=entries
    )
    assert answer.status.code == OK, answer


async def no_subscriptions(emulator: Emulator) -> None:
    """Wait until the clients have left with their subscriptions."""
    async with asyncio.timeout(PATIENCE_S):
        while emulator.broker.lite_subscriptions.count:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0)
