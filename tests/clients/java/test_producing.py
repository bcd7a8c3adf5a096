"""Sending with RocketMQ's Java clients."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.clients.java.conftest import rocketmq_driver
from tests.clients.remoting.arrivals import arrives_whole
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

GROUP = "GID_billing"


@pytest.mark.feature("Send and wait", "java-4.9", "java-5.5")
@pytest.mark.feature("A topic that does not exist yet", "java-4.9", "java-5.5")
@pytest.mark.feature("Tags, keys and properties", "java-4.9", "java-5.5")
@pytest.mark.feature("Push consumer", "java-4.9", "java-5.5")
async def test_a_message_arrives_as_it_was_sent(driver: Driver, topic: str) -> None:
    await arrives_whole(driver, topic)


@pytest.mark.feature("Send with a callback", "java-4.9", "java-5.5")
@pytest.mark.feature("Send oneway", "java-4.9", "java-5.5")
async def test_other_ways_to_send(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    sent = await driver.call("send_async", topic=topic, body="with a callback")
    assert sent["is_ok"]
    await driver.call("send_oneway", topic=topic, body="oneway")
    await broker.control.wait_delivered(topic, 2, wait="30s")
    messages = await broker.control.receive(topic, group=GROUP, max_messages=2)
    assert {message["body"] for message in messages} == {"with a callback", "oneway"}
    assert sent["message_id"] in {message["message_id"] for message in messages}


@pytest.mark.feature("Batches", "java-4.9", "java-5.5")
async def test_a_batch(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    messages = [{"topic": topic, "body": f"{n}", "tag": f"t{n}"} for n in range(3)]
    sent = await driver.call("send_batch", messages=messages)
    ids = sent["message_id"].split(",")
    assert (sent["is_ok"], sent["queue_offset"], len(sent["offset_message_id"].split(","))) == (True, 0, 3)
    await driver.call("consume", group=topic, topic=topic)
    received = sorted([await driver.next(topic) for _ in range(3)], key=lambda one: one.queue_offset)
    assert [(one.body, one.tag, one.queue_offset) for one in received] == [
        (f"{n}", f"t{n}", n) for n in range(3)
    ]
    assert [one.message_id for one in received] == ids
    assert {one.queue_id for one in received} == {sent["queue_id"]}
    assert {one.properties["WAIT"] for one in received} == {"true"}
    for message_id in ids:
        assert await broker.control.message(message_id)


@pytest.mark.feature("Queues chosen by key or selector", "java-4.9", "java-5.5")
async def test_a_selector(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    for number in range(8):
        sent = await driver.call("send_orderly", topic=topic, body=str(number), number=number)
        assert (sent["queue_id"], sent["queue_offset"]) == (number % 4, number // 4)


@pytest.mark.feature("Large bodies, compressed", "java-4.9", "java-5.5")
async def test_a_large_body(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    body = "all work and no play " * 5_000
    await driver.call("send", topic=topic, body=body)
    [message] = await broker.control.receive(topic, group=GROUP)
    assert message["body"] == body
    await driver.call("consume", group=topic, topic=topic)
    assert await driver.bodies(topic, 1) == [body]


@pytest.mark.feature("To and from the JSON API", "java-4.9", "java-5.5")
async def test_by_json_and_back(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.send(topic, "from JSON", tag="a", keys=["7"], properties={"colour": "red"})
    await driver.call("consume", group=topic, topic=topic)
    received = await driver.next(topic)
    assert (received.body, received.tag, received.keys) == ("from JSON", "a", "7")
    assert received.properties["colour"] == "red"

    await driver.call("send", topic=topic, body="to JSON", tag="b", keys=["8"], properties={"colour": "blue"})
    assert await driver.bodies(topic, 1) == ["to JSON"]
    messages = await broker.control.receive(topic, group=GROUP, max_messages=2)
    [message] = [one for one in messages if one["body"] == "to JSON"]
    assert (message["tag"], message["keys"]) == ("b", ["8"])
    assert message["properties"]["colour"] == "blue"


@pytest.mark.feature("Namespace", "java-4.9", "java-5.5")
async def test_a_namespace(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="inside", namespace="MQ_INST_1")
    [message] = await broker.control.receive(f"MQ_INST_1%{topic}", group=GROUP)
    assert message["body"] == "inside"
    await driver.call("consume", group=topic, topic=topic, namespace="MQ_INST_1")
    received = await driver.next(topic)
    assert (received.topic, received.body) == (topic, "inside")


@pytest.mark.usefixtures("built")
@pytest.mark.feature("Access keys are accepted", "java-4.9", "java-5.5")
@pytest.mark.feature("The address is discovered over HTTP", "java-4.9", "java-5.5")
async def test_keys_and_discovery(client: str, broker: RemotingBroker, home: Path, topic: str) -> None:
    domain = f"-Drocketmq.namesrv.domain={urlsplit(broker.url).netloc}"
    async with rocketmq_driver(client, home, domain, access_key="any", secret="any") as driver:  # noqa: S106
        sent = await driver.call("send", topic=topic, body="found you")
        await driver.call("consume", group=topic, topic=topic)
        assert (await driver.next(topic)).message_id == sent["message_id"]
