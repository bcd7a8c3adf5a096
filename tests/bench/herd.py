"""A herd: many messages due at one instant, while others are sent."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_S
from tests.bench.figures import Figure, at_least, at_most, quantile
from tests.bench.load import TOPIC, fill, order, paced
from tests.bench.progress import rounds
from tests.support.brokers import rows, running_broker

SENDS_PER_S = 500
LONE_S = 1.0
DRAINED = at_least(20_000)
SEND_P99 = at_most(50)


class Herd(NamedTuple):
    """Rate of deliveries, and latency of concurrent sends."""

    per_second: float
    send_p99_ms: float


async def measure(quick: bool) -> list[Figure]:
    """Measure deliveries a second and the p99 of concurrent sends, on a real clock and in a clock move."""
    size, delay_s, count = (2_000, 2, 1) if quick else (100_000, 7, 3)
    real, moved, lone = [], [], []
    for _ in rounds(f"herd of {size:,}", count):
        real.append(await _real_herd(size, delay_s))
        moved.append(await _moved_herd(size, delay_s))
        lone.append(await _sends_alone())
    figures = []
    for name, herds in (("real clock", real), ("clock moved", moved)):
        drained = [herd.per_second for herd in herds]
        p99s = [herd.send_p99_ms for herd in herds]
        figures += [
            Figure(f"{name}: drained", "/s", drained, aim=DRAINED),
            Figure(f"{name}: p99 of sends meanwhile (floor: without herd)", "ms", p99s, lone, SEND_P99),
        ]
    return figures


async def _real_herd(size: int, delay_s: int) -> Herd:
    """Park messages that are due at one instant under a manual clock, then deliver them on a real clock."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, levels=f"{delay_s}s") as broker:
            await fill(broker, size, lambda _: 1)
        async with running_broker(data, levels=f"{delay_s}s", clock="real") as broker:
            await _send(broker)
            due_us = broker.timer.next_due_us()
            await asyncio.sleep(broker.clock.seconds_until(due_us or 0) or 0)
            async with paced(SENDS_PER_S, lambda: _send(broker)) as took_ms:
                with broker.polls.listening([TOPIC]) as arrival:
                    while broker.levels.levels[0].pending:
                        await arrival.wait()
                        arrival.clear()
        ((span_us, drained),) = (
            row.values()
            for row in rows(Path(data), "SELECT max(delivered_us) - min(picked_us), count(*) FROM deliveries")
        )
    assert drained == size
    return Herd(drained * US_PER_S / max(span_us, 1), quantile(took_ms, 0.99))


async def _moved_herd(size: int, delay_s: int) -> Herd:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, levels=f"{delay_s}s") as broker:
            await fill(broker, size, lambda _: 1)
            await _send(broker)
            async with paced(SENDS_PER_S, lambda: _send(broker)) as took_ms:
                started = perf_counter()
                move = await broker.mover.advance(delay_s * US_PER_S)
                elapsed = perf_counter() - started
    assert move.fired == size
    return Herd(size / elapsed, quantile(took_ms, 0.99))


async def _sends_alone() -> float:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data) as broker:
            await _send(broker)
            async with paced(SENDS_PER_S, lambda: _send(broker)) as took_ms:
                await asyncio.sleep(LONE_S)
    return quantile(took_ms, 0.99)


async def _send(broker: Broker) -> None:
    await broker.sender.send(order(topic="other"))
