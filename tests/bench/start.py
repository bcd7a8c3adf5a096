"""The start of an empty broker: time to ready, and memory when idle."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from tests.bench.figures import Aim, Figure, at_most
from tests.bench.floors import Bare, bare_process, memory_mb
from tests.bench.progress import rounds
from tests.support.process import broker_process

IDLE_S = 0.5
_TENTH_MORE: Final = Aim(1.1, is_most=True, is_of_floor=True)


async def measure(quick: bool) -> list[Figure]:
    """From the start of the process to its start line, beside bare imports with an open database."""
    count = 1 if quick else 7
    first: list[Bare] = []
    again: list[Bare] = []
    bare: list[Bare] = []
    with TemporaryDirectory(prefix="mocketmq-bench-") as warm:
        await _start(warm)  # compiles new modules, and warms the disk cache
    for _ in rounds("start", count):
        with TemporaryDirectory(prefix="mocketmq-bench-") as data:
            first.append(await _start(data))
            again.append(await _start(data))
            bare.append(await bare_process(Path(data)))
    bare_s = [each.ready_s for each in bare]
    bare_mb = [each.memory_mb for each in bare]
    return [
        Figure(
            "new directory: ready (floor: bare imports)",
            "s",
            [b.ready_s for b in first],
            bare_s,
            at_most(0.7),
        ),
        Figure("known directory: ready", "s", [b.ready_s for b in again], bare_s, at_most(0.7)),
        Figure("new directory: idle memory", "MB", [b.memory_mb for b in first], bare_mb, at_most(90)),
        Figure("known directory: idle memory", "MB", [b.memory_mb for b in again], bare_mb, at_most(90)),
    ]


async def with_grpc(quick: bool) -> list[Figure]:
    """Start with and without an unused gRPC port, by turns."""
    count = 1 if quick else 9
    on: list[Bare] = []
    off: list[Bare] = []
    for _ in rounds("start with gRPC's port and without", count):
        for measured, options in ((on, ()), (off, ("--no-grpc",))):
            with TemporaryDirectory(prefix="mocketmq-bench-") as data:
                measured.append(await _start(data, *options))
    return [
        Figure("ready", "s", [b.ready_s for b in on], [b.ready_s for b in off], _TENTH_MORE),
        Figure("idle memory", "MB", [b.memory_mb for b in on], [b.memory_mb for b in off], _TENTH_MORE),
    ]


async def _start(data: str, *options: str) -> Bare:
    started = perf_counter()
    async with broker_process("--data", data, *options) as broker:
        ready_s = perf_counter() - started
        await asyncio.sleep(IDLE_S)
        return Bare(ready_s, memory_mb(broker.pid))
