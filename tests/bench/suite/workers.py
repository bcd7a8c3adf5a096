"""What one test more costs, with a broker for each worker of pytest-xdist; the floor is an empty fixture.

Each test sends a delayed message and moves the clock past it. A run of ``TESTS`` tests takes longer than one
with a single test for each worker; the difference, divided by the number of tests, is the time of a test.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Final

import psutil

from tests.bench.figures import Figure
from tests.bench.progress import rounds, say
from tests.support.process import clean_environment

WORKERS: Final = (1, 4, 16)
TESTS: Final = 320
ORDERS: Final = 1_000
_SAMPLE_S: Final = 0.1

_TESTS = """
import os
import pytest

@pytest.fixture
def nothing():
    pass

@pytest.fixture(scope="session")
def orders(mocketmq_session):
    mocketmq_session.send_batch("orders", [{{"body": "x" * 200, "delay": "1h"}}] * {orders})
    mocketmq_session.save_snapshot("orders", replace=True)

def act(mocketmq, number):
    mocketmq.send("orders", str(number), delay_level=16)
    mocketmq.clock.advance("30m")

@pytest.mark.parametrize("number", range(int(os.environ["TESTS"])))
class TestOrders:
    def test_nothing(self, nothing, number):
        pass

    def test_reset(self, mocketmq, number):
        act(mocketmq, number)

    @pytest.mark.mocketmq(snapshot="orders")
    def test_snapshot(self, orders, mocketmq, number):
        act(mocketmq, number)
"""


async def measure(quick: bool) -> list[Figure]:
    """Measure tests that begin with a reset, and with a snapshot of a thousand pending orders."""
    count, tests = (1, 32) if quick else (5, TESTS)
    figures = []
    for workers in WORKERS:
        started_s: dict[str, list[float]] = {"nothing": [], "reset": [], "snapshot": []}
        each_ms: dict[str, list[float]] = {kind: [] for kind in started_s}
        for _ in rounds(f"{workers} workers", count):
            for kind, runs_s in started_s.items():
                first_s = _run(kind, workers, workers)
                runs_s.append(first_s)
                each_ms[kind].append((_run(kind, workers, tests) - first_s) * 1000 / (tests - workers))
        say(f"memory of {workers} brokers")
        floors = each_ms["nothing"]
        name = f"{workers} worker{'s' * (workers > 1)}"
        figures += [
            Figure(f"{name}: a run of a test for each", "s", started_s["reset"], started_s["nothing"]),
            Figure(f"{name}: one test more, after a reset", "ms", each_ms["reset"], floors),
            Figure(f"{name}: … from a snapshot of {ORDERS:,}", "ms", each_ms["snapshot"], floors),
            Figure(f"{name}: most memory of all brokers", "MB", [_memory_mb(workers, tests)]),
        ]
    return figures


def _run(kind: str, workers: int, tests: int) -> float:
    """Return the seconds of a run."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        started = perf_counter()
        with _pytest(Path(folder), kind, workers, tests) as process:
            code = process.wait()
        took_s = perf_counter() - started
        if code:
            raise RuntimeError(f"pytest exited with {code}")
        return took_s


def _memory_mb(workers: int, tests: int) -> float:
    """Return the most memory of all brokers of a run at one time, in 10^6 bytes."""
    peak = 0.0
    with (
        TemporaryDirectory(prefix="mocketmq-bench-") as folder,
        _pytest(Path(folder), "reset", workers, tests) as process,
    ):
        family = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, sum(map(_broker_mb, family.children(recursive=True))))
            sleep(_SAMPLE_S)
    return peak


def _broker_mb(process: psutil.Process) -> float:
    try:
        return process.memory_info().rss / 1e6 if "serve" in process.cmdline() else 0
    except psutil.Error:  # it has exited
        return 0


def _pytest(folder: Path, kind: str, workers: int, tests: int) -> subprocess.Popen[bytes]:
    (folder / "test_orders.py").write_text(_TESTS.format(orders=ORDERS))
    plugins = ("-p", "mocketmq.testing.plugin", "-p", "no:cacheprovider", "-p", "xdist")
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", *plugins, "-n", str(workers), "-k", f"test_{kind}"],
        cwd=folder,
        env={**clean_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "TESTS": str(tests)},
        stdout=subprocess.DEVNULL,
    )
