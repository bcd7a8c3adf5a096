"""Snapshots: saves and restores, and tests that begin with one beside tests that are seeded."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from mocketmq.testing.broker import Broker
from mocketmq.testing.process import BrokerProcess
from tests.bench.figures import Figure, at_most
from tests.bench.progress import rounds

TESTS = 200
ORDERS = 1_000
MANY = 10_000
BATCH = 1_000


async def measure(quick: bool) -> list[Figure]:
    """Measure from the client's side, over HTTP."""
    times = 3 if quick else 20
    figures = []
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        for place, data in (("in memory", ":memory:"), ("on disk", str(Path(folder, "data")))):
            with _broker(data) as broker:
                for _ in range(MANY // BATCH):
                    broker.send_batch("orders", [{"body": "x" * 200}] * BATCH)
                saves = _taken(times, lambda: broker.save_snapshot("many", replace=True))
                restores = _taken(times, lambda: broker.restore_snapshot("many"))
                broker.reset()
                broker.save_snapshot("none")
                anew = _taken(
                    times,
                    lambda: broker.restore_snapshot("many"),
                    before=lambda: broker.restore_snapshot("none"),
                )
            figures += [
                Figure(f"save of {MANY:,} messages {place}", "ms", saves, aim=at_most(50)),
                Figure(f"restore of {MANY:,} messages {place}", "ms", restores, aim=at_most(20)),
                Figure(f"… {place}, of which the store has none any more", "ms", anew),
            ]
    return [*figures, *_tests(5 if quick else TESTS)]


def _tests(count: int) -> Iterator[Figure]:
    """A test that moves the clock and receives, from a snapshot, or from the same messages as seeds."""
    seeds: list[Any] = [
        {"topic": "orders", "body": f"order {number}", "keys": [str(number)], "delay": "30m"}
        for number in range(ORDERS)
    ]
    with _broker(":memory:") as broker:
        broker.seed(seeds)
        broker.save_snapshot("orders")

        def test(begin: Callable[[], object]) -> None:
            begin()
            broker.send("orders", "new")
            broker.receive("orders", group="billing")

        def seeded() -> None:
            broker.reset_for_test(())
            broker.seed(seeds)

        by_seed = _taken(count, lambda: test(seeded))
        by_snapshot = _taken(count, lambda: test(lambda: broker.reset_for_test((), snapshot="orders")))
    yield Figure(f"a test of {count} with {ORDERS:,} messages from a snapshot", "ms", by_snapshot)
    yield Figure("… from seeds", "ms", by_seed)


def _taken(times: int, act: Callable[[], object], before: Callable[[], object] = lambda: None) -> list[float]:
    taken = []
    for _ in rounds("snapshots", times):
        before()
        started = perf_counter()
        act()
        taken.append((perf_counter() - started) * 1000)
    return taken


@contextmanager
def _broker(data: str) -> Iterator[Broker]:
    command = [sys.executable, "-m", "mocketmq", "serve", "--port", "0", "--data", data]
    process = BrokerProcess([*command, "--clock", "manual", "--until-eof"], ready_s=60)
    try:
        broker = Broker(process.url)
        yield broker
        broker.close()
    finally:
        process.stop()
