"""Sends the messages of a load by remoting, at a given rate or as fast as the broker responds."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Self

from mocketmq.calling.call import ClusterError
from mocketmq.calling.connection import ClientConnection
from mocketmq.calling.headers import send_ext
from mocketmq.clock import US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError
from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import UNIQ_KEY, WAIT
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode

_GROUP: Final = "lab"
_QUEUES: Final = 4


class Producer:
    """A connection with any number of sends in flight. ``failed`` counts failures by reason."""

    def __init__(self, address: str, size: int) -> None:
        self.failed: Counter[str] = Counter()
        self._connection = ClientConnection(address)
        self._body = bytes(size)
        self._sent = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def send(self, topic: str, delay: Mapping[str, str]) -> None:
        """Send a message, and return when the broker has answered. Raises ClusterError."""
        now_us = wall_us()
        self._sent += 1
        properties = {UNIQ_KEY: new_unique_key(now_us), WAIT: "true", **delay}
        ext = send_ext(topic, _GROUP, self._sent % _QUEUES, now_us, properties)
        answer = await self._connection.call(RequestCode.SEND_MESSAGE, ext, self._body)
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterError(f"the broker refused a message: {answer.reason}")

    async def try_to_send(self, topic: str, delay: Mapping[str, str]) -> None:
        """Send a message, and count a failure instead of raising it."""
        try:
            await self.send(topic, delay)
        except EmulatorError as error:
            self.failed[str(error)] += 1


async def paced(rate: float, count: int, act: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Call ``act`` at a fixed rate, even while earlier calls run; return when all calls have ended."""
    began_us = steady_us()
    async with asyncio.TaskGroup() as begun:
        for number in range(count):
            due_us = began_us + round(number * US_PER_S / rate)
            await asyncio.sleep(max(0, due_us - steady_us()) / US_PER_S)
            begun.create_task(act())


async def per_second(act: Callable[[], Awaitable[object]], in_flight: int, seconds: float) -> float:
    """The number of calls of ``act`` that end per second, with a constant number of calls in flight."""
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
