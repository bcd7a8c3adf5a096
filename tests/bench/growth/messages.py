"""Costs by the number of messages: sends, disk, restarts, memory, deliveries, hold-ups and reports."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, get_args

from mocketmq import Client
from mocketmq.clock import US_PER_S
from mocketmq.lab.filling import fill_with_herd, fill_with_pending
from mocketmq.lab.load import LEVELS, SchemeName
from mocketmq.settings import TimedSchemeName
from tests.bench.figures import quantile
from tests.bench.floors import memory_mb
from tests.bench.growth.series import FLAT, Cost
from tests.bench.load import fill
from tests.bench.progress import say
from tests.bench.remoting_client import acknowledged, connect, send_frame
from tests.bench.reports import report
from tests.support.brokers import DELAYS_US, running_broker
from tests.support.process import broker_process
from tests.upstream.process import HOST

SCHEMES: Final[tuple[SchemeName, ...]] = (LEVELS, *get_args(TimedSchemeName))
_BODY: Final = b"." * 200
_ALL: Final = "2h"
_HERD_US: Final = 3_600 * US_PER_S
_PING_S: Final = 0.005
_PAGE: Final = 4_096


async def sent(size: int) -> AsyncIterator[Cost]:
    """Send messages of all levels, start again with them, deliver them, and report on them."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        data = Path(folder, "data")
        async with running_broker(data) as broker:
            began = perf_counter()
            await fill(broker, size, lambda number: 1 + number % len(DELAYS_US), _BODY)
            yield Cost("sends, in batches", "s", size, perf_counter() - began)
        async with broker_process("--data", str(data), "--clock", "manual") as process:
            async with Client(process.url) as client:
                began = perf_counter()
                await client.advance(_ALL)
                yield Cost("deliveries, in a move of the clock", "s", size, perf_counter() - began)
            yield Cost("memory after the deliveries", "MB", size, memory_mb(process.pid))
        yield Cost("disk after the deliveries", "MB", size, _disk_mb(data))
        if size:
            ran = await report(Path(folder), data, "--quick")
            yield Cost("report --quick", "s", size, ran.seconds)


async def pending(scheme: SchemeName, size: int) -> AsyncIterator[Cost]:
    """Start with messages that are due over a day."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        data = Path(folder, "data")
        began = perf_counter()
        await fill_with_pending(scheme, data, size, len(_BODY))
        say(f"{scheme}: wrote {size:,} in {perf_counter() - began:.1f} s")
        yield Cost(f"{scheme}: disk of pending messages", "MB", size, _disk_mb(data))
        began = perf_counter()
        async with broker_process("--data", str(data), *_options(scheme)) as process:
            yield Cost(f"{scheme}: restart to ready", "s", size, perf_counter() - began)
            yield Cost(f"{scheme}: memory after it", "MB", size, memory_mb(process.pid))
            began = perf_counter()
        yield Cost(f"{scheme}: stop", "s", size, perf_counter() - began)


async def herd(scheme: SchemeName, size: int) -> AsyncIterator[Cost]:
    """Deliver messages that are all due in one second, while another client sends.

    Beside it, this process appends to a file of its own and syncs it: sends cannot be faster.
    """
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        data = Path(folder, "data")
        await fill_with_herd(scheme, data, size, _HERD_US, len(_BODY))
        async with (
            broker_process("--data", str(data), *_options(scheme)) as process,
            Client(process.url) as client,
        ):
            other = await connect(HOST, process.broker_port, acknowledged)
            await other.ask(send_frame(0))
            began = perf_counter()
            moving = asyncio.create_task(client.advance(_ALL))
            sends_s: list[float] = []
            syncs_s: list[float] = []
            while not moving.done():
                sends_s.append(await _took_s(other.ask(send_frame(0))))
                syncs_s.append(await _took_s(asyncio.to_thread(_append, Path(folder, "other"))))
                await asyncio.wait([moving], timeout=_PING_S)
            assert (await moving)["fired"] == size
            other.close()
            yield Cost(f"{scheme}: deliveries of a second", "s", size, perf_counter() - began)
            yield Cost(
                f"{scheme}: p99.9 of sends meanwhile", "ms", size, quantile(sends_s, 0.999) * 1e3, FLAT
            )
            yield Cost(f"{scheme}: longest send meanwhile", "ms", size, max(sends_s) * 1e3, FLAT)
            yield Cost(f"{scheme}: longest sync of another file", "ms", size, max(syncs_s) * 1e3, FLAT)


async def _took_s(step: Awaitable[None]) -> float:
    began = perf_counter()
    await step
    return perf_counter() - began


def _append(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(bytes(_PAGE))
        os.fsync(file.fileno())


def _options(scheme: SchemeName) -> tuple[str, ...]:
    options = ("--clock", "manual")
    return options if scheme == LEVELS else (*options, "--timed-scheme", scheme)


def _disk_mb(data: Path) -> float:
    """Return the disk space of all files, in 10^6 bytes."""
    return sum(path.lstat().st_blocks for path in data.rglob("*")) * 512 / 1e6
