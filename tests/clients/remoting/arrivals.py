"""Messages that arrive whole, and those that a filter by tags selects."""

from tests.clients.remoting.driver import Driver


async def arrives_whole(client: Driver, topic: str) -> None:
    """Send a message, and check each of its fields at a consumer."""
    properties = {"colour": "grün", "price": "7"}
    body = "Ein Wort, 两个字, 🙂\n"
    sent = await client.call(
        "send", topic=topic, body=body, tag="a", keys=["k1", "k2"], properties=properties
    )
    assert (sent["is_ok"], sent["queue_offset"]) == (True, 0)
    await client.call("consume", group=topic, topic=topic)
    received = await client.next(topic)
    assert (received.topic, received.body, received.message_id) == (topic, body, sent["message_id"])
    assert (received.queue_id, received.queue_offset) == (sent["queue_id"], 0)
    assert (received.tag, received.keys, received.times) == ("a", "k1 k2", 0)
    assert properties.items() <= received.properties.items()


async def arrive_by_tag(client: Driver, topic: str) -> None:
    """Check that a consumer gets the messages with its tags alone."""
    for tag in ("a", "b", "c", "d"):
        await client.call("send", topic=topic, body=tag, tag=tag)
    await client.call("send", topic=topic, body="none")
    await client.call("consume", group=topic, topic=topic, tags="a || d")
    assert set(await client.bodies(topic, 2)) == {"a", "d"}
    await client.call("send", topic=topic, body="last", tag="d")
    assert await client.bodies(topic, 1) == ["last"]
