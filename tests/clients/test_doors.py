"""One broker, several protocols: messages between every SDK and the JSON API."""

import pytest

from tests.clients.conftest import Broker, Open
from tests.clients.sdk import Account, Outgoing, Sdk
from tests.clients.test_start_deliver_time import in_ms

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"
INSTANCE = "MQ_INST_1_abc"


@pytest.mark.point("JSON API to SDK: id, body, tag, keys, properties")
async def test_json_to_sdk(broker: Broker, sdk: Sdk, topic: str) -> None:
    sent = await broker.control.send(topic, "order 7 <é>", tag="paid", keys=["7", "8"], properties={"a": "b"})
    [message] = await sdk.take(topic, GROUP)
    assert message.message_id == sent["message_id"]
    assert (message.body, message.tag, message.key) == ("order 7 <é>", "paid", "7 8")
    assert message.properties == {"a": "b"}
    await sdk.acknowledge(topic, GROUP, [message.handle])


@pytest.mark.point(
    "JSON API to SDK: a property that the protocol cannot carry (`:` or a pipe in it) is left out"
)
async def test_unrepresentable_properties(broker: Broker, sdk: Sdk, topic: str) -> None:
    properties = {"url": "a:b", "pipe": "a|b", "na:me": "c", "good": "d", "markup": "<&>\"'"}
    await broker.control.send(topic, "order 7", properties=properties)
    [message] = await sdk.take(topic, GROUP)
    assert message.properties == {"good": "d", "markup": "<&>\"'"}


@pytest.mark.point("JSON API to SDK: delay levels and start-deliver times")
async def test_json_delays_to_sdk(broker: Broker, sdk: Sdk, topic: str) -> None:
    start_ms = in_ms(3_600_000)
    await broker.control.send(topic, "level", delay_level=16)
    await broker.control.send(topic, "time", start_deliver_ms=start_ms)
    await broker.control.advance("29m59s")
    assert await sdk.take(topic, GROUP) == []
    await broker.control.advance("1s")
    [level] = await sdk.take(topic, GROUP)
    assert (level.body, level.start_deliver_ms, level.properties) == ("level", None, {})
    await sdk.acknowledge(topic, GROUP, [level.handle])
    await broker.control.advance("30m")
    [timed] = await sdk.take(topic, GROUP)
    assert (timed.body, timed.start_deliver_ms, timed.properties) == ("time", start_ms, {})


@pytest.mark.point("SDK to JSON API: id, body, tag, keys, properties")
async def test_sdk_to_json(broker: Broker, sdk: Sdk, topic: str) -> None:
    outgoing = Outgoing(body="order 7 <é>", tag="paid", key="7 8", properties={"a": "b"})
    published = await sdk.publish(topic, outgoing)
    [message] = await broker.control.receive(topic, group=GROUP)
    assert message["message_id"] == published.message_id
    assert (message["body"], message["tag"], message["keys"]) == ("order 7 <é>", "paid", ["7", "8"])
    assert message["properties"]["a"] == "b"


@pytest.mark.point("SDK to JSON API: a delayed message is listed while it waits, and received when it is due")
async def test_sdk_delay_to_json(broker: Broker, sdk: Sdk, topic: str) -> None:
    start_ms = in_ms(60_000)
    published = await sdk.publish(topic, Outgoing(body="later", start_deliver_ms=start_ms))
    [waiting] = (await broker.control.delayed(topic=topic))["messages"]
    assert (waiting["message_id"], waiting["body"]) == (published.message_id, "later")
    await broker.control.move_to(waiting["due_ms"])
    [message] = await broker.control.receive(topic, group=GROUP)
    assert (message["message_id"], message["body"]) == (published.message_id, "later")
    assert message["properties"]["__STARTDELIVERTIME"] == str(start_ms)


@pytest.mark.point("Both protocols share a group: a message in flight by one is invisible to the other")
async def test_shared_group(broker: Broker, sdk: Sdk, topic: str) -> None:
    await sdk.publish(topic, Outgoing(body="one"))
    assert await sdk.bodies(topic, GROUP) == ["one"]
    assert await broker.control.receive(topic, group=GROUP) == []
    await broker.control.send(topic, "two")
    [message] = await broker.control.receive(topic, group=GROUP)
    assert message["body"] == "two"
    assert await sdk.take(topic, GROUP) == []


@pytest.mark.point("An instance's topics and groups are named `instance%name` in other protocols")
async def test_instance(broker: Broker, open_sdk: Open, sdk: Sdk, topic: str) -> None:
    name, group = f"{INSTANCE}%{topic}", f"{INSTANCE}%{GROUP}"
    async with open_sdk(Account(broker.url, instance=INSTANCE)) as inside:
        await inside.publish(topic, Outgoing(body="from inside"))
        assert await sdk.take(topic, GROUP) == []
        assert await inside.bodies(topic, GROUP) == ["from inside"]
        assert await broker.control.receive(name, group=group) == []
        [message] = await broker.control.receive(name, group="GID_other")
        assert message["body"] == "from inside"

        await broker.control.send(name, "from outside")
        [received] = await inside.take(topic, GROUP)
        assert received.body == "from outside"
        await inside.acknowledge(topic, GROUP, [received.handle])
