"""Static topics, as RocketMQ's Java client and ``mqadmin`` of 5.5 see them."""

import asyncio
from collections import defaultdict
from pathlib import Path

import pytest

from tests.clients.java.conftest import rocketmq_driver, running_mqadmin
from tests.clients.java.mqadmin import Mqadmin
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, ClientError, Driver, Received

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

TOPIC = GROUP = "orders"
QUEUES, COUNT = 4, 5
"""Logical queues, and messages that each gets in each phase of a test."""
BLOCK = 10_000
"""Step of logical offsets at which ``mqadmin`` lets the queue of another broker begin."""
SETTINGS = {"pollNameServerInterval": 1_000}


async def send_all(driver: Driver, first: int) -> dict[int, list[int]]:
    """Send messages to all logical queues in turn; return the offsets of each.

    A send fails until the client has asked for the route again.
    """
    offsets: dict[int, list[int]] = defaultdict(list)
    async with asyncio.timeout(WAIT_S):
        for number in range(first, first + QUEUES * COUNT):
            while True:
                try:
                    sent = await driver.call(
                        "send_orderly", topic=TOPIC, body=str(number), number=number, settings=SETTINGS
                    )
                    break
                except ClientError as error:
                    assert "CODE: 501" in str(error), error
            assert sent["queue_id"] == number % QUEUES
            offsets[sent["queue_id"]].append(sent["queue_offset"])
    return offsets


async def consumed(driver: Driver, member: str, count: int) -> dict[int, list[tuple[int, int]]]:
    """Wait for this number of messages; return body and offset of each, by logical queue."""
    await driver.until(lambda: len(driver.received[member]) >= count)
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    received: list[Received] = list(driver.received[member])
    for each in received:
        found[each.queue_id].append((int(each.body), each.queue_offset))
    return found


def expected(phases: int) -> dict[int, list[tuple[int, int]]]:
    """Body and offset of each message, by logical queue, if all queues move between two phases."""
    return {
        queue: [
            (phase * QUEUES * COUNT + index * QUEUES + queue, phase * BLOCK + index)
            for phase in range(phases)
            for index in range(COUNT)
        ]
        for queue in range(QUEUES)
    }


async def leaders(admin: Mqadmin) -> dict[str, int]:
    """The number of logical queues that each broker leads."""
    route = await admin.json("topicRoute", "-t", TOPIC)
    mappings = route["topicQueueMappingByBroker"].items()
    return {name: len(each["currIdMap"]) for name, each in mappings}


@pytest.mark.mqadmin("updateStaticTopic", "remappingStaticTopic", only="mqadmin-5.5")
@pytest.mark.parametrize("mqadmin", ["mqadmin-5.5"])
async def test_a_consumer_gets_everything_in_order_when_all_queues_move(
    built: None,  # noqa: ARG001
    home: Path,
    tmp_path: Path,
    mqadmin: str,
) -> None:
    options = ("--brokers", "2", "--data", str(tmp_path / "data"))
    async with (
        running_remoting_broker(*options) as pair,
        running_mqadmin(mqadmin, pair.name_server, home) as admin,
        rocketmq_driver("java-5.5", home, name_server=pair.name_server) as driver,
    ):
        await admin("updateStaticTopic", "-t", TOPIC, "-b", "broker-a", "-qn", str(QUEUES))
        assert await leaders(admin) == {"broker-a": QUEUES, "broker-b": 0}
        await driver.call("consume", group=GROUP, topic=TOPIC, orderly=True, settings=SETTINGS)
        assert await send_all(driver, 0) == {queue: [*range(COUNT)] for queue in range(QUEUES)}
        assert await consumed(driver, GROUP, QUEUES * COUNT) == expected(1)

        await admin("remappingStaticTopic", "-t", TOPIC, "-b", "broker-b")
        assert await leaders(admin) == {"broker-a": 0, "broker-b": QUEUES}
        moved = [BLOCK + index for index in range(COUNT)]
        assert await send_all(driver, QUEUES * COUNT) == dict.fromkeys(range(QUEUES), moved)
        assert await consumed(driver, GROUP, 2 * QUEUES * COUNT) == expected(2)
        printed = await admin("topicStatus", "-t", TOPIC)
        rows = [line.split() for line in printed.splitlines() if line.startswith("__syslo__global__")]
        assert {(int(row[1]), int(row[2]), int(row[3])) for row in rows} == {
            (queue, 0, BLOCK + COUNT) for queue in range(QUEUES)
        }
    async with (
        running_remoting_broker(*options) as pair,
        rocketmq_driver("java-5.5", home, name_server=pair.name_server) as driver,
    ):
        start = "CONSUME_FROM_FIRST_OFFSET"
        await driver.call("consume", group="audit", topic=TOPIC, orderly=True, start=start)
        assert await consumed(driver, "audit", 2 * QUEUES * COUNT) == expected(2)


async def test_more_logical_queues_are_shared_among_the_brokers(
    built: None,  # noqa: ARG001
    home: Path,
) -> None:
    async with (
        running_remoting_broker("--brokers", "2") as pair,
        running_mqadmin("mqadmin-5.5", pair.name_server, home) as admin,
        rocketmq_driver("java-5.5", home, name_server=pair.name_server) as driver,
    ):
        await admin("updateStaticTopic", "-t", TOPIC, "-c", "DefaultCluster", "-qn", "2")
        assert await leaders(admin) == {"broker-a": 1, "broker-b": 1}
        await admin("updateStaticTopic", "-t", TOPIC, "-c", "DefaultCluster", "-qn", str(QUEUES))
        assert await leaders(admin) == {"broker-a": 2, "broker-b": 2}
        await send_all(driver, 0)
        await driver.call("consume", group=GROUP, topic=TOPIC, settings=SETTINGS)
        found = await consumed(driver, GROUP, QUEUES * COUNT)
        assert {queue: sorted(each) for queue, each in found.items()} == expected(1)
