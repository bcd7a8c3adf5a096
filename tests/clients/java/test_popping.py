"""Popping with the push consumer of RocketMQ's 5.5 Java client, whose queues the broker assigns."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]
BACK_OFF_S = (10, 30, 60)
INVISIBLE_S = 90


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def driver(broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """The client."""
    command = (*java_command("java-5.5", home), "rocketmq5.PopDriver")
    options = {"name_server": broker.name_server, "broker": f"{broker.host}:{broker.port}"}
    async with running_driver(command, home, **options) as driver:
        yield driver


@pytest_asyncio.fixture(loop_scope="session")
async def popping(broker: RemotingBroker, driver: Driver, topic: str) -> str:
    """A topic, and a popping group of the same name."""
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    await broker.control.put_group(topic)
    await driver.call("set_mode", topic=topic, group=topic, mode="POP")
    return topic


async def take_of(broker: RemotingBroker, message_id: str, **wanted: Any) -> Any:
    """Wait until a message has the expected state in its group."""
    async with asyncio.timeout(WAIT_S):
        while True:
            for take in (await broker.control.message(message_id))["receipts"]:
                if wanted.items() <= take.items():
                    return take


async def invisible_for(broker: RemotingBroker, message_id: str, seconds: int) -> None:
    """Wait until the client has set the invisible time of the message."""
    now_ms = (await broker.control.clock())["now_ms"]
    await take_of(broker, message_id, visible_us=(now_ms + 1_000 * seconds) * 1_000)


@pytest.mark.feature("Pop consumer", "java-5.5")
async def test_everything_is_popped_and_acknowledged(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    for n in range(100):
        await broker.control.send(popping, str(n), queue_id=n % 4)
    await driver.call("consume", group=popping, topic=popping)
    assert await driver.call("queues", member=popping, topic=popping, count=1) == [-1]
    assert sorted(map(int, await driver.bodies(popping, 100))) == list(range(100))
    sent = await broker.control.send(popping, "later")
    assert (await driver.next(popping)).body == "later"
    assert (await take_of(broker, sent["message_id"], outcome="acked"))["times"] == 1
    async with asyncio.timeout(WAIT_S):
        while (await broker.control.group(popping))["lag"]:
            pass


@pytest.mark.feature("Priority messages", "java-5.5")
async def test_the_highest_priority_is_popped_first(
    broker: RemotingBroker, driver: Driver, java_5_5: Driver, topic: str
) -> None:
    await broker.control.put_topic(topic, type="priority", read_queues=10, write_queues=10)
    await broker.control.put_group(topic)
    for priority in (1, 9, 5):
        await java_5_5.call("send", topic=topic, body=str(priority), priority=priority)
    popped = await driver.call("pop", topic=topic, group=topic, count=32)
    assert [one["body"] for one in popped] == ["9", "5", "1"]


@pytest.mark.feature("Pop consumer", "java-5.5")
async def test_a_failed_message_is_redelivered_when_the_client_asks(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    message_id = (await broker.control.send(popping, "again", tag="a"))["message_id"]
    await driver.call("consume", group=popping, topic=popping, failures=3, tags="a")
    first_ms = None
    for times, seconds in enumerate(BACK_OFF_S):
        received = await driver.next(popping)
        assert (received.topic, received.body, received.times) == (popping, "again", times)
        first_ms = first_ms or received.properties["1ST_POP_TIME"]
        await invisible_for(broker, message_id, seconds)
        await broker.control.advance(f"{seconds * 1_000 - 1}ms")
        assert not driver.received[popping]
        await broker.control.advance("1ms")
    assert (await driver.next(popping)).times == 3
    assert (await take_of(broker, message_id, outcome="acked"))["times"] == 4


async def test_a_client_past_its_retry_limit_drops_the_message(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    message_id = (await broker.control.send(popping, "bad"))["message_id"]
    await driver.call("consume", group=popping, topic=popping, failures=99, max=1)
    assert (await driver.next(popping)).times == 0
    await invisible_for(broker, message_id, BACK_OFF_S[0])
    await broker.control.advance(f"{BACK_OFF_S[0]}s")
    assert (await driver.next(popping)).times == 1
    await broker.control.advance(f"{INVISIBLE_S}s")
    assert (await take_of(broker, message_id, outcome="acked"))["times"] == 3
    assert not driver.received[popping]
    assert f"%DLQ%{popping}" not in {topic["name"] for topic in await broker.control.topics()}


@pytest.mark.feature("Pop consumer", "java-5.5")
async def test_members_share_the_messages(broker: RemotingBroker, driver: Driver, popping: str) -> None:
    members = [f"{popping}-1", f"{popping}-2"]
    for member in members:
        await driver.call("consume", group=popping, topic=popping, member=member)
    for member in members:
        assert await driver.call("queues", member=member, topic=popping, count=1) == [-1]
    for n in range(40):
        await broker.control.send(popping, str(n))
    await driver.until(lambda: sum(len(driver.received[member]) for member in members) == 40)
    got = [one.body for member in members for one in driver.received[member]]
    assert sorted(map(int, got)) == list(range(40))
    await driver.call("close", member=members[0])
    driver.received[members[1]].clear()
    await broker.control.send(popping, "to who is left")
    async with asyncio.timeout(WAIT_S):
        while not driver.received[members[1]]:
            # The member that closes may pop once more, which hides the message.
            await broker.control.advance(f"{INVISIBLE_S}s")
    assert (await driver.next(members[1])).body == "to who is left"


async def test_a_listener_in_order_pulls_whatever_the_mode(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    for n in range(8):
        await broker.control.send(popping, str(n), queue_id=n % 2)
    await driver.call("consume", group=popping, topic=popping, orderly=True)
    received = [await driver.next(popping) for _ in range(8)]
    assert [one.body for one in received if one.queue_id == 0] == ["0", "2", "4", "6"]
    assert [one.body for one in received if one.queue_id == 1] == ["1", "3", "5", "7"]
    assert all("POP_CK" not in one.properties for one in received)


async def test_a_group_in_mode_pull_gets_its_queues_from_the_broker(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    await driver.call("set_mode", topic=popping, group=popping, mode="PULL")
    await broker.control.send(popping, "a", queue_id=3)
    await driver.call("consume", group=popping, topic=popping)
    received = await driver.next(popping)
    assert (received.body, "POP_CK" in received.properties) == ("a", False)


async def test_in_order_by_the_clients_own_requests(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    for n in range(3):
        await broker.control.send(popping, str(n), queue_id=0)
    mine: dict[str, Any] = {"topic": popping, "group": popping}
    first, second = await driver.call("pop", **mine, count=2, orderly=True, attempt="a")
    assert (first["body"], second["body"]) == ("0", "1")
    assert await driver.call("pop", **mine, count=2, orderly=True, attempt="b") == []
    again = await driver.call("pop", **mine, count=2, orderly=True, attempt="a")
    assert [(one["body"], one["times"]) for one in again] == [("0", 0), ("1", 0)]
    handles = [one["properties"]["POP_CK"] for one in again]
    assert await driver.call("ack", **mine, handle=handles[0]) == "OK"
    assert await driver.call("change", **mine, handle=handles[1], invisible_ms=1_000)
    await broker.control.advance("1s")
    [late] = await driver.call("pop", **mine, count=1, orderly=True, attempt="c")
    assert (late["body"], late["times"]) == ("1", 1)
    assert await driver.call("ack", **mine, handle=handles[1]) == "NO_EXIST"
    assert await driver.call("ack", **mine, handle=late["properties"]["POP_CK"]) == "OK"
    [last] = await driver.call("pop", **mine, count=2, orderly=True, attempt="d")
    assert last["body"] == "2"


async def test_in_order_a_message_after_an_unacknowledged_one_is_redelivered(
    broker: RemotingBroker, driver: Driver, popping: str
) -> None:
    """As in PopOrderlyIT of 5.3.3."""
    for n in range(1, 5):
        await broker.control.send(popping, f"m{n}", queue_id=0)
    mine: dict[str, Any] = {"topic": popping, "group": popping}
    first, second, third = await driver.call("pop", **mine, count=3, orderly=True)
    for one in (first, third):
        assert await driver.call("ack", **mine, handle=one["properties"]["POP_CK"]) == "OK"
    assert await driver.call("change", **mine, handle=second["properties"]["POP_CK"], invisible_ms=3_000)
    await broker.control.advance("3s")
    again = await driver.call("pop", **mine, count=3, orderly=True)
    assert [(one["body"], one["times"]) for one in again] == [("m2", 1), ("m3", 1), ("m4", 0)]
    for one in again:
        assert await driver.call("ack", **mine, handle=one["properties"]["POP_CK"]) == "OK"
    assert (await broker.control.group(popping))["lag"] == 0


async def test_many_are_acknowledged_at_once(broker: RemotingBroker, driver: Driver, popping: str) -> None:
    for n in range(20):
        await broker.control.send(popping, str(n), queue_id=n % 2)
    mine: dict[str, Any] = {"topic": popping, "group": popping}
    popped = await driver.call("pop", **mine, count=32)
    handles = {one["body"]: one["properties"]["POP_CK"] for one in popped}
    kept = handles.pop("13")
    assert await driver.call("ack_all", **mine, handles=list(handles.values())) == "OK"
    handle = await driver.call("change", **mine, handle=kept, invisible_ms=0)
    assert await driver.call("ack", **mine, handle=handle) == "NO_EXIST"
    [again] = await driver.call("pop", **mine, count=32)
    assert (again["body"], again["times"]) == ("13", 1)
    assert await driver.call("ack_all", **mine, handles=[again["properties"]["POP_CK"]]) == "OK"
    assert (await broker.control.group(popping))["lag"] == 0
