"""Consuming in order, per sharding key, with every SDK."""

import pytest

from tests.clients.conftest import Broker
from tests.clients.sdk import Outgoing, Sdk

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_steps"


async def publish_steps(sdk: Sdk, topic: str, sharding_key: str, count: int) -> None:
    for number in range(count):
        body = f"{sharding_key} {number}"
        await sdk.publish(topic, Outgoing(body=body, sharding_key=sharding_key))


@pytest.mark.point("A sharding key's messages in order, the next batch only after the last is acknowledged")
async def test_batches(sdk: Sdk, topic: str) -> None:
    await publish_steps(sdk, topic, "order-1", 4)
    batch = await sdk.take(topic, GROUP, limit=2, orderly=True)
    assert [message.body for message in batch] == ["order-1 0", "order-1 1"]
    assert {message.sharding_key for message in batch} == {"order-1"}
    for message in batch:
        assert await sdk.take(topic, GROUP, orderly=True) == []
        await sdk.acknowledge(topic, GROUP, [message.handle])
    assert await sdk.bodies(topic, GROUP, orderly=True) == ["order-1 2", "order-1 3"]


@pytest.mark.point("Messages not acknowledged within 60 s come again, in order")
async def test_the_message_is_redelivered(broker: Broker, sdk: Sdk, topic: str) -> None:
    await publish_steps(sdk, topic, "order-1", 3)
    first = await sdk.take(topic, GROUP, limit=2, orderly=True)
    assert {message.next_consume_ms for message in first} == {await broker.now_ms() + 60_000}
    await broker.control.advance("59s")
    assert await sdk.take(topic, GROUP, orderly=True) == []
    await broker.control.advance("1s")
    second = await sdk.take(topic, GROUP, limit=2, orderly=True)
    assert [message.body for message in second] == ["order-1 0", "order-1 1"]
    await sdk.acknowledge(topic, GROUP, [message.handle for message in second])
    assert await sdk.bodies(topic, GROUP, orderly=True) == ["order-1 2"]


@pytest.mark.point("Sharding keys do not wait for each other")
async def test_keys_are_independent(sdk: Sdk, topic: str) -> None:
    for number in range(16):
        await publish_steps(sdk, topic, f"order-{number}", 1)
    [first] = await sdk.take(topic, GROUP, limit=1, orderly=True)
    others = await sdk.take(topic, GROUP, orderly=True)
    assert others
    assert first.sharding_key not in {message.sharding_key for message in others}
