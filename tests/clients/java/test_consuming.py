"""Consuming with RocketMQ's Java clients."""

import time

import pytest

from mocketmq import outgoing
from mocketmq.remoting.wire.codes import RequestCode
from tests.clients.remoting.arrivals import arrive_by_tag
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import goes_on_where_it_was
from tests.clients.remoting.test_delaying import HOUR_MS, LEVELS_S
from tests.support.remoting import connected

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("Push consumer", "java-4.9", "java-5.5")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, driver: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, driver, topic)


@pytest.mark.feature("Push consumer, in order", "java-4.9", "java-5.5")
async def test_in_order(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=2, write_queues=2)
    for number in range(10):
        await broker.control.send(topic, str(number), queue_id=number % 2)
    await driver.call("consume", group=topic, topic=topic, orderly=True, failing="4")
    received = [await driver.next(topic) for _ in range(11)]
    assert [one.body for one in received if one.queue_id == 0] == ["0", "2", "4", "4", "6", "8"]
    assert [one.body for one in received if one.queue_id == 1] == ["1", "3", "5", "7", "9"]


@pytest.mark.feature("Push consumer, broadcasting", "java-4.9", "java-5.5")
async def test_broadcasting(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    for member in (f"{topic}-1", f"{topic}-2"):
        await driver.call("consume", group=topic, topic=topic, member=member, broadcasting=True)
        await driver.call("queues", member=member, topic=topic, count=1)
    await driver.call("send", topic=topic, body="to all")
    for member in (f"{topic}-1", f"{topic}-2"):
        assert await driver.bodies(member, 1) == ["to all"]


@pytest.mark.feature("Tag filters", "java-4.9", "java-5.5")
async def test_tags(driver: Driver, topic: str) -> None:
    await arrive_by_tag(driver, topic)


@pytest.mark.feature("Failed messages are retried", "java-4.9", "java-5.5")
@pytest.mark.feature("Dead letters after 16 retries", "java-4.9", "java-5.5")
async def test_sixteen_retries(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_group(topic)
    sent = await driver.call("send", topic=topic, body="again", tag="a", keys=["7"])
    await driver.call("consume", group=topic, topic=topic, failures=99)
    for times, delay_s in enumerate(LEVELS_S[2:]):
        received = await driver.next(topic)
        assert (received.topic, received.body, received.times) == (topic, "again", times)
        assert (received.tag, received.keys, received.message_id) == ("a", "7", sent["message_id"])
        due_ms = (await broker.control.clock())["now_ms"] + delay_s * 1_000
        assert await broker.pending(f"%RETRY%{topic}") == [due_ms]
        await broker.control.move_to(due_ms - 1)
        assert not driver.received[topic]
        await broker.control.move_to(due_ms)
    assert (await driver.next(topic)).times == 16
    await broker.control.wait_delivered(f"%DLQ%{topic}", 1, wait="30s")
    [dead] = (await broker.control.browse(f"%DLQ%{topic}", 0))["messages"]
    assert (dead["body"], dead["tag"], dead["message_id"]) == ("again", "a", sent["message_id"])


@pytest.mark.feature("Failed messages are retried", "java-4.9", "java-5.5")
async def test_a_retry_by_the_consumers_own_level(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_group(topic)
    await driver.call("send", topic=topic, body="in two hours")
    await driver.call("consume", group=topic, topic=topic, failures=1, level=18)
    assert await driver.bodies(topic, 1) == ["in two hours"]
    now_ms = (await broker.control.clock())["now_ms"]
    assert await broker.pending(f"%RETRY%{topic}") == [now_ms + 7_200_000]
    await broker.control.move_to(now_ms + 7_200_000)
    assert (await driver.next(topic)).times == 1


@pytest.mark.feature("Queues are shared by the members of a group", "java-4.9", "java-5.5")
async def test_members_share_the_queues(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    first, second = f"{topic}-1", f"{topic}-2"
    await driver.call("consume", group=topic, topic=topic, member=first)
    assert len(await driver.call("queues", member=first, topic=topic, count=4)) == 4
    await driver.call("consume", group=topic, topic=topic, member=second)
    queues = {
        member: await driver.call("queues", member=member, topic=topic, count=2) for member in (first, second)
    }
    assert sorted(queues[first] + queues[second]) == [0, 1, 2, 3]
    for queue_id in range(4):
        await broker.control.send(topic, str(queue_id), queue_id=queue_id)
    for member in (first, second):
        assert sorted(await driver.bodies(member, 2)) == list(map(str, queues[member]))
    await driver.call("close", member=second)
    assert len(await driver.call("queues", member=first, topic=topic, count=4)) == 4


@pytest.mark.feature("Offsets survive a restart of the consumer", "java-4.9", "java-5.5")
async def test_a_consumer_continues_at_its_offset(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    await goes_on_where_it_was(broker, driver, topic)


@pytest.mark.feature("Lite pull consumer", "java-4.9", "java-5.5")
async def test_lite_pull(driver: Driver, topic: str) -> None:
    for number in range(5):
        await driver.call("send", topic=topic, body=str(number))
    messages = await driver.call("poll", group=topic, topic=topic, count=5)
    assert {message["body"] for message in messages} == {"0", "1", "2", "3", "4"}
    await driver.call("close", member=topic)
    await driver.call("send", topic=topic, body="after a restart")
    [message] = await driver.call("poll", group=topic, topic=topic, count=1)
    assert message["body"] == "after a restart"


@pytest.mark.feature("Pull consumer", "java-4.9", "java-5.5")
async def test_pull(driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="first")
    [message] = await driver.call("pull", group=topic, topic=topic)
    assert message["body"] == "first"
    assert await driver.call("pull", group=topic, topic=topic) == []
    await driver.call("send", topic=topic, body="second")
    [message] = await driver.call("pull", group=topic, topic=topic)
    assert message["body"] == "second"


@pytest.mark.feature("Pull consumer", "java-4.9", "java-5.5")
async def test_a_pull_gets_at_most_32_messages(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    messages = [{"topic": topic, "body": str(n)} for n in range(40)]
    await driver.call("send_batch", messages=messages)
    for count in (32, 8):
        assert len(await driver.call("pull", group=topic, topic=topic, limit=1_000)) == count


@pytest.mark.feature("Messages found by key and by id", "java-4.9", "java-5.5")
async def test_found_by_key_and_id(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    sent = await driver.call("send", topic=topic, body="the seventh", keys=["6", "7"])
    [found] = await driver.call("find_by_key", topic=topic, key="7")
    assert (found["body"], found["message_id"]) == ("the seventh", sent["message_id"])
    for message_id in (sent["message_id"], sent["offset_message_id"]):
        found = await driver.call("find_by_id", topic=topic, message_id=message_id)
        assert (found["topic"], found["body"], found["keys"]) == (topic, "the seventh", "6 7")
    by_json = await broker.control.send(topic, "the eighth")  # its id names the port used by the client
    found = await driver.call("find_by_id", topic=topic, message_id=by_json["offset_message_id"])
    assert found["body"] == "the eighth"


@pytest.mark.feature("Consume from first, last or a time", "java-4.9", "java-5.5")
@pytest.mark.parametrize("start", ["FIRST_OFFSET", "LAST_OFFSET", "TIMESTAMP"])
async def test_where_a_new_group_begins(driver: Driver, topic: str, start: str) -> None:
    """It starts at the oldest message, whatever it requests, as with RocketMQ before any retention."""
    await driver.call("send", topic=topic, body="first")
    await driver.call("consume", group=topic, topic=topic, start=f"CONSUME_FROM_{start}")
    assert await driver.bodies(topic, 1) == ["first"]


@pytest.mark.feature("Consume from first, last or a time", "java-4.9", "java-5.5")
async def test_offsets_by_time(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """The broker presents itself as 5.5.0, which finds the first message stored then or later."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    for number in range(3):
        await driver.call("send", topic=topic, body=str(number))
        await broker.control.advance("1h")
    for minutes, offset in ((10, 2), (50, 2), (1_000, 0)):
        instant_ms = int(time.time() * 1_000) - HOUR_MS - minutes * 60_000
        assert await driver.call("offset_at", topic=topic, instant_ms=instant_ms) == offset


@pytest.mark.feature("Offsets are reset", "java-4.9", "java-5.5")
async def test_a_reset(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """All 800 messages are redelivered, although the client keeps committing while it drops its messages."""
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    everything = [str(number) for number in range(800)]
    await broker.control.send_batch(
        topic, [outgoing(body, queue_id=number % 4) for number, body in enumerate(everything)]
    )
    await driver.call("consume", group=topic, topic=topic, commit_every_ms=500)
    assert sorted(await driver.bodies(topic, 800), key=int) == everything
    wanted = {"topic": topic, "group": topic, "timestamp": "0", "isForce": "true"}
    async with connected(broker.host, broker.port) as client:
        await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, wanted)
    assert sorted(await driver.bodies(topic, 800), key=int) == everything


@pytest.mark.feature("Offsets are reset", "java-4.9", "java-5.5")
async def test_a_reset_of_a_lite_pull_consumer(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    """The consumer ignores pushed resets, and learns of a reset by its next pull."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    for body in ("a", "b", "c"):
        await driver.call("send", topic=topic, body=body)
    for _ in range(2):
        polled = await driver.call("poll", group=topic, topic=topic, count=3)
        assert [message["body"] for message in polled] == ["a", "b", "c"]
        async with connected(broker.host, broker.port) as client:
            wanted = {"topic": topic, "group": topic, "timestamp": "0", "isForce": "true"}
            await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, wanted)
    await driver.call("close", member=topic)
