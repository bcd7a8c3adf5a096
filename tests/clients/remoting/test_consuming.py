"""Consuming with RocketMQ's clients for Python and Node."""

import asyncio
import re
from typing import Any

import pytest

from mocketmq import BrokerError
from tests.clients.remoting.arrivals import arrive_by_tag
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import committed
from tests.clients.remoting.sharing import share_the_queues

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.feature("Push consumer", "python", "node")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, driver: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, driver, topic)


@pytest.mark.feature("Tag filters", "python", "node")
async def test_tags(driver: Driver, topic: str) -> None:
    await arrive_by_tag(driver, topic)


@pytest.mark.feature("Failed messages are retried", "python", "node")
async def test_retries(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    group = f"GID_{topic}"
    await driver.call("send", topic=topic, body="again", tag="a", keys=["7"])
    await driver.call("consume", group=group, topic=topic, failures=2)
    first = await driver.next(group)
    assert (first.body, first.times) == ("again", 0)
    for times, delay_ms in ((1, 10_000), (2, 30_000)):
        now_ms = (await broker.control.clock())["now_ms"]
        assert await broker.pending(f"%RETRY%{group}") == [now_ms + delay_ms]
        await broker.control.move_to(now_ms + delay_ms)
        retried = await driver.next(group)
        assert (retried.topic, retried.body, retried.times) == (topic, "again", times)
        assert (retried.tag, retried.keys) == ("a", "7")


@pytest.mark.slow
async def test_consumers_that_do_not_answer(
    broker: RemotingBroker, client: str, driver: Driver, topic: str
) -> None:
    """The broker waits ten real seconds for the consumers. docs/rocketmq.md has an alternative for Python."""
    sent = await driver.call("send", topic=topic, body="once")
    await driver.call("consume", group=topic, topic=topic)
    await driver.next(topic)
    consumer = await broker.consumer_of(topic)
    asked = [broker.control.consume(consumer, sent["message_id"], group=topic)]
    if client == "node":
        asked.append(broker.control.running_info(consumer, group=topic))
    else:
        info = await broker.control.running_info(consumer, group=topic)
        assert topic in {one["topic"] for one in info["subscriptionSet"]}
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(answer, BrokerError)
        assert re.search("did not answer within 10 s", str(answer))
    assert not driver.received[topic]


@pytest.mark.feature("Queues are shared by the members of a group", "python", "node")
async def test_members_share_the_queues(
    broker: RemotingBroker, driver: Driver, hurry: dict[str, Any], topic: str
) -> None:
    await share_the_queues(broker, driver, topic, **hurry)


@pytest.mark.feature("Push consumer, broadcasting", "python", "node")
async def test_broadcasting(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """A member starts at the end of a queue, and may get the queue some time after its own start."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    members = [f"{topic}-1", f"{topic}-2"]
    for member in members:
        await driver.call("consume", group=topic, topic=topic, member=member, broadcasting=True)
    async with asyncio.timeout(WAIT_S):
        while not all(driver.received[member] for member in members):
            await driver.call("send", topic=topic, body="are you there?")
    await driver.call("send", topic=topic, body="to all")
    for member in members:
        while (await driver.next(member)).body != "to all":
            pass


@pytest.mark.feature("Offsets survive a restart of the consumer", "python", "node")
async def test_a_consumer_continues_at_its_offset(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="before")
    await driver.call("consume", group=topic, topic=topic)
    assert await driver.bodies(topic, 1) == ["before"]
    await committed(broker, topic)
    await driver.call("close", member=topic)
    await driver.call("send", topic=topic, body="meanwhile")
    await driver.call("consume", group=topic, topic=topic)
    assert await driver.bodies(topic, 1) == ["meanwhile"]
