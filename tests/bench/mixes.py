"""Mixed due sources: level queues and second directories in turn, expiring receipts, check-backs.

No mix may be much slower than the slower scheme alone, and lateness must not grow with time.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.message.message import Message
from tests.bench.conditions import LONG_SECONDS
from tests.bench.figures import Figure, at_least, at_most, quantile
from tests.bench.load import TOPIC, order, paced
from tests.bench.progress import rounds
from tests.support.brokers import acknowledge, give_back, receive, rows, running_broker

KINDS: Final = ("levels", "times", "half and half")
RATES: Final = (500, 2_000)
IN_FLIGHT: Final = 2
"""Number of sends in flight, so low that nearly every message has its own due time."""
STEADY_DELAY_MS: Final = 1_000
HALF_EVERY: Final = 20
"""One send in this many is a half message, which stays undecided."""

_TROUBLED: Final = 10
"""One message in this many is given back once, and the receipt of another expires once."""


async def measure(quick: bool) -> list[Figure]:
    """Measure deliveries a second after a restart and in a clock move, and lateness under steady load."""
    size, delay_s, count, seconds = (1_000, 3, 1, 3.0) if quick else (50_000, 60, 3, LONG_SECONDS)
    figures = []
    for name, drain in (("overdue after a restart", overdue), ("in a move", moved)):
        drained: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for _ in rounds(f"{size:,} {name}", count):
            for kind in KINDS:
                drained[kind].append(await drain(kind, size, delay_s))
        slower = [min(both) for both in zip(drained["levels"], drained["times"], strict=True)]
        figures += [Figure(f"{name}: {kind}", "/s", drained[kind]) for kind in KINDS[:2]]
        mixed = f"{name}: {KINDS[2]} (floor: the slower alone)"
        figures.append(Figure(mixed, "/s", drained[KINDS[2]], slower, at_least(0.8, of_floor=True)))
    for rate in (50,) if quick else RATES:
        for _ in rounds(f"mix at {rate:,} a second", 1):
            figures += await steady(rate, seconds)
    return figures


async def overdue(kind: str, size: int, delay_s: int) -> float:
    """Overdue deliveries a second after a restart."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        last_us = await _fill(data, kind, size, delay_s)
        async with running_broker(clock="real") as bystander:
            await asyncio.sleep(bystander.clock.seconds_until(last_us) or 0)
        async with running_broker(data, clock="real", levels=f"{delay_s}s"):
            return await _drained(Path(data), size)


async def _drained(data: Path, size: int) -> float:
    """Deliveries a second, once all are delivered."""
    while True:
        await asyncio.sleep(0.2)  # the ledger has the times
        [row] = rows(data, "SELECT count(*) AS n, max(delivered_us) - min(picked_us) AS us FROM deliveries")
        if row["n"] == size:
            return float(size * US_PER_S / max(row["us"], 1))


async def moved(kind: str, size: int, delay_s: int) -> float:
    """Deliveries a second of a clock move."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        await _fill(data, kind, size, delay_s)
        async with running_broker(data, levels=f"{delay_s}s") as broker:
            started = perf_counter()
            move = await broker.mover.advance(2 * delay_s * US_PER_S)
            elapsed = perf_counter() - started
    assert move.fired == size, "sending took longer than the delay"
    return size / elapsed


async def _fill(data: str, kind: str, size: int, delay_s: int) -> int:
    """Send messages on a real clock, due in order of sending, and return the last due time."""
    settings = {"levels": f"{delay_s}s", "delay_sync": "never", "durability": "normal"}  # before any is due
    async with running_broker(data, clock="real", **settings) as broker:
        messages = itertools.islice(_delayed(kind, delay_s * 1_000), size)

        async def send() -> None:
            for message in messages:
                await broker.sender.send(message)

        await asyncio.gather(*(send() for _ in range(IN_FLIGHT)))
        return broker.clock.now_us() + delay_s * US_PER_S


def _delayed(kind: str, delay_ms: int) -> Iterator[Message]:
    """Messages with equal delays: by level 1, by a due time, or in turns."""
    while True:
        if kind != "times":
            yield order(1)
        if kind != "levels":
            yield order(delay_ms=delay_ms)


async def steady(rate: int, seconds: float) -> list[Figure]:
    """Lateness at the start and the end of a mixed load on a real clock."""
    delay_us = STEADY_DELAY_MS * US_PER_MS
    settings = {
        "levels": f"{STEADY_DELAY_MS // 1_000}s",
        "delay_sync": "never",
        "transaction_timeout_us": delay_us,
        "transaction_check_interval_us": delay_us,
    }
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, clock="real", **settings) as broker:
            send = _sending(broker)
            await send()
            consuming = asyncio.create_task(_consume(broker))
            async with paced(rate, send):
                await asyncio.sleep(seconds)
            behind = broker.schemes.pending
            consuming.cancel()
        found = rows(Path(data), "SELECT due_us, delivered_us - due_us AS us FROM deliveries ORDER BY due_us")
    late_ms = [row["us"] / US_PER_MS for row in found]
    third = len(late_ms) // 3
    name = f"{rate:,} a second"
    first, last = late_ms[:third], late_ms[-third:]
    flat = at_most(2.0, of_floor=True)
    return [
        *(
            Figure(
                f"{name}: {which} of the last third (floor: of the first)",
                "ms",
                [quantile(last, share)],
                [quantile(first, share)],
                flat,
            )
            for which, share in (("p50", 0.5), ("p99", 0.99))
        ),
        Figure(
            f"{name}: waiting at the end (due in {STEADY_DELAY_MS} ms)", "", [behind], aim=at_most(1.5 * rate)
        ),
        Figure(f"{name}: earliest; negative is early", "ms", [min(late_ms)], aim=at_least(0)),
    ]


def _sending(broker: Broker) -> Callable[[], Awaitable[object]]:
    """Return a function that sends the next message of the mix."""
    messages = _delayed(KINDS[2], STEADY_DELAY_MS)
    numbers = itertools.count(1)

    async def send() -> None:
        if next(numbers) % HALF_EVERY:
            await broker.sender.send(next(messages))
        else:
            await broker.half_messages.prepare_checked(order(), "producers")

    return send


async def _consume(broker: Broker) -> None:
    while True:
        acknowledged: list[InFlightMessage] = []
        given_back: list[InFlightMessage] = []
        for taken in await receive(broker, 32, invisible_us=2 * US_PER_S, wait_s=1, topic=TOPIC):
            number = taken.message.log_offset
            is_new = taken.times == 1 and not taken.message.reconsume_times
            if is_new and number % _TROUBLED == 0:
                given_back.append(taken)
            elif not is_new or number % _TROUBLED != 1:
                acknowledged.append(taken)
        await acknowledge(broker, acknowledged)
        await give_back(broker, given_back, delay_level=1)
