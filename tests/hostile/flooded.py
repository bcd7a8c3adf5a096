"""Floods a broker while other clients send, and measures both clients and memory."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

import aiohttp
import psutil

from mocketmq.clock import US_PER_MS, steady_us
from tests.hostile.flooder import MOST_S, Ended
from tests.hostile.floods import LARGE
from tests.support.grpc import grpc_client
from tests.support.patience import PATIENCE_S
from tests.support.process import BrokerProcess
from tests.support.remoting import connected

MB: Final = 1_000_000
SEND_MESSAGE_V2: Final = 310
SEND: Final = dict(zip("abcdefghi", ("makers", "orders", "TBW102", "4", "0", "0", "1", "0", ""), strict=True))
_LARGE_BYTES: Final = 900_000
_LARGE_MESSAGES: Final = 32
_PAUSE_S: Final = 0.005


@dataclass(slots=True)
class Flooded:
    """What a flood did: to its connections, to others' requests by kind (ms), and to memory (bytes)."""

    before: int
    peak: int = 0
    ends: list[Ended] = field(default_factory=list)
    took_ms: dict[str, list[float]] = field(default_factory=dict)


def memory(broker: BrokerProcess) -> int:
    """The broker's resident memory."""
    size: int = psutil.Process(broker.pid).memory_info().rss
    return size


async def flooded(
    broker: BrokerProcess, flood: str, *, connections: int = 1, rounds: int = 1, address: str | None = None
) -> Flooded:
    """Flood the broker, or else ``address``.

    During the flood, send by remoting and by gRPC, and check the health; every request must succeed.
    """
    async with AsyncExitStack() as stack:
        remoting = await stack.enter_async_context(connected(broker.name_server[0], broker.broker_port))
        grpc = await stack.enter_async_context(grpc_client(int(broker.grpc.rpartition(":")[2])))
        timeout = aiohttp.ClientTimeout(PATIENCE_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))

        async def send_by_remoting() -> None:
            await remoting.ok(SEND_MESSAGE_V2, SEND, b"hello")

        async def send_by_grpc() -> None:
            answer = await grpc.send(grpc.message("hello"))
            assert answer.status.code == 20_000, answer

        async def ask_for_health() -> None:
            async with session.get(f"{broker.url}/healthz") as answer:
                assert answer.status == 200

        if flood == "tiny-windows":
            for _ in range(_LARGE_MESSAGES):
                await remoting.ok(SEND_MESSAGE_V2, SEND | {"b": LARGE}, bytes(_LARGE_BYTES))
        asks = {"remoting": send_by_remoting, "gRPC": send_by_grpc, "/healthz": ask_for_health}
        for ask in asks.values():
            await ask()  # the first request makes the broker import its modules
        found = Flooded(memory(broker))
        flooding = asyncio.create_task(_flood(address or broker.grpc, flood, connections, rounds))
        async with asyncio.TaskGroup() as others:
            for name, ask in asks.items():
                others.create_task(_keep_asking(flooding, ask, found, name))
            others.create_task(_watch_memory(flooding, broker, found))
        found.ends = flooding.result()
        return found


async def _flood(address: str, flood: str, connections: int, rounds: int) -> list[Ended]:
    arguments = [flood, address, "--connections", str(connections), "--rounds", str(rounds)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.hostile.flooder", *arguments, stdout=PIPE
    )
    async with asyncio.timeout(MOST_S + PATIENCE_S):
        output, _ = await process.communicate()
    return [Ended(**ended) for ended in json.loads(output)]


async def _keep_asking(
    flooding: asyncio.Task[list[Ended]], ask: Callable[[], Awaitable[None]], found: Flooded, name: str
) -> None:
    took_ms = found.took_ms[name] = []
    while not flooding.done():
        began_us = steady_us()
        await ask()
        took_ms.append((steady_us() - began_us) / US_PER_MS)
        await asyncio.sleep(_PAUSE_S)


async def _watch_memory(flooding: asyncio.Task[list[Ended]], broker: BrokerProcess, found: Flooded) -> None:
    while not flooding.done():
        found.peak = max(found.peak, memory(broker))
        await asyncio.sleep(_PAUSE_S)


async def memory_is_back(broker: BrokerProcess, found: Flooded) -> None:
    """Wait until memory is back at its level before the flood, except for the heap that Python keeps."""
    async with asyncio.timeout(PATIENCE_S):
        while memory(broker) - found.before >= 60 * MB:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_PAUSE_S)
