"""Pops as the protocols make them: by group name, with handles made of queue, offset and pop time."""

import asyncio
from typing import Any

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.pops import MAX_POPPED, Popped, PopTarget
from mocketmq.broker.consuming.receiver import InFlightMessage
from tests.support.brokers import GROUP, TOPIC, S, send
from tests.support.patience import PATIENCE_S

INVISIBLE_US = 60 * S


async def fill(broker: Broker, *contents: str) -> None:
    """Send messages with these contents to one queue."""
    for content in contents:
        await send(broker, content, queue=0)


async def target_of(broker: Broker) -> PopTarget:
    return await broker.pops.admit(GROUP, TOPIC, -1)


async def pop_with_rest(broker: Broker, limit: int = MAX_POPPED, **how: Any) -> Popped:
    return await broker.pops.pop(await target_of(broker), limit, INVISIBLE_US, **how)


async def pop(broker: Broker, limit: int = MAX_POPPED, **how: Any) -> list[InFlightMessage]:
    return list((await pop_with_rest(broker, limit, **how)).messages)


async def waiting_pop(broker: Broker, **how: Any) -> "asyncio.Task[list[InFlightMessage]]":
    """Start a pop, and return it once it waits."""
    waiting = asyncio.create_task(pop(broker, wait_s=30, **how))
    async with asyncio.timeout(PATIENCE_S):
        while not broker.polls.count:  # noqa: ASYNC110 - nothing tells of a poll
            await asyncio.sleep(0)
    return waiting


def handle_of(broker: Broker, popped: InFlightMessage) -> PopHandle:
    message = popped.message
    queue = broker.registry.topics.queue(message.queue_key)
    return broker.pops.handle(GROUP, queue.topic, queue.queue_id, message.queue_offset, popped.pop_ms)


async def acknowledge(broker: Broker, *popped: InFlightMessage) -> list[bool]:
    """Acknowledge the messages, and return for each whether it was in flight."""
    handles = [handle_of(broker, one) for one in popped]
    done = (await broker.settler.acknowledge(GROUP, handles)).done
    return [handle in done for handle in handles]


async def change(
    broker: Broker, popped: InFlightMessage, invisible_us: int, *, same_handle: bool = False
) -> InFlightMessage:
    """Change the invisible time, and return the message with its new pop time."""
    changed = await broker.settler.change(
        GROUP, handle_of(broker, popped), invisible_us, same_handle=same_handle
    )
    return popped._replace(pop_ms=changed.pop_ms)


def takes(popped: list[InFlightMessage]) -> list[tuple[str, int]]:
    """Return each body, and how many times the group has taken the message."""
    return [(one.message.body.decode(), one.times) for one in popped]
