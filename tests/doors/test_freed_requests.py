"""What requests leave behind is freed at once, not by the garbage collector.

A cycle of references in every request once took a fifth of the CPU time of a send over the JSON API.
"""

import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.doors.remoting.consuming import pull
from tests.doors.remoting.popping import ack, pop
from tests.doors.remoting.producing import V2, header
from tests.support.aliyun import running_aliyun
from tests.support.api import running_api
from tests.support.grpc import running_grpc
from tests.support.remoting import running_remoting

REQUESTS = 20


@contextmanager
def kept_garbage() -> Iterator[list[object]]:
    """Collect no garbage inside, and keep all of it in a list at the end."""
    garbage: list[object] = []
    gc.collect()
    gc.disable()
    try:
        yield garbage
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def in_cycles(request: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """Count by type the broker's objects that every request leaves in cycles."""
    for _ in range(3):
        await request()
    with kept_garbage() as garbage:
        for _ in range(REQUESTS):
            await request()
    types = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in garbage)
    return {name: count for name, count in types.items() if name.startswith("mocketmq") and count >= REQUESTS}


async def test_json() -> None:
    async with running_api() as api:

        async def round_trip() -> None:
            await api.send()
            for message in await api.receive():
                handle = {"receipts": [message["receipt"]]}
                await api.ok("POST", "/v1/groups/billing/ack", handle)

        assert await in_cycles(round_trip) == {}


async def test_aliyun() -> None:
    async with running_aliyun() as aliyun:

        async def round_trip() -> None:
            await aliyun.published()
            for message in await aliyun.consume():
                await aliyun.settle([message["ReceiptHandle"]])

        assert await in_cycles(round_trip) == {}


async def test_grpc() -> None:
    async with running_grpc() as (_, client):

        async def round_trip() -> None:
            await client.send(client.message("hello"))
            await client.ack(*await client.receive())

        assert await in_cycles(round_trip) == {}


async def test_remoting() -> None:
    async with running_remoting() as remoting:
        offset = count()

        async def round_trip() -> None:
            await remoting.client.ok(V2, header(), b"hello")
            await pull(remoting.client, next(offset))
            for message in await pop(remoting.client):
                await ack(remoting.client, message.handle)

        assert await in_cycles(round_trip) == {}
