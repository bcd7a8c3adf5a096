"""A consumer that is closed and started again, as every client whose offsets are stored must pass it."""

from tests.clients.remoting.driver import Driver


async def goes_on_where_it_was(client: Driver, topic: str) -> None:
    """Consume, close, consume again; the topic's name is the group's as well."""
    await client.call("consume", group=topic, topic=topic)
    for body in ("long before", "before"):
        await client.call("send", topic=topic, body=body)
        assert await client.bodies(topic, 1) == [body]
    await client.call("close", member=topic)
    await client.call("send", topic=topic, body="meanwhile")
    await client.call("consume", group=topic, topic=topic)
    received = await client.bodies(topic, 1)
    await client.call("send", topic=topic, body="last")
    while received[-1] != "last":
        received += await client.bodies(topic, 1)
    assert set(received) - {"before"} == {"meanwhile", "last"}  # it was closed at once, maybe too early
