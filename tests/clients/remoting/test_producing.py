"""Sending with RocketMQ's clients for Python and Node."""

import pytest

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"


@pytest.mark.feature("Send and wait", "python", "node")
@pytest.mark.feature("A topic that does not exist yet", "python", "node")
@pytest.mark.feature("Tags, keys and properties", "python", "node")
@pytest.mark.feature("Push consumer", "python", "node")
async def test_a_message_arrives_as_it_was_sent(driver: Driver, topic: str) -> None:
    properties = {"colour": "grün", "price": "7"}
    body = "Ein Wort, 两个字, 🙂\n"
    sent = await driver.call(
        "send", topic=topic, body=body, tag="a", keys=["k1", "k2"], properties=properties
    )
    assert (sent["is_ok"], sent["queue_offset"]) == (True, 0)
    await driver.call("consume", group=f"GID_{topic}", topic=topic)
    received = await driver.next(f"GID_{topic}")
    assert (received.topic, received.body, received.message_id) == (topic, body, sent["message_id"])
    assert (received.tag, received.keys, received.times) == ("a", "k1 k2", 0)
    assert properties.items() <= received.properties.items()


@pytest.mark.feature("Tags, keys and properties", "python", "node")
async def test_a_message_without_tag_and_keys(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="bare")
    [message] = await broker.control.receive(topic, group=GROUP)
    assert (message["body"], message["keys"]) == ("bare", [])


@pytest.mark.feature("To and from the JSON API", "python", "node")
async def test_by_json_and_back(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await broker.control.send(topic, "from JSON", tag="a", keys=["7"], properties={"colour": "red"})
    await driver.call("consume", group=f"GID_{topic}", topic=topic)
    received = await driver.next(f"GID_{topic}")
    assert (received.body, received.tag, received.keys) == ("from JSON", "a", "7")
    assert received.properties["colour"] == "red"

    await driver.call("send", topic=topic, body="to JSON", tag="b", keys=["8"], properties={"colour": "blue"})
    assert await driver.bodies(f"GID_{topic}", 1) == ["to JSON"]
    messages = await broker.control.receive(topic, group=GROUP, max_messages=2)
    [message] = [one for one in messages if one["body"] == "to JSON"]
    assert (message["tag"], message["keys"]) == ("b", ["8"])
    assert message["properties"]["colour"] == "blue"


@pytest.mark.feature("Large bodies, compressed", "python", "node")
async def test_a_large_body(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    body = "all work and no play " * 5_000
    await driver.call("send", topic=topic, body=body)
    [message] = await broker.control.receive(topic, group=GROUP)
    assert message["body"] == body
    await driver.call("consume", group=f"GID_{topic}", topic=topic)
    assert await driver.bodies(f"GID_{topic}", 1) == [body]
