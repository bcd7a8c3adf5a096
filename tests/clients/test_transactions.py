"""Half messages: committed, rolled back and checked, with every SDK."""

import pytest

from tests.clients.conftest import Broker
from tests.clients.sdk import NOTHING, NotSettledError, Outgoing, Sdk

pytestmark = pytest.mark.asyncio(loop_scope="session")

PRODUCERS = "GID_orders"
CONSUMERS = "GID_billing"
HALF = Outgoing(body="pay 7", tag="pay", key="7", check_after_s=10, properties={"shop": "north"})


@pytest.mark.point("A half message is invisible until it is committed with the handle of its publishing")
async def test_commit(sdk: Sdk, topic: str) -> None:
    published = await sdk.publish_half(topic, PRODUCERS, HALF)
    assert published.handle
    assert await sdk.take(topic, CONSUMERS) == []
    await sdk.commit(topic, PRODUCERS, published.handle)
    [message] = await sdk.take(topic, CONSUMERS)
    assert message.message_id == published.message_id
    assert (message.body, message.tag, message.key) == ("pay 7", "pay", "7")
    assert message.properties == {"shop": "north"}
    assert await sdk.halves(topic, PRODUCERS) == []


@pytest.mark.point("A half message that is rolled back never becomes visible")
async def test_rollback(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish_half(topic, PRODUCERS, HALF)
    assert published.handle
    await sdk.rollback(topic, PRODUCERS, published.handle)
    await broker.control.advance("1h")
    assert await sdk.halves(topic, PRODUCERS) == []
    assert await sdk.take(topic, CONSUMERS) == []


@pytest.mark.point(
    "The producers of a half message are asked from the check time on, every 10 s, until it is settled"
)
async def test_check(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish_half(topic, PRODUCERS, HALF)
    await broker.control.advance("9s")
    assert await sdk.halves(topic, PRODUCERS) == []
    await broker.control.advance("1s")
    [first] = await sdk.halves(topic, PRODUCERS)
    assert (first.message_id, first.body) == (published.message_id, "pay 7")
    assert await sdk.halves(topic, PRODUCERS) == []
    await broker.control.advance("10s")
    [second] = await sdk.halves(topic, PRODUCERS)
    assert (second.message_id, second.times) == (first.message_id, 2)

    await sdk.commit(topic, PRODUCERS, second.handle)
    assert await sdk.bodies(topic, CONSUMERS) == ["pay 7"]
    await broker.control.advance("10s")
    assert await sdk.halves(topic, PRODUCERS) == []


@pytest.mark.point("A half message can be rolled back when its producers are asked")
async def test_check_and_rollback(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish_half(topic, PRODUCERS, HALF)
    await broker.control.advance("10s")
    [half] = await sdk.halves(topic, PRODUCERS)
    await sdk.rollback(topic, PRODUCERS, half.handle)
    await broker.control.advance("1h")
    assert await sdk.halves(topic, PRODUCERS) == []
    assert await sdk.take(topic, CONSUMERS) == []


@pytest.mark.point("A used or expired handle of a half message is refused and decides nothing")
async def test_stale_handles(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish_half(topic, PRODUCERS, HALF)
    assert published.handle
    await broker.control.advance("10s")
    with pytest.raises(NotSettledError) as expired:
        await sdk.commit(topic, PRODUCERS, published.handle)
    assert expired.value.failed == {published.handle: NOTHING}
    assert await sdk.take(topic, CONSUMERS) == []

    [half] = await sdk.halves(topic, PRODUCERS)
    await sdk.rollback(topic, PRODUCERS, half.handle)
    with pytest.raises(NotSettledError) as used:
        await sdk.commit(topic, PRODUCERS, half.handle)
    assert used.value.failed == {half.handle: NOTHING}
    assert await sdk.take(topic, CONSUMERS) == []
