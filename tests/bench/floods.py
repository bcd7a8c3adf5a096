"""Effects of HTTP/2 floods on other clients' sends and on memory; docs/hostile.md has the table."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from tests.bench.figures import Figure, at_most, quantile
from tests.bench.floors import memory_mb
from tests.bench.progress import say
from tests.hostile.flooded import MB, Flooded, flooded
from tests.hostile.floods import FLOODS
from tests.support.process import broker_process

_AFTER_S: Final = 10.0
_AIM_MS: Final = 50
_AIM_MB: Final = 250
_BACK_MB: Final = 60
"""Excess over the level before the flood up to which memory counts as freed."""
_MANY: Final = 20
_ROUNDS: Final = 3


async def measure(quick: bool) -> list[Figure]:
    """Run each flood over one connection until it is closed, and over many, each replaced twice."""
    figures = []
    for flood in FLOODS:
        for connections in (1,) if quick else (1, _MANY):
            say(f"{flood} over {connections}")
            figures += await _flooded(flood, connections, after_s=1.0 if quick else _AFTER_S)
    return figures


async def _flooded(flood: str, connections: int, after_s: float) -> list[Figure]:
    rounds = 1 if connections == 1 else _ROUNDS
    with TemporaryDirectory(prefix="mocketmq-bench-") as directory:
        async with broker_process("--data", str(Path(directory, "data"))) as broker:
            found = await flooded(broker, flood, connections=connections, rounds=rounds)
            before_mb = found.before / MB
            began = perf_counter()
            while (after_mb := memory_mb(broker.pid)) > before_mb + _BACK_MB:
                if perf_counter() - began > after_s:
                    break
                await asyncio.sleep(0.1)
            back_s = perf_counter() - began
            async with _sink() as address:
                ignored = await flooded(
                    broker, flood, connections=connections, rounds=rounds, address=address
                )
    sends_ms, floor_ms = _sends_ms(found), _sends_ms(ignored)
    name = f"{flood} × {connections}"
    return [
        Figure(
            f"{name}: others' sends, p50 (floor: a flood of another process)",
            "ms",
            [quantile(sends_ms, 0.5)],
            [quantile(floor_ms, 0.5)],
        ),
        Figure(f"{name}: … max", "ms", [max(sends_ms)], [max(floor_ms)], at_most(_AIM_MS)),
        Figure(
            f"{name}: memory at its highest (floor: before)",
            "MB",
            [found.peak / MB],
            [before_mb],
            at_most(_AIM_MB),
        ),
        Figure(
            f"{name}: memory after {back_s:.1f} s (floor: before)",
            "MB",
            [after_mb],
            [before_mb],
            at_most(before_mb + _BACK_MB),
        ),
    ]


def _sends_ms(found: Flooded) -> list[float]:
    return [*found.took_ms["remoting"], *found.took_ms["gRPC"]]


@asynccontextmanager
async def _sink() -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.hostile.sink", stdout=PIPE)
    assert process.stdout is not None
    try:
        yield f"127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.kill()
        await process.wait()
