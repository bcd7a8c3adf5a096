"""Test runs with the pytest plugin; the floor is the same run with an empty fixture."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.testing.broker import Broker
from mocketmq.testing.process import BrokerProcess
from tests.bench.figures import Figure, at_most
from tests.bench.progress import rounds
from tests.support.process import clean_environment

TESTS = 200
_PROJECT = """
import pytest

@pytest.fixture
def dummy():
    pass

@pytest.mark.parametrize("number", range({count}))
def test_it({fixture}, number):
    {act}
"""
_ACT = 'mocketmq.send("orders", str(number), delay_level=16); mocketmq.clock.advance("30m")'


async def measure(quick: bool) -> list[Figure]:
    """Measure pytest from start to end, and separately resets after a test of 100 messages."""
    alone: list[float] = []
    alone_floor: list[float] = []
    many: list[float] = []
    many_floor: list[float] = []
    _run(1, "mocketmq", _ACT)  # compiles what is new
    for _ in rounds("plugin", 1 if quick else 5):
        alone_floor.append(_run(1, "dummy", "pass"))
        alone.append(_run(1, "mocketmq", _ACT))
        workers = ("-p", "xdist", "-n", "4")
        many_floor.append(_run(TESTS, "dummy", "pass", *workers) * 1000 / TESTS)
        many.append(_run(TESTS, "mocketmq", _ACT, *workers) * 1000 / TESTS)
    return [
        Figure("a run of one test", "s", alone, alone_floor),
        Figure(
            "… of it with a broker",
            "s",
            [with_it - without for with_it, without in zip(alone, alone_floor, strict=True)],
            aim=at_most(1.5),
        ),
        Figure(f"{TESTS} tests on four workers: one of them", "ms", many, many_floor),
        Figure("reset between tests", "ms", _resets(10 if quick else 100), aim=at_most(10)),
    ]


def _run(count: int, fixture: str, act: str, *options: str) -> float:
    plugins = ("-p", "mocketmq.testing.plugin", "-p", "no:cacheprovider", *options)
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        (Path(folder) / "test_it.py").write_text(_PROJECT.format(count=count, fixture=fixture, act=act))
        started = perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *plugins],
            cwd=folder,
            env={**clean_environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return perf_counter() - started


def _resets(count: int) -> list[float]:
    taken = []
    command = [sys.executable, "-m", "mocketmq", "serve", "--port", "0", "--data", ":memory:"]
    process = BrokerProcess([*command, "--clock", "manual", "--until-eof"], ready_s=60)
    try:
        broker = Broker(process.url)
        for _ in range(count):
            broker.send_batch("orders", [{"body": "x", "delay_level": 16}] * 100)
            broker.clock.advance("30m")
            broker.acknowledge("g", broker.receive("orders", group="g", max_messages=32))
            started = perf_counter()
            broker.reset_for_test(())
            taken.append((perf_counter() - started) * 1000)
        broker.close()
    finally:
        process.stop()
    return taken
