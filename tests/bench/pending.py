"""A million pending messages: their memory, and the next start."""

import gc
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.bench.figures import Figure, at_most
from tests.bench.floors import bare_process, memory_mb
from tests.bench.load import fill
from tests.bench.progress import rounds, say
from tests.support.brokers import DELAYS_US, running_broker
from tests.support.process import broker_process

BODY = b"." * 100
STEPS = 10


async def measure(quick: bool) -> list[Figure]:
    """Memory grown in the process, and the time to be ready with them again."""
    size, count = (10_000, 1) if quick else (1_000_000, 5)
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        grown_mb, seconds = await _fill(data, size)
        ready_s, bare_s, memory = [], [], []
        for _ in rounds(f"start with {size:,} pending", count):
            started = perf_counter()
            async with broker_process("--data", data, "--clock", "manual") as broker:
                ready_s.append(perf_counter() - started)
                memory.append(memory_mb(broker.pid))
            bare_s.append((await bare_process(Path(data))).ready_s)
    return [
        Figure(f"{size:,} pending: memory grown", "MB", [grown_mb], aim=at_most(50)),
        Figure(f"{size:,} pending: restart to ready (floor: bare imports)", "s", ready_s, bare_s, at_most(2)),
        Figure(f"{size:,} pending: memory after restart", "MB", memory),
        Figure("filled in batches of 1,000", "/s", [size / seconds]),
    ]


async def _fill(data: str, size: int) -> tuple[float, float]:
    """Return the growth in megabytes and the seconds taken."""
    async with running_broker(data) as broker:
        before_mb = _own_memory_mb()
        started = perf_counter()
        for step in range(1, STEPS + 1):
            await fill(broker, size // STEPS, _level_of, BODY)
            say(f"{step * size // STEPS:,} messages pending, memory {_own_memory_mb() - before_mb:+.1f} MB")
        return _own_memory_mb() - before_mb, perf_counter() - started


def _level_of(number: int) -> int:
    return 1 + number % len(DELAYS_US)


def _own_memory_mb() -> float:
    gc.collect()
    return memory_mb(os.getpid())
