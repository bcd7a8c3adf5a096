"""Load on a broker: messages, sent either as fast as answers arrive or at a steady pace."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from mocketmq.broker.broker import Broker
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY, KEYS, TAGS, TIMER_DELAY_MS

TOPIC = "orders"
BODY = b'{"order": 20240517, "state": "unpaid", "customer": "c-881", "total": "129.90"}'.ljust(350, b".")
"""Body that makes a row of about 500 bytes, with properties and key."""

TICK_S = 0.001
"""Shortest sleep, because uvloop counts milliseconds and does not sleep at all for less."""

_orders = itertools.count()


def order(level: int = 0, *, delay_ms: int = 0, topic: str = TOPIC, body: bytes = BODY) -> Message:
    """Build a message, optionally delayed by a level or by milliseconds."""
    properties = {TAGS: "created", KEYS: f"order-{next(_orders)}"}
    if level:
        properties[DELAY] = str(level)
    if delay_ms:
        properties[TIMER_DELAY_MS] = str(delay_ms)
    return Message(topic, body, properties)


async def fill(broker: Broker, count: int, level_of: Callable[[int], int], body: bytes = BODY) -> None:
    """Send ``count`` messages in batches, as fast as possible; ``level_of`` gets their numbers from 0."""
    for start in range(0, count, 2 * MAX_BATCH):
        numbers = range(start, min(start + 2 * MAX_BATCH, count))
        messages = [order(level_of(number), body=body) for number in numbers]
        halves = [half for half in (messages[:MAX_BATCH], messages[MAX_BATCH:]) if half]
        await asyncio.gather(*map(broker.sender.send_batch, halves))


@asynccontextmanager
async def paced(rate: float, act: Callable[[], Awaitable[object]]) -> AsyncIterator[list[float]]:
    """Start ``act`` at this rate until the block ends, without waiting for earlier calls.

    Yields a growing list of the calls' milliseconds, counted from when each call should have started.
    """
    took_ms: list[float] = []
    stop = asyncio.Event()

    async def one(since: float) -> None:
        await act()
        took_ms.append((perf_counter() - since) * 1e3)

    async def pace() -> None:
        started = perf_counter()
        number = 0
        async with asyncio.TaskGroup() as begun:
            while not stop.is_set():
                await asyncio.sleep(TICK_S)
                while (since := started + number / rate) <= perf_counter():
                    begun.create_task(one(since))
                    number += 1

    pacing = asyncio.create_task(pace())
    try:
        yield took_ms
    finally:
        stop.set()
        await pacing
