"""Load on a broker: the messages, and the two ways to send them — as fast as answers come, or at a pace."""

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
"""With properties, key and numbers, a row of about 500 bytes."""

TICK_S = 0.001
"""The shortest sleep: uvloop counts milliseconds and does not sleep at all for less."""

_orders = itertools.count()


def order(level: int = 0, *, delay_ms: int = 0, topic: str = TOPIC, body: bytes = BODY) -> Message:
    """A new message, delayed if there is a level, or any number of milliseconds."""
    properties = {TAGS: "created", KEYS: f"order-{next(_orders)}"}
    if level:
        properties[DELAY] = str(level)
    if delay_ms:
        properties[TIMER_DELAY_MS] = str(delay_ms)
    return Message(topic, body, properties)


async def fill(broker: Broker, count: int, level_of: Callable[[int], int], body: bytes = BODY) -> None:
    """Send ``count`` messages as fast as it goes, in batches; ``level_of`` numbers them from 0."""
    for start in range(0, count, 2 * MAX_BATCH):
        numbers = range(start, min(start + 2 * MAX_BATCH, count))
        messages = [order(level_of(number), body=body) for number in numbers]
        halves = [half for half in (messages[:MAX_BATCH], messages[MAX_BATCH:]) if half]
        await asyncio.gather(*map(broker.sender.send_batch, halves))


@asynccontextmanager
async def paced(rate: float, act: Callable[[], Awaitable[object]]) -> AsyncIterator[list[float]]:
    """Begin ``act`` so often a second until the block ends, whether or not earlier ones have ended.

    Gives a list that grows by the milliseconds each took, counted from when it should have begun.
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
