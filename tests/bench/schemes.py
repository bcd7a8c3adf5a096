"""The delay schemes side by side: saves, a herd, lateness, and what many pending messages cost.

``SCHEMES_PENDING`` in the environment says how many are pending, such as 1000000 or 10000000.
"""

import asyncio
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import DelayedFile
from mocketmq_compat.delay.schemes import SCHEMES
from tests.bench.figures import Figure, quantile
from tests.bench.floors import memory_mb
from tests.bench.load import BODY, TOPIC, order, paced, per_second
from tests.bench.progress import rounds, say
from tests.support.brokers import rows, running_broker
from tests.support.delayed_files import made
from tests.support.process import broker_process

PENDING = int(os.environ.get("SCHEMES_PENDING", "100000"))
IN_FLIGHT = 64
RATE = 500
DAY_MS = 86_400_000


async def measure(quick: bool) -> list[Figure]:
    """Each measurement of every scheme, one scheme after the other in each round."""
    seconds, herd, pending, count = (0.2, 1_000, 2_000, 1) if quick else (3.0, 50_000, PENDING, 3)
    figures: dict[str, tuple[str, dict[str, list[float]]]] = {}

    def note(name: str, unit: str, scheme: str, value: float) -> None:
        figures.setdefault(name, (unit, {}))[1].setdefault(scheme, []).append(value)

    for _ in rounds("schemes", count):
        for scheme in SCHEMES:
            for sync in ("always", "never"):
                rate = await _saves(scheme, sync, seconds)
                note(f"saves, delay-sync {sync}, {IN_FLIGHT} in flight", "/s", scheme, rate)
            note(f"a herd of {herd:,}: delivered", "/s", scheme, await _herd(scheme, herd))
            late_ms = await _lateness(scheme, seconds)
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                note(f"lateness at {RATE} a second, {name}", "ms", scheme, quantile(late_ms, share))
    for scheme in SCHEMES:
        say(f"{scheme}: {pending:,} pending")
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            empty_mb, _ = await _restart(scheme, data)
            added_s = await asyncio.to_thread(_add, scheme, Path(data), pending, DAY_MS)
            note(f"{pending:,} pending: added without a broker", "/s", scheme, pending / added_s)
            disk = _disk_bytes(Path(data) / SCHEMES[scheme].folder)
            note(f"{pending:,} pending: disk for each", "B", scheme, disk / pending)
            for _ in range(count):
                full_mb, ready_s = await _restart(scheme, data)
                note(f"{pending:,} pending: restart to ready", "s", scheme, ready_s)
                grown = (full_mb - empty_mb) * (1 << 20) / pending
                note(f"{pending:,} pending: memory for each", "B", scheme, grown)
    return [
        Figure(f"{name}: {scheme}", unit, runs)
        for name, (unit, schemes) in figures.items()
        for scheme, runs in schemes.items()
    ]


async def _saves(scheme: TimedSchemeName, sync: str, seconds: float) -> float:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, clock="real", delay_sync=sync, timed_scheme=scheme) as broker:
            return await per_second(lambda: broker.sender.send(order(delay_ms=3_600_000)), IN_FLIGHT, seconds)


async def _herd(scheme: TimedSchemeName, size: int) -> float:
    """Deliveries a second on a moved clock, of messages due in one second."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        await asyncio.to_thread(_add, scheme, Path(data), size, 1_000)
        async with running_broker(data, delay_sync="never", timed_scheme=scheme) as broker:
            started = perf_counter()
            move = await broker.mover.advance((DAY_MS + 2_000) * US_PER_MS)
            assert move.fired == size
            return size / (perf_counter() - started)


async def _lateness(scheme: TimedSchemeName, seconds: float) -> list[float]:
    """Of each message, in milliseconds from its due time until it is stored as visible."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, clock="real", timed_scheme=scheme) as broker:
            async with paced(RATE, lambda: broker.sender.send(order(delay_ms=1_000))):
                await asyncio.sleep(seconds)
            with broker.consuming.polls.listening([TOPIC]) as arrival:
                while broker.schemes.pending:
                    await arrival.wait()
                    arrival.clear()
        found = rows(Path(data), "SELECT delivered_us - due_us AS late_us FROM deliveries")
    return [row["late_us"] / US_PER_MS for row in found]


def _add(scheme: TimedSchemeName, data: Path, size: int, span_ms: int) -> float:
    """Add messages that are due from a day from now on, at even intervals; how many seconds it took."""
    due_ms = wall_us() // US_PER_MS + DAY_MS
    started = perf_counter()
    with SCHEMES[scheme].kind.new_messages(data / SCHEMES[scheme].folder, lambda *_: None) as new:
        for number in range(size):
            each = made(f"{number:032X}", BODY, number=number, due_ms=due_ms + number * span_ms // size)
            new.add(DelayedFile(each.header, each.body))
        new.sync()
    return perf_counter() - started


async def _restart(scheme: TimedSchemeName, data: str) -> tuple[float, float]:
    """Megabytes of memory and seconds until a broker is ready."""
    started = perf_counter()
    options = ("--data", data, "--clock", "manual", "--timed-scheme", scheme)
    async with broker_process(*options) as process:
        ready_s = perf_counter() - started
        return memory_mb(process.pid), ready_s


def _disk_bytes(folder: Path) -> int:
    """The space of all files and directories, as the system counts it."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
