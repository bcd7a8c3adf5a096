"""Aliyun's client for Java, used by applications written for its cloud."""

import time
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver, running_driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import goes_on_where_it_was
from tests.clients.remoting.test_delaying import HOUR_MS

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

KEYS = {"AccessKey": "any key", "SecretKey": "any secret"}


@pytest_asyncio.fixture(loop_scope="session")
async def topic(broker: RemotingBroker, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    return topic


@pytest.mark.feature("Send and wait", "ons-java")
@pytest.mark.feature("Tags, keys and properties", "ons-java")
@pytest.mark.feature("Push consumer", "ons-java")
@pytest.mark.feature("Access keys are accepted", "ons-java")
async def test_a_message_arrives_as_it_was_sent(ons: Driver, topic: str) -> None:
    sent = await ons.call(
        "send", topic=topic, body="两个字", tag="a", keys=["7"], properties={"colour": "grün"}
    )
    await ons.call("consume", group=topic, topic=topic, tags="a || b")
    received = await ons.next(topic)
    assert (received.topic, received.body, received.message_id) == (topic, "两个字", sent["message_id"])
    assert (received.tag, received.keys, received.times) == ("a", "7", 0)
    assert received.properties["colour"] == "grün"


@pytest.mark.feature("Push consumer", "ons-java")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, ons: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, ons, f"{topic}-fresh")


@pytest.mark.feature("Send with a callback", "ons-java")
@pytest.mark.feature("Send oneway", "ons-java")
@pytest.mark.feature("A topic that does not exist yet", "ons-java")
async def test_other_ways_to_send(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    fresh = f"{topic}-fresh"
    sent = await ons.call("send_async", topic=fresh, body="with a callback")
    await ons.call("send_oneway", topic=fresh, body="oneway")
    await broker.control.wait_delivered(fresh, 2, wait="30s")
    messages = await broker.control.receive(fresh, group="GID_billing", max_messages=2)
    assert {message["body"] for message in messages} == {"with a callback", "oneway"}
    assert sent["message_id"] in {message["message_id"] for message in messages}


@pytest.mark.feature("`__STARTDELIVERTIME`", "ons-java")
async def test_start_deliver_time(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    await ons.call("consume", group=topic, topic=topic)
    instant_ms = int(time.time() * 1_000) + HOUR_MS
    sent = await ons.call("send", topic=topic, body="in an hour", start_deliver_ms=instant_ms)
    [due_ms] = await broker.pending(topic)
    await broker.control.move_to(due_ms - 1)
    await ons.call("send", topic=topic, body="earlier")
    assert await ons.bodies(topic, 1) == ["earlier"]
    await broker.control.move_to(due_ms)
    received = await ons.next(topic)
    assert (received.body, received.message_id) == ("in an hour", sent["message_id"])
    assert received.properties["start_deliver_ms"] == str(instant_ms)


@pytest.mark.feature("Push consumer, in order", "ons-java")
@pytest.mark.feature("Queues chosen by key or selector", "ons-java")
async def test_in_order(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    for number in range(8):
        await ons.call("send_orderly", topic=topic, body=f"{number}", sharding_key=f"{number % 2}")
    await ons.call("consume", group=topic, topic=topic, orderly=True)
    bodies = await ons.bodies(topic, 8)
    for part in range(2):
        assert [body for body in bodies if int(body) % 2 == part] == [str(n) for n in range(part, 8, 2)]


@pytest.mark.feature("Failed messages are retried", "ons-java")
async def test_a_retry(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    await ons.call("send", topic=topic, body="again")
    await ons.call("consume", group=topic, topic=topic, failures=1)
    assert (await ons.next(topic)).times == 0
    [due_ms] = await broker.pending(f"%RETRY%{topic}")
    assert due_ms == (await broker.control.clock())["now_ms"] + 10_000
    await broker.control.move_to(due_ms)
    received = await ons.next(topic)
    assert (received.topic, received.body, received.times) == (topic, "again", 1)


@pytest.mark.feature("Offsets survive a restart of the consumer", "ons-java")
async def test_a_consumer_continues_at_its_offset(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    await goes_on_where_it_was(broker, ons, topic)


@pytest.mark.feature("To and from the JSON API", "ons-java")
async def test_by_json_and_back(broker: RemotingBroker, ons: Driver, topic: str) -> None:
    await broker.control.send(topic, "from JSON", tag="a", keys=["7"])
    await ons.call("consume", group=topic, topic=topic)
    received = await ons.next(topic)
    assert (received.body, received.tag, received.keys) == ("from JSON", "a", "7")
    await ons.call("send", topic=topic, body="to JSON", tag="b")
    assert await ons.bodies(topic, 1) == ["to JSON"]
    messages = await broker.control.receive(topic, group="GID_billing", max_messages=2)
    assert [message["body"] for message in messages] == ["from JSON", "to JSON"]


@pytest.mark.feature("The address is discovered over HTTP", "ons-java")
@pytest.mark.feature("Namespace", "ons-java")
async def test_discovered_and_in_a_namespace(
    broker: RemotingBroker, ons_client: tuple[str, ...], home: Path, topic: str
) -> None:
    address = f"{broker.url}/rocketmq/nsaddr4client-internet"
    async with running_driver(ons_client, home, **KEYS, ONSAddr=address, INSTANCE_ID="MQ_INST_1_2") as driver:
        await driver.call("send", topic=topic, body="inside")
        await driver.call("consume", group=topic, topic=topic)
        received = await driver.next(topic)
        assert (received.topic, received.body) == (topic, "inside")
    [message] = await broker.control.receive(f"MQ_INST_1_2%{topic}", group="GID_billing")
    assert message["body"] == "inside"
