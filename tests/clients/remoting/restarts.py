"""Restarts of consumers, after waiting until the broker has stored their offsets."""

import asyncio

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver


async def committed(broker: RemotingBroker, group: str) -> None:
    """Wait until the broker has the offsets behind all messages; clients commit every few seconds."""
    async with asyncio.timeout(WAIT_S):
        while (await broker.control.group(group))["lag"]:
            pass


async def goes_on_where_it_was(broker: RemotingBroker, client: Driver, topic: str) -> None:
    """Consume, close, and consume again, with a group named like the topic.

    A closed client does not commit a message that it has just passed to its listener.
    """
    await client.call("consume", group=topic, topic=topic)
    for body in ("long before", "before"):
        await client.call("send", topic=topic, body=body)
        assert await client.bodies(topic, 1) == [body]
    await committed(broker, topic)
    await client.call("close", member=topic)
    await client.call("send", topic=topic, body="meanwhile")
    await client.call("consume", group=topic, topic=topic)
    assert await client.bodies(topic, 1) == ["meanwhile"]
