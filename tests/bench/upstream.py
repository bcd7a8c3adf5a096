"""The same load in turn on mocketmq and on a real RocketMQ, whose figures are the floor.

This process sends the load to both over remoting. RocketMQ has its default settings except its heaps and
``brokerFastFailureEnable``, so that it does not refuse sends that have waited for 200 ms.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from time import perf_counter
from typing import Any, Final, NamedTuple

import psutil

from tests.bench.conditions import DISK, MEMORY, NOISY, RATES, ROUNDS, SECONDS, STORES, place
from tests.bench.delayed_load import QUEUES, delayed
from tests.bench.figures import Aim, Figure, at_least, at_most, quantile
from tests.bench.floors import memory_mb
from tests.bench.progress import rounds, say
from tests.bench.remoting_client import sends_per_second
from tests.support.process import broker_process
from tests.upstream.jars import V4, JarsMissingError, class_path
from tests.upstream.process import HEAPS, HOST, ready, running_upstream

LOADS: Final = ((1, 1), (8, 64), (8, 256))
"""Numbers of connections and of sends in flight."""
LEVELS: Final = ("1s", "5s")
HERD: Final = 20_000
HERD_DELAY: Final = "10s"
IDLE_S: Final = 2.0

_TENTH: Final = Aim(0.1, is_most=True, is_of_floor=True)
_SENDS: Final = {1: 0.9, 64: 0.9, 256: 0.6}
"""Aims as shares of RocketMQ's sends a second, by sends in flight."""
_CPU_US: Final = 35
_SHARES: Final = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))

Measure = Callable[[bool], Coroutine[Any, Any, list[Figure]]]
Both = tuple[list[float], list[float]]
"""Runs of mocketmq, and of RocketMQ."""


class _Broker(NamedTuple):
    """One of the two, running."""

    port: int
    pids: tuple[int, ...]


@asynccontextmanager
async def _ours(store: str, levels: str = "1s", *, is_synced: bool = True) -> AsyncIterator[_Broker]:
    durability = "full" if is_synced else "normal"
    async with place(store) as data:
        options = ("--levels", levels, "--durability", durability, "--topic-queues", str(QUEUES))
        async with broker_process("--data", str(data), *options) as process:
            await ready(process.name_server[1], process.broker_port)
            yield _Broker(process.broker_port, (process.pid,))


@asynccontextmanager
async def _theirs(store: str, levels: str = "1s", *, is_synced: bool = True) -> AsyncIterator[_Broker]:
    async with place(store) as data:
        settings = {
            "messageDelayLevel": levels,
            "flushDiskType": "SYNC_FLUSH" if is_synced else "ASYNC_FLUSH",
            "brokerFastFailureEnable": "false",
        }
        async with running_upstream(data / "rocketmq", V4, settings) as running:
            yield _Broker(running.broker_port, running.pids)


_BOTH: Final = (_ours, _theirs)


def _beside_rocketmq(measure: Measure) -> Measure:
    """Make a benchmark return no figures without Java and Maven."""

    @wraps(measure)
    async def measured(quick: bool) -> list[Figure]:
        try:
            await asyncio.to_thread(class_path, V4)
        except JarsMissingError as error:
            say(f"no RocketMQ: {error}")
            return []
        heaps = ", ".join(f"{name} {' '.join(flags)}" for name, flags in HEAPS.items())
        say(f"RocketMQ {V4}, with the serial collector; {heaps}")
        return await measure(quick)

    return measured


@_beside_rocketmq
async def starts(quick: bool) -> list[Figure]:
    """Time until name server and broker answer in a new directory, and their memory then."""
    took_s: Both = ([], [])
    memory: Both = ([], [])
    for _ in rounds("start beside RocketMQ", 1 if quick else 3):
        for number, start in enumerate(_BOTH):
            started = perf_counter()
            async with start(DISK) as broker:
                took_s[number].append(perf_counter() - started)
                await asyncio.sleep(IDLE_S)
                memory[number].append(sum(map(memory_mb, broker.pids)))
    return [
        Figure("new directory: name server and broker answer", "s", *took_s, _TENTH),
        Figure("idle memory, of all processes", "MB", *memory, _TENTH),
    ]


@_beside_rocketmq
async def sends(quick: bool) -> list[Figure]:
    """Sends a second, and the broker's CPU time for each, by turns."""
    seconds, count = (0.3, 1) if quick else (3.0, ROUNDS)
    kinds = [(store, True) for store in STORES if store != NOISY] + [(DISK, False)]
    rates: dict[tuple[str, bool, int], Both] = {}
    cpu_us: dict[tuple[str, bool, int], Both] = {}
    for _ in rounds("sends beside RocketMQ", count):
        for kind in kinds:
            for number, start in enumerate(_BOTH):
                async with start(kind[0], is_synced=kind[1]) as broker:
                    await sends_per_second(HOST, broker.port, 8, 64, seconds)  # until Java has compiled it
                    for connections, in_flight in LOADS:
                        began, used_s = perf_counter(), _cpu_s(broker)
                        rate = await sends_per_second(HOST, broker.port, connections, in_flight, seconds)
                        each_us = (_cpu_s(broker) - used_s) / (rate * (perf_counter() - began)) * 1e6
                        rates.setdefault((*kind, in_flight), ([], []))[number].append(rate)
                        cpu_us.setdefault((*kind, in_flight), ([], []))[number].append(each_us)
    figures = []
    for load, both in rates.items():
        store, is_synced, in_flight = load
        name = f"sends, {in_flight} in flight, {store}, {'synced' if is_synced else 'not synced'}"
        aim = at_least(_SENDS[in_flight], of_floor=True)
        cpu_aim = at_most(_CPU_US) if store == MEMORY and in_flight > 1 else None
        figures.append(Figure(name, "/s", *both, aim))
        figures.append(Figure(f"{name}: CPU time of each", "µs", *cpu_us[load], cpu_aim))
    return figures


def _cpu_s(broker: _Broker) -> float:
    """Return the CPU time of the broker's processes so far, in seconds."""
    return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in broker.pids))


@_beside_rocketmq
async def lateness(quick: bool) -> list[Figure]:
    """Lateness at a steady pace with a waiting consumer, by turns, on each store."""
    seconds, count = (1.0, 1) if quick else (SECONDS, ROUNDS)
    figures = []
    for store in STORES:
        late_ms: dict[tuple[int, str], Both] = {}
        for _ in rounds(f"lateness beside RocketMQ, {store}", count):
            for rate in RATES:
                for number, start in enumerate(_BOTH):
                    async with start(store, " ".join(LEVELS)) as broker:
                        run = await delayed(broker.port, int(rate * seconds), rate, LEVELS)
                    for name, share in _SHARES:
                        both = late_ms.setdefault((rate, name), ([], []))
                        both[number].append(quantile(run, share))
        aim = at_most(1.0 if store == NOISY else 0.5, of_floor=True, in_every_run=True)
        figures += [
            Figure(
                f"{store}, {rate} a second: {name} of lateness", "ms", *both, aim if name == "p99" else None
            )
            for (rate, name), both in late_ms.items()
        ]
    return figures


@_beside_rocketmq
async def herd(quick: bool) -> list[Figure]:
    """Lateness of a herd of messages sent and due within a short time."""
    size, delay, count = (500, "1s", 1) if quick else (HERD, HERD_DELAY, ROUNDS)
    late_ms: dict[tuple[str, str], Both] = {}
    for _ in rounds(f"a herd of {size:,} beside RocketMQ", count):
        for store in STORES:
            for number, start in enumerate(_BOTH):
                async with start(store, delay) as broker:
                    run = await delayed(broker.port, size, None, (delay,))
                for name, share in _SHARES:
                    late_ms.setdefault((store, name), ([], []))[number].append(quantile(run, share))
    half = at_most(0.5, of_floor=True)
    return [
        Figure(
            f"{store}, {size:,} sent at once, to come after {delay}: {name} of lateness",
            "ms",
            *both,
            half if name == "p99" and store != NOISY else None,
        )
        for (store, name), both in late_ms.items()
    ]
