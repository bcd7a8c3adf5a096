"""Delayed messages with RocketMQ's Java clients."""

import time

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver
from tests.clients.remoting.test_delaying import HOUR_MS, LEVELS_S, arrives_at

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

DELAY_MS = 1_234_567


@pytest_asyncio.fixture(loop_scope="session")
async def topic(broker: RemotingBroker, driver: Driver, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order, and a consumer of the same name."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    await driver.call("consume", group=topic, topic=topic)
    return topic


@pytest.mark.feature("Delay levels", "java-4.9", "java-5.5")
@pytest.mark.feature("All 18 levels, to the millisecond", "java-4.9", "java-5.5")
async def test_every_level(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    now_ms = (await broker.control.clock())["now_ms"]
    for level in range(1, 19):
        await driver.call("send", topic=topic, body=str(level), delay_level=level)
    for level, delay_s in enumerate(LEVELS_S, start=1):
        assert await arrives_at(broker, driver, topic, now_ms + delay_s * 1_000) == str(level)


@pytest.mark.feature("`__STARTDELIVERTIME`", "java-4.9", "java-5.5")
async def test_start_deliver_time(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    instant_ms = int(time.time() * 1_000) + HOUR_MS
    await driver.call(
        "send", topic=topic, body="in an hour", properties={"__STARTDELIVERTIME": str(instant_ms)}
    )
    [due_ms] = await broker.pending(topic)
    assert await arrives_at(broker, driver, topic, due_ms) == "in an hour"


@pytest.mark.feature("Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`", "java-5.5")
@pytest.mark.parametrize("client", ["java-5.5"], indirect=True)
@pytest.mark.parametrize(
    ("setter", "delay_ms"),
    [(("setDelayTimeSec", 90), 90_000), (("setDelayTimeMs", DELAY_MS), DELAY_MS)],
    ids=["seconds", "milliseconds"],
)
async def test_a_timer(
    broker: RemotingBroker, driver: Driver, topic: str, setter: tuple[str, int], delay_ms: int
) -> None:
    now_ms = (await broker.control.clock())["now_ms"]
    await driver.call("send", topic=topic, body="later", setter=setter)
    assert await arrives_at(broker, driver, topic, now_ms + delay_ms) == "later"


@pytest.mark.feature("Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`", "java-5.5")
@pytest.mark.parametrize("client", ["java-5.5"], indirect=True)
async def test_a_timer_of_an_instant(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    instant_ms = int(time.time() * 1_000) + HOUR_MS
    await driver.call("send", topic=topic, body="in an hour", setter=("setDeliverTimeMs", instant_ms))
    [due_ms] = await broker.pending(topic)
    assert await arrives_at(broker, driver, topic, due_ms) == "in an hour"
