"""Two members of a group, which divide its queues some time after the second member joins."""

import asyncio
from collections import deque
from functools import partial
from uuid import uuid4

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver, Received


async def share_the_queues(broker: RemotingBroker, client: Driver, topic: str, **options: object) -> None:
    """Send to each queue in rounds, until both members got messages and each message arrived once.

    Before the queues are divided, one member gets all messages. During the change, both may get a message.
    """
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    members = [f"{topic}-1", f"{topic}-2"]
    for member in members:
        await client.call("consume", group=topic, topic=topic, member=member, **options)
    received = [client.received[member] for member in members]
    async with asyncio.timeout(WAIT_S):
        while True:
            bodies = {str(uuid4()) for _ in range(4)}
            for queue_id, body in enumerate(bodies):
                await broker.control.send(topic, body, queue_id=queue_id)
            await client.until(partial(_include, received, bodies))
            if all(received) and sum(map(len, received)) == len(bodies):
                return
            for messages in received:
                messages.clear()


def _include(received: list[deque[Received]], bodies: set[str]) -> bool:
    return bodies <= {message.body for messages in received for message in messages}
