"""Features that only Apache's client for Python has, a wrapper of the C++ client."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mocketmq.remoting.wire.codes import RequestCode
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, ClientError, Driver, EndedError, running_driver
from tests.support.remoting import connected

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"
MANY = 16


async def received(broker: RemotingBroker, topic: str, count: int) -> dict[str, list[str]]:
    """Return the bodies of this many messages by queue, in order."""
    queues: dict[str, list[str]] = {}
    async with asyncio.timeout(WAIT_S):
        while sum(map(len, queues.values())) < count:
            for message in await broker.control.receive(topic, group=GROUP, max_messages=count, wait="10s"):
                queues.setdefault(str(message["queue_id"]), []).append(message["body"])
    return queues


@pytest.mark.feature("Send with a callback", "python")
async def test_send_with_a_callback(broker: RemotingBroker, python: Driver, topic: str) -> None:
    sent = await python.call("send_async", topic=topic, body="called back")
    assert sent["is_ok"]
    assert await received(broker, topic, 1)


@pytest.mark.feature("Send oneway", "python")
async def test_send_oneway(broker: RemotingBroker, python: Driver, topic: str) -> None:
    for number in range(MANY):
        await python.call("send_oneway", topic=topic, body=str(number))
    queues = await received(broker, topic, MANY)
    assert {body for bodies in queues.values() for body in bodies} == set(map(str, range(MANY)))


@pytest.mark.feature("Batches", "python")
async def test_a_batch(broker: RemotingBroker, python: Driver, topic: str) -> None:
    messages = [{"topic": topic, "body": str(number), "tag": "a"} for number in range(MANY)]
    await python.call("send_batch", messages=messages)
    [queue] = (await received(broker, topic, MANY)).values()
    assert queue == [str(number) for number in range(MANY)]


@pytest.mark.feature("Queues chosen by key or selector", "python")
@pytest.mark.feature("Push consumer, in order", "python")
@pytest.mark.parametrize("how", ["send_orderly", "send_oneway_orderly"])
async def test_messages_in_order(broker: RemotingBroker, python: Driver, topic: str, how: str) -> None:
    await broker.control.put_topic(topic, read_queues=3, write_queues=3)
    for number in range(3 * MANY):
        await python.call(how, topic=topic, body=str(number), number=number)
    queues = await received(broker, topic, 3 * MANY)
    assert queues == {str(queue): [str(one) for one in range(queue, 3 * MANY, 3)] for queue in range(3)}

    await python.call("consume", group=topic, topic=topic, orderly=True)
    in_order: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for _ in range(3 * MANY):
        message = await python.next(topic)
        in_order[message.queue_id].append(message.body)
    assert {str(queue): bodies for queue, bodies in in_order.items()} == queues


@pytest.mark.feature("Pull consumer", "python")
async def test_pull(broker: RemotingBroker, python: Driver, topic: str) -> None:
    for number in range(100):
        await broker.control.send(topic, str(number), tag="a" if number % 2 else "b")
    pulled = await python.call("pull", group=topic, topic=topic)
    assert sorted(int(message["body"]) for message in pulled) == list(range(100))
    assert await python.call("pull", group=topic, topic=topic) == []

    for tag in ("a", "b"):
        await python.call("send", topic=topic, body=f"only {tag}", tag=tag)
    [message] = await python.call("pull", group=topic, topic=topic, tags="a")
    assert message["body"] == "only a"


@pytest.mark.feature("Offsets are reset", "python")
async def test_offsets_are_reset(broker: RemotingBroker, python: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    for body in ("a", "b"):
        await broker.control.send(topic, body)
    await python.call("consume", group=topic, topic=topic)
    assert await python.bodies(topic, 2) == ["a", "b"]
    async with connected(broker.host, broker.port) as tool:
        ext = {"topic": topic, "group": topic, "timestamp": "0", "isForce": "true"}
        await tool.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)
    again: list[str] = []
    for body in ("c", "d"):  # the first ends the library's waiting poll, and may arrive in both ways
        await broker.control.send(topic, body)
        while body not in again or "b" not in again:
            again += await python.bodies(topic, 1)
    assert [body for body in again if body in "ab"] == ["a", "b"]


async def test_a_copy_for_one_group(broker: RemotingBroker, python: Driver, topic: str) -> None:
    """The workaround of docs/rocketmq.md, because the library cannot consume a given message."""
    other = f"{topic}-other"
    for group in (topic, other):
        await python.call("consume", group=group, topic=topic)
    await broker.control.send(topic, "for all")
    for group in (topic, other):
        assert await python.bodies(group, 1) == ["for all"]
    await broker.control.send(f"%RETRY%{topic}", "once more", tag="a")
    copy = await python.next(topic)
    assert (copy.topic, copy.body, copy.tag, copy.times) == (f"%RETRY%{topic}", "once more", "a", 0)
    await broker.control.send(topic, "last")
    assert await python.bodies(other, 1) == ["last"]


async def test_a_refused_message(broker: RemotingBroker, python: Driver) -> None:
    await broker.control.put_topic("read-only", read_queues=1, write_queues=1, perm="r")
    with pytest.raises(ClientError, match="ProducerSendSyncFailed: No route info of this topic"):
        await python.call("send", topic="read-only", body="not here")


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(
    broker: RemotingBroker, home: Path, python_client: tuple[str, ...]
) -> AsyncIterator[Driver]:
    """The library as it is configured for Aliyun."""
    domain = f"{broker.url}/rocketmq/nsaddr4client-internet"
    async with running_driver(python_client, home, domain=domain, credentials=["any", "any"]) as driver:
        yield driver


@pytest.mark.feature("The address is discovered over HTTP", "python")
@pytest.mark.feature("Access keys are accepted", "python")
async def test_as_for_aliyun(elsewhere: Driver, topic: str) -> None:
    await elsewhere.call("send", topic=topic, body="with keys", tag="a")
    await elsewhere.call("consume", group=topic, topic=topic)
    assert await elsewhere.bodies(topic, 1) == ["with keys"]


async def test_a_consumer_that_is_killed_leaves_its_messages_to_others(
    broker: RemotingBroker, home: Path, python_client: tuple[str, ...], python: Driver, topic: str
) -> None:
    await broker.control.put_topic(topic, read_queues=2, write_queues=2)
    async with running_driver(python_client, home, name_server=broker.name_server) as victim:
        await victim.call("consume", group=topic, topic=topic)
        await broker.control.send(topic, "first", queue_id=0)
        assert await victim.bodies(topic, 1) == ["first"]
        await python.call("consume", group=topic, topic=topic)
        await victim.kill()
        with pytest.raises(EndedError, match="SIGKILL"):
            await victim.next(topic)
    for queue_id in (0, 1):
        await broker.control.send(topic, "for the living", queue_id=queue_id)
    bodies = await python.bodies(topic, 2)
    assert "for the living" in bodies
