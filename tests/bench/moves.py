"""A two-hour clock move and a reset, as between two tests."""

from tempfile import TemporaryDirectory
from time import perf_counter

from mocketmq.clock import US_PER_MS
from tests.bench.figures import Figure, at_most
from tests.bench.load import fill, order
from tests.bench.progress import rounds
from tests.support.brokers import DELAYS_US, running_broker

SMALL = 100
"""Messages in a small store, half of them pending."""


async def measure(quick: bool) -> list[Figure]:
    """Measure the time until each is answered."""
    size, moves, resets = (1_800, 1, 10) if quick else (100_000, 3, 50)
    move_s = [await _move(size) for _ in rounds(f"move over {size:,} messages", moves)]
    reset_ms = await _resets(resets)
    return [
        Figure(f"move of two hours, {size:,} messages on 18 levels", "s", move_s, aim=at_most(10)),
        Figure(f"reset of {SMALL} messages", "ms", reset_ms, aim=at_most(10)),
    ]


async def _move(size: int) -> float:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data) as broker:
            steps = 50  # spreads the due times of a level
            for _ in range(steps):
                await fill(broker, size // steps, lambda number: 1 + number % len(DELAYS_US))
                await broker.mover.advance(10 * US_PER_MS)
            started = perf_counter()
            move = await broker.mover.advance(DELAYS_US[-1])
            elapsed = perf_counter() - started
    assert move.fired == size
    return elapsed


async def _resets(count: int) -> list[float]:
    took_ms = []
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data) as broker:
            for _ in range(count):
                await broker.sender.send_batch([order(number % 2) for number in range(SMALL)])
                started = perf_counter()
                await broker.reset.all()
                took_ms.append((perf_counter() - started) * 1e3)
    return took_ms
