"""How long other requests wait during a reset, and during the save and restore of a snapshot."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.testing.broker import Broker
from mocketmq.testing.process import BrokerProcess
from mocketmq_compat.delay.schemes import SCHEMES
from tests.bench.figures import Figure, at_most
from tests.bench.progress import say

_BATCH = 1_000
_APART_MS = 30
_TAIL_S = 1.0
"""Time after the response, in which the broker removes records."""


async def measure(quick: bool) -> list[Figure]:
    """For each delay scheme: the longest time to a response of a request that only reads the clock."""
    size = 5_000 if quick else 100_000
    figures = []
    for scheme in SCHEMES:
        say(f"{scheme} with {size:,} messages")
        with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
            command = [sys.executable, "-m", "mocketmq", "serve", "--port", "0", "--clock", "manual"]
            command += ["--data", str(Path(folder, "data")), "--timed-scheme", scheme, "--until-eof"]
            process = BrokerProcess(command, ready_s=60)
            try:
                idle_ms, *found = _waits_ms(process.url, size)
            finally:
                process.stop()
        for step, wait_ms in zip(("a save", "a reset", "a restore"), found, strict=True):
            title = f"{scheme}, {size:,} pending: longest wait during {step} (floor: nothing)"
            figures.append(Figure(title, "ms", [wait_ms], [idle_ms], at_most(50)))
    return figures


def _waits_ms(url: str, size: int) -> list[float]:
    with Broker(url) as broker, Broker(url) as other:
        for begin in range(0, size, _BATCH):
            numbers = range(begin, min(begin + _BATCH, size))
            delays_ms = [3_600_000 + _APART_MS * number for number in numbers]
            broker.send_batch("orders", [{"body": "x" * 200, "delay_ms": delay_ms} for delay_ms in delays_ms])
        steps: list[Callable[[], object]] = [
            lambda: None,
            lambda: broker.save_snapshot("many"),
            broker.reset,
            lambda: broker.restore_snapshot("many"),
        ]
        return [_longest_ms(other, step) for step in steps]


def _longest_ms(other: Broker, step: Callable[[], object]) -> float:
    longest_s = 0.0
    with ThreadPoolExecutor(1) as thread:
        work, ends_s = thread.submit(step), 0.0
        while not ends_s or perf_counter() < ends_s:
            began_s = perf_counter()
            other.clock()
            longest_s = max(longest_s, perf_counter() - began_s)
            if work.done() and not ends_s:
                ends_s = perf_counter() + _TAIL_S
        work.result()
    return longest_s * 1e3
