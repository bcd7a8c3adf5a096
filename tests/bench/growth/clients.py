"""Costs by the number of connected clients: a send of one of them, and memory."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.floors import memory_mb
from tests.bench.growth.series import FLAT, LINEAR, Cost
from tests.bench.remoting_client import sends_per_second
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.process import HOST

_SECONDS: Final = 2.0
_IN_FLIGHT: Final = 64


async def clients(count: int) -> AsyncIterator[Cost]:
    """Connect idle clients, and measure sends beside them; then let all clients send at once."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        async with broker_process("--data", str(Path(folder, "data"))) as process, AsyncExitStack() as stack:
            port = process.broker_port
            await sends_per_second(HOST, port, 8, _IN_FLIGHT, _SECONDS / 4)
            for _ in range(count):
                await stack.enter_async_context(connected(HOST, port))
            yield Cost("memory with idle clients", "MB", count, memory_mb(process.pid), LINEAR)
            if count:
                rate = await sends_per_second(HOST, port, 8, _IN_FLIGHT, _SECONDS)
                yield Cost("a send beside idle clients", "µs", count, 1e6 / rate, FLAT)
                rate = await sends_per_second(HOST, port, count, count, _SECONDS)
                yield Cost("a send, each client having one in flight", "µs", count, 1e6 / rate, FLAT)
