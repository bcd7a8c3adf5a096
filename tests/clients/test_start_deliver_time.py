"""Delayed messages: ``__STARTDELIVERTIME`` as every SDK sets and shows it.

The broker's clock stands still, and the SDK uses the wall clock. So a message that is due in a minute by the
wall clock is due in a minute by the broker's clock, minus the time the message took to arrive.
"""

import asyncio
import time

import pytest

from tests.clients.conftest import Broker, Open, running_broker
from tests.clients.sdk import Account, Outgoing, RefusedError, Sdk
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"
MINUTE_MS = 60_000
DAY_MS = 86_400_000
SLOWEST_MS = 30_000
"""Maximum time that a message may take to arrive."""


def in_ms(delay_ms: int) -> int:
    """Compute a start-deliver time from the wall clock, as applications do."""
    return int(time.time() * 1000) + delay_ms


@pytest.mark.point("A delayed message arrives at its start-deliver time, never before, and keeps the time")
async def test_delayed(broker: Broker, sdk: Sdk, topic: str) -> None:
    now_ms = await broker.now_ms()
    start_ms = in_ms(MINUTE_MS)
    outgoing = Outgoing(body="later", tag="timeout", key="7", start_deliver_ms=start_ms)
    published = await sdk.publish(topic, outgoing)

    due_ms = await broker.due_ms(topic)
    assert now_ms + MINUTE_MS - SLOWEST_MS < due_ms <= now_ms + MINUTE_MS
    assert await sdk.take(topic, GROUP) == []
    await broker.control.move_to(due_ms - 1)
    assert await sdk.take(topic, GROUP) == []
    await broker.control.move_to(due_ms)

    [message] = await sdk.take(topic, GROUP)
    assert message.message_id == published.message_id
    assert (message.body, message.tag, message.key) == ("later", "timeout", "7")
    assert message.start_deliver_ms == start_ms
    assert message.properties == {}
    assert message.publish_ms == now_ms
    await sdk.acknowledge(topic, GROUP, [message.handle])
    assert await sdk.take(topic, GROUP) == []


@pytest.mark.point("Delayed messages arrive in the order of their due times, not of publishing")
async def test_order(broker: Broker, sdk: Sdk, topic: str) -> None:
    for minutes in (3, 1, 2):
        await sdk.publish(topic, Outgoing(body=str(minutes), start_deliver_ms=in_ms(minutes * MINUTE_MS)))
    taken = []
    for _ in range(3):
        await broker.control.advance("60s")
        taken.append(await sdk.bodies(topic, GROUP))
    assert taken == [["1"], ["2"], ["3"]]


@pytest.mark.point("A long poll is answered when a delayed message becomes due")
async def test_long_poll(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="later", start_deliver_ms=in_ms(MINUTE_MS)))
    poll = asyncio.create_task(sdk.bodies(topic, GROUP, wait_s=30))
    await broker.long_polls(1)
    await broker.control.advance("60s")
    async with asyncio.timeout(PATIENCE_S):
        assert await poll == ["later"]


@pytest.mark.point("With the real clock, a long poll is answered at the start-deliver time and not before")
async def test_real_clock(open_sdk: Open, topic: str) -> None:
    async with running_broker(clock="real") as real, open_sdk(Account(real.url)) as sdk:
        for delay_ms in (1_000, 4_000, 16_000):  # a busy machine may take longer to send than the first delay
            start_ms = in_ms(delay_ms)
            await sdk.publish(topic, Outgoing(body="soon", start_deliver_ms=start_ms))
            [message] = await sdk.take(topic, GROUP, wait_s=30)
            assert in_ms(0) >= start_ms
            assert (message.body, message.start_deliver_ms) == ("soon", start_ms)
            if message.publish_ms < start_ms <= message.first_consume_ms:
                return
            await sdk.acknowledge(topic, GROUP, [message.handle])
            assert message.publish_ms >= start_ms
        pytest.fail("no message arrived before its start-deliver time")


@pytest.mark.point("A message with a start-deliver time in the past arrives at once and keeps the time")
async def test_past(sdk: Sdk, topic: str) -> None:
    start_ms = in_ms(-1)
    await sdk.publish(topic, Outgoing(body="now", start_deliver_ms=start_ms))
    [message] = await sdk.take(topic, GROUP)
    assert (message.body, message.start_deliver_ms) == ("now", start_ms)


@pytest.mark.point("39 days ahead are kept, 41 days are refused: `InvalidArgument`")
async def test_forty_days(broker: Broker, sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.publish(topic, Outgoing(start_deliver_ms=in_ms(41 * DAY_MS)))
    assert refused.value.code == "InvalidArgument"

    await sdk.publish(topic, Outgoing(body="far", start_deliver_ms=in_ms(39 * DAY_MS)))
    await broker.control.advance("38d")
    assert await sdk.take(topic, GROUP) == []
    await broker.control.advance("1d")
    assert await sdk.bodies(topic, GROUP) == ["far"]


@pytest.mark.point(
    "A start-deliver time that is not a number is refused: `InvalidArgument`", "python", "node"
)
async def test_malformed(sdk: Sdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await sdk.publish(topic, Outgoing(start_deliver_ms="tomorrow"))
    assert refused.value.code == "InvalidArgument"


@pytest.mark.point("A delayed message that is not acknowledged comes again without the delay")
async def test_the_message_is_redelivered(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="later", start_deliver_ms=in_ms(MINUTE_MS)))
    await broker.control.advance("60s")
    [first] = await sdk.take(topic, GROUP)
    await broker.control.advance("300s")
    [second] = await sdk.take(topic, GROUP)
    assert (second.message_id, second.times) == (first.message_id, 2)
    assert second.start_deliver_ms == first.start_deliver_ms


@pytest.mark.point("A delayed message can be cancelled by the JSON API, with the id that the SDK got")
async def test_cancelled(broker: Broker, sdk: Sdk, topic: str) -> None:
    published = await sdk.publish(topic, Outgoing(start_deliver_ms=in_ms(MINUTE_MS)))
    await broker.control.cancel(published.message_id)
    await broker.control.advance("60s")
    assert await sdk.take(topic, GROUP) == []
