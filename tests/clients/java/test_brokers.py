"""Two brokers, of which one crashes and comes back, as RocketMQ's Java client sees them."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.conftest import rocketmq_driver
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, ClientError, Driver, Received

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

A, B = "broker-a", "broker-b"
QUEUES = 2
COUNT = 40
"""Number of messages sent in each phase of a test."""


@pytest_asyncio.fixture(loop_scope="session")
async def pair() -> AsyncIterator[RemotingBroker]:
    """Two brokers in one process."""
    async with running_remoting_broker("--brokers", "2", "--topic-queues", str(QUEUES)) as broker:
        yield broker


class Sent:
    """Acknowledged messages, by the queue that keeps them, in the order in which they were sent."""

    def __init__(self, driver: Driver, topic: str) -> None:
        self.by_queue: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        self.failed = 0
        self._driver = driver
        self._topic = topic
        self._number = 0

    @property
    def bodies(self) -> set[str]:
        return {body for some in self.by_queue.values() for body in some}

    @property
    def ports(self) -> set[int]:
        """The ports of the brokers that have acknowledged messages."""
        return {port for port, _ in self.by_queue}

    async def send(self, call: str) -> None:
        """Send messages one after another. An error of the client counts as not acknowledged."""
        for _ in range(COUNT):
            self._number += 1
            body = str(self._number)
            try:
                answer = await self._driver.call(call, topic=self._topic, body=body, number=self._number)
            except ClientError:
                self.failed += 1
                continue
            port = int(answer["offset_message_id"][8:16], 16)
            self.by_queue[port, answer["queue_id"]].append(body)


async def all_arrive(driver: Driver, group: str, sent: Sent) -> list[Received]:
    """Wait until the consumer has each acknowledged message, and return all that it got."""
    await driver.until(lambda: sent.bodies <= {each.body for each in driver.received[group]})
    return list(driver.received[group])


def is_in_order(received: list[Received], sent: Sent) -> bool:
    """Whether the first deliveries of each queue's messages are in the order of the queue."""
    first = list(dict.fromkeys(each.body for each in received))
    return all(
        [body for body in first if body in set(expected)] == expected for expected in sent.by_queue.values()
    )


@pytest.mark.parametrize("version", ["java-4.9", "java-5.5"])
async def test_nothing_acknowledged_is_lost_when_a_broker_crashes_and_comes_back(
    pair: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
    version: str,
) -> None:
    topic = group = "orders"
    await pair.control.create_topic(topic, queues=QUEUES)
    async with rocketmq_driver(version, home, name_server=pair.name_server) as driver:
        await driver.call("consume", group=group, topic=topic, orderly=True)
        sent = Sent(driver, topic)
        await sent.send("send_orderly")
        assert (sent.failed, len(sent.ports)) == (0, 2)
        await all_arrive(driver, group, sent)

        await pair.control.crash_broker(B)
        before = len(sent.bodies)
        await sent.send("send_orderly")  # to half of the queues, nobody listens
        assert (sent.failed, len(sent.bodies) - before) == (COUNT // 2, COUNT // 2)
        await sent.send("send")  # tries another broker by itself
        assert sent.failed == COUNT // 2
        await all_arrive(driver, group, sent)

        await pair.control.start_broker(B)
        await sent.send("send_orderly")
        await sent.send("send")
        assert sent.failed == COUNT // 2
        received = await all_arrive(driver, group, sent)
        assert is_in_order(received, sent)


async def test_messages_of_a_crash_in_the_middle_arrive_with_retries(
    pair: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
) -> None:
    topic = group = "paid"
    await pair.control.create_topic(topic, queues=QUEUES)
    async with rocketmq_driver("java-5.5", home, name_server=pair.name_server) as driver:
        await driver.call("consume", group=group, topic=topic, failures=1, level=1)
        sent = Sent(driver, topic)
        sending = asyncio.create_task(sent.send("send"))
        await driver.until(lambda: len(driver.received[group]) > 5)
        await pair.control.crash_broker(B)
        await sending
        assert sent.failed == 0  # each was sent again, to the broker that runs
        await pair.control.start_broker(B)

        def succeeded() -> set[str]:
            return {each.body for each in driver.received[group] if each.times > 0}

        async with asyncio.timeout(WAIT_S):
            while not sent.bodies <= succeeded():
                await pair.control.advance("1s")


@pytest.mark.parametrize("version", ["java-4.9", "java-5.5"])
async def test_a_client_goes_on_with_the_slave_that_is_promoted(
    built: None,  # noqa: ARG001
    home: Path,
    version: str,
) -> None:
    topic = group = "shipments"
    options = ("--slaves", "1", "--failover", "controller", "--topic-queues", str(QUEUES))
    async with running_remoting_broker(*options) as alone:
        await alone.control.create_topic(topic, queues=QUEUES)
        [ports] = await alone.control.brokers()
        async with rocketmq_driver(version, home, name_server=alone.name_server) as driver:
            await driver.call("consume", group=group, topic=topic, orderly=True)
            sent = Sent(driver, topic)
            await sent.send("send_orderly")
            assert (sent.failed, sent.ports) == (0, {ports["port"]})
            await all_arrive(driver, group, sent)

            await alone.control.crash_broker(A)
            await alone.control.advance("10s")
            [promoted] = await alone.control.brokers()
            assert promoted["port"] == ports["slave_port"]
            async with asyncio.timeout(WAIT_S):
                while ports["slave_port"] not in sent.ports:  # until the client asks for routes again
                    await sent.send("send_orderly")
            await all_arrive(driver, group, sent)

            await alone.control.start_broker(A)
            failed = sent.failed
            await sent.send("send_orderly")
            assert sent.failed == failed
            received = await all_arrive(driver, group, sent)
            assert is_in_order(received, sent)


@pytest.mark.parametrize("version", ["java-4.9", "java-5.5"])
async def test_a_consumer_pulls_from_the_slave_of_a_broker_that_is_down(
    built: None,  # noqa: ARG001
    home: Path,
    version: str,
) -> None:
    topic = group = "invoices"
    options = ("--brokers", "2", "--slaves", "1", "--topic-queues", str(QUEUES))
    async with running_remoting_broker(*options) as pair:
        await pair.control.create_topic(topic, queues=QUEUES)
        async with rocketmq_driver(version, home, name_server=pair.name_server) as driver:
            sent = Sent(driver, topic)
            await sent.send("send")
            assert (sent.failed, len(sent.ports)) == (0, 2)
            await pair.control.crash_broker(B)
            await pair.control.advance("2m")  # routes name the slave alone
            await driver.call("consume", group=group, topic=topic)
            received = await all_arrive(driver, group, sent)
            assert len(received) == len(sent.bodies)

            await pair.control.start_broker(B)
            await sent.send("send")
            await all_arrive(driver, group, sent)
