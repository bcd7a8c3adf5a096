"""Second directories: acknowledged saves, deliveries, and the cost of many pending files at a start."""

import asyncio
import itertools
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.lab.producer import per_second
from mocketmq.message.properties import UNIQ_KEY
from mocketmq_compat.delay.delayed_file import FileHeader, encode
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from tests.bench.figures import Figure, at_least, at_most, quantile
from tests.bench.floors import bare_process, memory_mb
from tests.bench.load import BODY, TOPIC, order, paced
from tests.bench.progress import rounds, say
from tests.support.brokers import running_broker
from tests.support.process import broker_process

POLICIES = ("never", "interval", "always")
IN_FLIGHT = (1, 64, 256)
AIMS = {("never", 64): at_least(0.5, of_floor=True), ("always", 64): at_least(2, of_floor=True)}
FILE_BYTES = 900
"""Approximate size of a saved order."""
HERD_SENDS_PER_S = 200

_numbers = itertools.count(1)


async def saves(quick: bool) -> list[Figure]:
    """Measure saves a second by policy; the floor writes, syncs as the policy requires, and renames files."""
    seconds, count = (0.2, 1) if quick else (1.0, 5)
    rates: dict[tuple[str, int], list[float]] = {}
    floors: dict[tuple[str, int], list[float]] = {}
    for _ in rounds("saves", count):
        for policy in POLICIES:
            with TemporaryDirectory(prefix="mocketmq-bench-") as data:
                async with running_broker(data, clock="real", delay_sync=policy) as broker:
                    for n in IN_FLIGHT:
                        rate = await per_second(lambda: _send(broker), n, seconds)
                        rates.setdefault((policy, n), []).append(rate)
            with TemporaryDirectory(prefix="mocketmq-bench-") as data:
                bare = await asyncio.to_thread(_bare_saves, Path(data), seconds, policy == "always")
            for n in IN_FLIGHT:
                floors.setdefault((policy, n), []).append(bare)
    return [
        Figure(
            f"delay-sync {policy}, {n} in flight",
            "/s",
            rates[policy, n],
            floors[policy, n],
            AIMS.get((policy, n)),
        )
        for policy in POLICIES
        for n in IN_FLIGHT
    ]


async def _send(broker: Broker, delay_ms: int = 3_600_000) -> None:
    await broker.sender.send(order(delay_ms=delay_ms))


def _bare_saves(folder: Path, seconds: float, is_synced: bool) -> float:
    content = bytes(FILE_BYTES)
    until = perf_counter() + seconds
    number = 0
    started = perf_counter()
    while perf_counter() < until:
        number += 1
        path = f"{folder}/{number}"
        fd = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, content)
        if is_synced:
            os.fsync(fd)
        os.close(fd)
        os.rename(f"{path}.tmp", path)  # noqa: PTH104 - a floor has no Path
    return number / (perf_counter() - started)


async def herd(quick: bool) -> list[Figure]:
    """Deliver files due in one second by a clock move, and measure the latency of concurrent sends."""
    size, count = (1_000, 1) if quick else (50_000, 3)
    drained, p99_ms, floors = [], [], []
    for _ in rounds(f"herd of {size:,} files", count):
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            async with running_broker(data) as broker:
                due_ms = -(-broker.clock.now_us() // US_PER_S) * 1_000 + 10_000
            await asyncio.to_thread(_fill, Path(data), size, due_ms, 1_000)
            floors.append(await asyncio.to_thread(_read_and_unlink, Path(data) / "delay"))
            await asyncio.to_thread(_fill, Path(data), size, due_ms, 1_000)
            async with running_broker(data, delay_sync="never") as broker:
                await broker.sender.send(order(topic="other"))
                async with paced(
                    HERD_SENDS_PER_S, lambda: broker.sender.send(order(topic="other"))
                ) as took_ms:
                    started = perf_counter()
                    move = await broker.mover.move_to(due_ms * US_PER_MS + US_PER_S)
                    drained.append(move.fired / (perf_counter() - started))
                assert move.fired == size
                p99_ms.append(quantile(took_ms, 0.99))
    return [
        Figure("drained (floor: read and unlink)", "/s", drained, floors),
        Figure("p99 of sends meanwhile", "ms", p99_ms, aim=at_most(50)),
    ]


def _read_and_unlink(root: Path) -> float:
    paths = [f"{folder}/{name}" for folder, _, names in os.walk(root) for name in names]
    started = perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.read(fd, FILE_BYTES * 2)
        os.close(fd)
        os.unlink(path)  # noqa: PTH108
    return len(paths) / (perf_counter() - started)


async def pending(quick: bool) -> list[Figure]:
    """Measure start time and memory with many pending files, a hundred in each second."""
    figures = []
    sizes = [(1_000, 1, 1.0)] if quick else [(100_000, 5, 1.0), (1_000_000, 3, 8.0)]
    for size, count, limit_s in sizes:
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            async with running_broker(data) as broker:
                due_ms = broker.clock.now_us() // US_PER_MS + 86_400_000
            say(f"writing {size:,} files …")
            await asyncio.to_thread(_fill, Path(data), size, due_ms, 10 * size)
            ready_s, bare_s, memory = [], [], []
            for _ in rounds(f"start with {size:,} files", count):
                started = perf_counter()
                async with broker_process("--data", data, "--clock", "manual") as process:
                    ready_s.append(perf_counter() - started)
                    memory.append(memory_mb(process.pid))
                bare_s.append((await bare_process(Path(data))).ready_s)
        name = f"{size:,} files pending"
        ready = f"{name}: restart to ready (floor: bare imports)"
        figures.append(Figure(ready, "s", ready_s, bare_s, at_most(limit_s)))
        figures.append(Figure(f"{name}: memory after restart", "MB", memory))
    return figures


def _fill(data: Path, size: int, due_ms: int, span_ms: int) -> None:
    """Write as many files as a broker would have saved, due at even intervals within the span."""
    directory = DelayDirectory(data / "delay")
    for n in range(size):
        _write(directory, n, due_ms + n * span_ms // size)
    directory.close()


def _write(directory: DelayDirectory, n: int, due_ms: int) -> None:
    header = FileHeader(
        number=1_700_000_000_000_000 + next(_numbers),
        due_us=due_ms * US_PER_MS,
        stored_us=due_ms * US_PER_MS - US_PER_S,
        topic=TOPIC,
        queue_id=n % 4,
        unique_key=f"{next(_numbers):032X}",
        born_us=due_ms * US_PER_MS - US_PER_S,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:10911",
        flag=0,
        sys_flag=0,
        reconsume_times=0,
        size=len(BODY),
        properties={UNIQ_KEY: f"{n:032X}"},
    )
    directory.write(header.entry, encode(header, BODY))
