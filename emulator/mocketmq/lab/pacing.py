"""Two ways to send: at a pace, and as fast as answers come."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mocketmq.clock import US_PER_S, steady_us


async def paced(rate: float, count: int, act: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Begin ``act`` so often a second, whether or not earlier ones have ended; return when all have."""
    began_us = steady_us()
    async with asyncio.TaskGroup() as begun:
        for number in range(count):
            due_us = began_us + round(number * US_PER_S / rate)
            await asyncio.sleep(max(0, due_us - steady_us()) / US_PER_S)
            begun.create_task(act())


async def per_second(act: Callable[[], Awaitable[object]], in_flight: int, seconds: float) -> float:
    """How often a second ``act`` ends when so many are always under way."""
    began_us = steady_us()
    until_us = began_us + round(seconds * US_PER_S)
    done = 0

    async def repeat() -> None:
        nonlocal done
        while steady_us() < until_us:
            await act()
            done += 1

    await asyncio.gather(*(repeat() for _ in range(in_flight)))
    return done * US_PER_S / (steady_us() - began_us)
