"""Measures one delay scheme. Each measurement uses a new broker and a new data directory."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Final

from mocketmq import __version__
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.duration import format_duration
from mocketmq.lab.filling import fill_with_herd, fill_with_pending
from mocketmq.lab.load import IN_FLIGHT, LEVELS, Load, SchemeName, delay_property
from mocketmq.lab.measured import Growth, MeasuredSubject
from mocketmq.lab.own_broker import own_broker
from mocketmq.lab.producer import Producer, paced, per_second

_POLL_S: Final = 0.1
_LONG_US: Final = 3_600 * US_PER_S

Tell = Callable[[str], object]


async def measure_scheme(scheme: SchemeName, load: Load, place: Path, tell: Tell) -> MeasuredSubject:
    """Measure lateness, saves, a herd, and starts with pending messages; write ledgers below ``place``.

    Raises EmulatorError if a broker does not start or refuses a message.
    """
    ledger, herd = place / "load", place / "herd"
    tell(f"{load.rate} messages a second")
    failed = await _lateness(scheme, load, ledger)
    tell("saves")
    saves = await saves_per_second(scheme, load, place / "saves")
    tell(f"a herd of {load.herd:,}")
    is_in_time = await _herd(scheme, load, herd)
    growth = [each async for each in grown(scheme, load, place, tell)]
    return MeasuredSubject(
        name=scheme,
        kind="scheme",
        version=f"mocketmq {__version__}",
        ledger=ledger,
        lateness_error_us=0,
        delays={format_duration(each): _topic(each) for each in load.delays_us},
        notes=[
            *(f"{count} sends failed: {reason}" for reason, count in failed.items()),
            *(["the herd is not measured: it was due before its broker was ready"] * (not is_in_time)),
        ],
        saves_per_second=saves,
        herd=herd if is_in_time else None,
        growth=tuple(growth),
    )


async def _lateness(scheme: SchemeName, load: Load, data: Path) -> Counter[str]:
    """Send at the rate, and wait until everything is delivered. Return the failures."""
    kinds = cycle([(_topic(each), delay_property(scheme, each)) for each in load.delays_us])
    async with _broker(scheme, load, data) as (broker, producer):
        for topic in map(_topic, load.delays_us):
            await producer.send(topic, {})  # creates the topic
        await paced(load.rate, load.messages, lambda: producer.try_to_send(*next(kinds)))
        await _drained(broker)
        return producer.failed


async def saves_per_second(scheme: SchemeName, load: Load, data: Path) -> float:
    """Measure the acknowledged sends per second with an hour's delay and many sends in flight."""
    delay = delay_property(scheme, _LONG_US)
    async with _broker(scheme, load, data) as (_, producer):
        found = await per_second(lambda: producer.send("lab", delay), IN_FLIGHT, load.saves_s)
    await asyncio.to_thread(shutil.rmtree, data)
    return found


async def _herd(scheme: SchemeName, load: Load, data: Path) -> bool:
    """Start a broker with messages that are all due at one instant. If it starts too late, try longer delays.

    Returns whether a broker was ready before that instant.
    """
    for delay_us in load.herd_delays_us:
        await asyncio.to_thread(shutil.rmtree, data, ignore_errors=True)
        due_us = wall_us() + delay_us
        await fill_with_herd(scheme, data, load.herd, delay_us, load.size)
        async with _broker(scheme, load, data) as (broker, _):
            if wall_us() < due_us:
                await _drained(broker)
                return True
    return False


async def grown(scheme: SchemeName, load: Load, place: Path, tell: Tell) -> AsyncIterator[Growth]:
    """Measure starts of a broker without messages, and with each number of pending messages."""
    data = place / "pending"
    for pending in (0, *load.pending):
        if pending:
            tell(f"{pending:,} pending")
        await fill_with_pending(scheme, data, pending, load.size)
        disk_bytes = await asyncio.to_thread(_disk_bytes, data)
        async with own_broker(data, *_options(scheme, load), "--clock", "manual") as broker:
            memory_bytes = _memory_bytes(broker.pid)
        yield Growth(pending, broker.start_us, memory_bytes, disk_bytes)
        await asyncio.to_thread(shutil.rmtree, data)


@asynccontextmanager
async def _broker(scheme: SchemeName, load: Load, data: Path) -> AsyncIterator[tuple[Client, Producer]]:
    """Run a broker with a real clock, and connect a producer and an API client."""
    async with own_broker(data, *_options(scheme, load)) as own, Client(own.url) as client:
        doors = (await client.info())["doors"]
        async with Producer(doors["broker"]["address"], load.size) as producer:
            yield client, producer


def _options(scheme: SchemeName, load: Load) -> tuple[str, ...]:
    options = ("--delay-sync", load.delay_sync)
    return options if scheme == LEVELS else (*options, "--timed-scheme", scheme)


def _topic(delay_us: int) -> str:
    return f"lab-{format_duration(delay_us)}"


async def _drained(broker: Client) -> None:
    """Wait until no message is pending. Polls rarely, because each poll costs the broker time."""
    while True:
        found = await broker.levels()
        if not found["timed"]["pending"] and not any(each["pending"] for each in found["levels"]):
            return
        await asyncio.sleep(_POLL_S)


def _memory_bytes(pid: int) -> int | None:
    """The memory that a process uses, or None on systems other than Linux."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        line = next(each for each in lines if each.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024
    return None


def _disk_bytes(folder: Path) -> int:
    """The allocated disk space of all files and directories."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
