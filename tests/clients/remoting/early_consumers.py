"""Consumers that start before their topic exists."""

import asyncio

from mocketmq import BrokerError
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver


async def gets_the_first_message(broker: RemotingBroker, client: Driver, topic: str) -> None:
    """Consume a missing topic, which creates it, and check that the consumer gets the next message."""
    await client.call("consume", group=topic, topic=topic)
    async with asyncio.timeout(WAIT_S):
        while not await exists(broker, topic):
            pass
    await broker.control.send(topic, "first")
    assert await client.bodies(topic, 1) == ["first"]


async def exists(broker: RemotingBroker, topic: str) -> bool:
    try:
        return bool(await broker.control.topic(topic))
    except BrokerError:
        return False
