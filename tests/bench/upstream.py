"""The same load in turn on mocketmq and on real RocketMQs, whose figures are the floors.

This process sends the load to all over remoting. RocketMQ has its default settings except its heaps and
``brokerFastFailureEnable``, so that it does not refuse sends that have waited for 200 ms.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial, wraps
from itertools import product
from time import perf_counter
from typing import Any, Final, NamedTuple

import psutil

from tests.bench.conditions import DISK, NOISY, RATES, ROCKETMQS, ROUNDS, SECONDS, STORES, place
from tests.bench.delayed_load import QUEUES, delayed
from tests.bench.figures import Aim, Figure, at_least, at_most, quantile
from tests.bench.floors import memory_mb
from tests.bench.progress import rounds, say
from tests.bench.remoting_client import sends_per_second
from tests.support.process import broker_process
from tests.upstream.jars import JarsMissingError, class_path
from tests.upstream.process import HEAPS, HOST, ready, running_upstream

LOADS: Final = ((1, 1), (8, 64), (8, 256))
"""Numbers of connections and of sends in flight."""
LEVELS: Final = ("1s", "5s")
HERD: Final = 20_000
HERD_DELAY: Final = "10s"
PACES: Final = (None, 20_000)
"""Numbers of sends a second of herds. None is as fast as they are answered, so that a broker that accepts
messages faster gets a denser herd."""
IDLE_S: Final = 2.0

_TENTH: Final = Aim(0.1, is_most=True, is_of_floor=True)
_SENDS: Final = {1: 0.7, 64: 0.9, 256: 0.7}
"""Aims as shares of RocketMQ's sends a second, by sends in flight."""
_CPU: Final = at_most(1.0, of_floor=True)
_SHARES: Final = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))

Measure = Callable[[bool], Coroutine[Any, Any, list[Figure]]]
_OURS: Final = "mocketmq"


class _Broker(NamedTuple):
    """A running broker."""

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
async def _theirs(
    version: str, store: str, levels: str = "1s", *, is_synced: bool = True
) -> AsyncIterator[_Broker]:
    async with place(store) as data:
        settings = {
            "messageDelayLevel": levels,
            "flushDiskType": "SYNC_FLUSH" if is_synced else "ASYNC_FLUSH",
            "brokerFastFailureEnable": "false",
        }
        async with running_upstream(data / "rocketmq", version, settings) as running:
            yield _Broker(running.broker_port, running.pids)


_BROKERS: Final[dict[str, Callable[..., AbstractAsyncContextManager[_Broker]]]] = {
    _OURS: _ours,
    **{version: partial(_theirs, version) for version in ROCKETMQS},
}


class _Runs:
    """The runs of one figure, by broker."""

    def __init__(self) -> None:
        self._runs: dict[str, list[float]] = {name: [] for name in _BROKERS}

    def add(self, broker: str, value: float) -> None:
        """Add a run."""
        self._runs[broker].append(value)

    def figures(self, name: str, unit: str, aim: Aim | None = None) -> Iterator[Figure]:
        """Yield mocketmq's figure beside that of each RocketMQ."""
        for version in ROCKETMQS:
            yield Figure(f"{name}, beside {version}", unit, self._runs[_OURS], self._runs[version], aim)


def _beside_rocketmq(measure: Measure) -> Measure:
    """Make a benchmark return no figures without Java and Maven."""

    @wraps(measure)
    async def measured(quick: bool) -> list[Figure]:
        try:
            for version in ROCKETMQS:
                await asyncio.to_thread(class_path, version)
        except JarsMissingError as error:
            say(f"no RocketMQ: {error}")
            return []
        heaps = ", ".join(f"{name} {' '.join(flags)}" for name, flags in HEAPS.items())
        say(f"RocketMQ {' and '.join(ROCKETMQS)}, with the serial collector; {heaps}")
        return await measure(quick)

    return measured


@_beside_rocketmq
async def starts(quick: bool) -> list[Figure]:
    """Time until name server and broker answer in a new directory, and their memory then."""
    took_s, memory = _Runs(), _Runs()
    for _ in rounds("start beside RocketMQ", 1 if quick else 3):
        for name, start in _BROKERS.items():
            started = perf_counter()
            async with start(DISK) as broker:
                took_s.add(name, perf_counter() - started)
                await asyncio.sleep(IDLE_S)
                memory.add(name, sum(map(memory_mb, broker.pids)))
    return [
        *took_s.figures("new directory: name server and broker answer", "s", _TENTH),
        *memory.figures("idle memory, of all processes", "MB", _TENTH),
    ]


@_beside_rocketmq
async def sends(quick: bool) -> list[Figure]:
    """Sends a second, and the broker's CPU time for each, by turns."""
    seconds, count = (0.3, 1) if quick else (3.0, ROUNDS)
    kinds = [(store, True) for store in STORES if store != NOISY] + [(DISK, False)]
    rates = {(*kind, in_flight): _Runs() for kind in kinds for _, in_flight in LOADS}
    cpu_us = {load: _Runs() for load in rates}
    for _ in rounds("sends beside RocketMQ", count):
        for kind in kinds:
            for name, start in _BROKERS.items():
                async with start(kind[0], is_synced=kind[1]) as broker:
                    await sends_per_second(HOST, broker.port, 8, 64, seconds)  # until Java has compiled it
                    for connections, in_flight in LOADS:
                        began, used_s = perf_counter(), _cpu_s(broker)
                        rate = await sends_per_second(HOST, broker.port, connections, in_flight, seconds)
                        each_us = (_cpu_s(broker) - used_s) / (rate * (perf_counter() - began)) * 1e6
                        rates[*kind, in_flight].add(name, rate)
                        cpu_us[*kind, in_flight].add(name, each_us)
    figures: list[Figure] = []
    for load, runs in rates.items():
        store, is_synced, in_flight = load
        name = f"sends, {in_flight} in flight, {store}, {'synced' if is_synced else 'not synced'}"
        figures += runs.figures(name, "/s", at_least(_SENDS[in_flight], of_floor=True))
        figures += cpu_us[load].figures(f"{name}: CPU time of each", "µs", _CPU)
    return figures


def _cpu_s(broker: _Broker) -> float:
    """Return the CPU time of the broker's processes so far, in seconds."""
    return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in broker.pids))


@_beside_rocketmq
async def lateness(quick: bool) -> list[Figure]:
    """Lateness at a steady pace with a waiting consumer, by turns, on each store."""
    seconds, count = (1.0, 1) if quick else (SECONDS, ROUNDS)
    figures: list[Figure] = []
    for store in STORES:
        late_ms = {(rate, share): _Runs() for rate in RATES for share in _SHARES}
        for _ in rounds(f"lateness beside RocketMQ, {store}", count):
            for rate in RATES:
                for name, start in _BROKERS.items():
                    async with start(store, " ".join(LEVELS)) as broker:
                        run = await delayed(broker.port, int(rate * seconds), rate, LEVELS)
                    for share in _SHARES:
                        late_ms[rate, share].add(name, quantile(run, share[1]))
        aim = at_most(1.0 if store == NOISY else 0.5, of_floor=True, in_every_run=True)
        for (rate, (share_name, _)), runs in late_ms.items():
            figures += runs.figures(
                f"{store}, {rate} a second: {share_name} of lateness",
                "ms",
                aim if share_name == "p99" else None,
            )
    return figures


@_beside_rocketmq
async def herd(quick: bool) -> list[Figure]:
    """Lateness of a herd of messages sent and due within a short time."""
    size, delay, count = (500, "1s", 1) if quick else (HERD, HERD_DELAY, ROUNDS)
    late_ms = {(store, pace, share): _Runs() for store in STORES for pace in PACES for share in _SHARES}
    for _ in rounds(f"a herd of {size:,} beside RocketMQ", count):
        for store, pace in product(STORES, PACES):
            for name, start in _BROKERS.items():
                async with start(store, delay) as broker:
                    run = await delayed(broker.port, size, pace, (delay,))
                for share in _SHARES:
                    late_ms[store, pace, share].add(name, quantile(run, share[1]))
    half = at_most(0.5, of_floor=True)
    figures: list[Figure] = []
    for (store, pace, (share_name, _)), runs in late_ms.items():
        how = "at once" if pace is None else f"at {pace:,} a second"
        figures += runs.figures(
            f"{store}, {size:,} sent {how}, to come after {delay}: {share_name} of lateness",
            "ms",
            half if share_name == "p99" and store != NOISY else None,
        )
    return figures
