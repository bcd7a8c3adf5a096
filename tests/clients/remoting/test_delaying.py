"""Delayed messages with RocketMQ's clients for Python and Node."""

import time
from collections.abc import Callable

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

TIMERS = "Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
LEVELS_S = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200]


@pytest_asyncio.fixture(loop_scope="session")
async def topic(broker: RemotingBroker, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    return topic


async def arrives_at(broker: RemotingBroker, driver: Driver, topic: str, due_ms: int) -> str:
    """Return the body of the message that becomes visible at exactly this millisecond."""
    await broker.control.move_to(due_ms - 1)
    await driver.call("send", topic=topic, body="earlier")
    assert await driver.bodies(topic, 1) == ["earlier"]
    await broker.control.move_to(due_ms)
    return (await driver.next(topic)).body


async def arrives_at_each_level(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """Check that a message of each level becomes visible at its due time."""
    await driver.call("consume", group=topic, topic=topic)
    now_ms = (await broker.control.clock())["now_ms"]
    for level in range(1, 19):
        await driver.call("send", topic=topic, body=str(level), delay_level=level)
    for level, delay_s in enumerate(LEVELS_S, start=1):
        assert await arrives_at(broker, driver, topic, now_ms + delay_s * 1_000) == str(level)


@pytest.mark.feature("Delay levels", "python", "node")
@pytest.mark.feature("All 18 levels, to the millisecond", "python", "node")
async def test_every_level(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await arrives_at_each_level(broker, driver, topic)


async def arrives_in_an_hour(
    broker: RemotingBroker, driver: Driver, topic: str, at: Callable[[int], dict[str, object]]
) -> None:
    """Check that a message with a wall-clock instant in milliseconds becomes visible at that instant."""
    await driver.call("consume", group=topic, topic=topic)
    now_ms = (await broker.control.clock())["now_ms"]
    instant_ms = int(time.time() * 1_000) + HOUR_MS
    await driver.call("send", topic=topic, body="in an hour", **at(instant_ms))
    [due_ms] = await broker.pending(topic)
    assert 0 <= now_ms + HOUR_MS - due_ms < MINUTE_MS
    assert await arrives_at(broker, driver, topic, due_ms) == "in an hour"


@pytest.mark.feature("`__STARTDELIVERTIME`", "python", "node")
async def test_start_deliver_time(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await arrives_in_an_hour(broker, driver, topic, lambda instant_ms: {"start_deliver_ms": instant_ms})


@pytest.mark.feature("`__STARTDELIVERTIME`", "python", "node")
async def test_a_start_deliver_time_in_the_past(driver: Driver, topic: str) -> None:
    await driver.call("consume", group=topic, topic=topic)
    await driver.call("send", topic=topic, body="at once", start_deliver_ms=1)
    assert await driver.bodies(topic, 1) == ["at once"]


@pytest.mark.feature(TIMERS, "python", "node")
@pytest.mark.parametrize(("name", "delay"), [("TIMER_DELAY_SEC", "90"), ("TIMER_DELAY_MS", "90000")])
async def test_a_timer(broker: RemotingBroker, driver: Driver, topic: str, name: str, delay: str) -> None:
    await driver.call("consume", group=topic, topic=topic)
    now_ms = (await broker.control.clock())["now_ms"]
    await driver.call("send", topic=topic, body="later", properties={name: delay})
    assert await arrives_at(broker, driver, topic, now_ms + 90_000) == "later"


@pytest.mark.feature(TIMERS, "python", "node")
async def test_a_timer_with_an_instant(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await arrives_in_an_hour(
        broker, driver, topic, lambda instant_ms: {"properties": {"TIMER_DELIVER_MS": str(instant_ms)}}
    )
