"""Lateness of delayed messages on a real clock, when they are stored and at a waiting consumer."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.store.queue import Queue
from tests.bench.figures import Aim, Figure, at_least, at_most, quantile
from tests.bench.floors import bare_timer
from tests.bench.load import TOPIC, order, paced
from tests.bench.progress import rounds
from tests.support.brokers import rows, running_broker

LEVELS = "1s 2s"


class Pace(NamedTuple):
    """Deliveries a second, and the aim of their p99."""

    name: str
    rate: int
    aim: Aim | None
    is_timed: bool = False  # arbitrary due times, stored in second directories


PACES = (
    Pace("idle (20 a second, one by one)", 20, at_most(5)),
    Pace("500 a second", 500, None),
    Pace("2,000 a second", 2_000, at_most(25)),
    Pace("500 a second by second directories", 500, at_most(10), is_timed=True),
)


class Lateness(NamedTuple):
    """Milliseconds of lateness of each message."""

    stored_ms: list[float]  # until it was visible, from the ledger
    told_ms: list[float]  # until a waiting consumer woke up


async def measure(quick: bool) -> list[Figure]:
    """Lateness as a waiting consumer sees it, beside a bare loop that sleeps until each instant."""
    seconds, count = (1.0, 1) if quick else (5.0, 3)
    runs: dict[Pace, list[Lateness]] = {pace: [] for pace in PACES}
    controls: dict[Pace, list[list[float]]] = {pace: [] for pace in PACES}
    for _ in rounds("lateness", count):
        for pace in PACES:
            runs[pace].append(await _deliveries(pace, seconds))
            controls[pace].append(await bare_timer(pace.rate, seconds / 2))
    figures = []
    for pace in PACES:
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            told = [quantile(run.told_ms, share) for run in runs[pace]]
            bare = [quantile(control, share) for control in controls[pace]]
            aim = pace.aim if name == "p99" else None
            figures.append(Figure(f"{pace.name}: {name}", "ms", told, bare, aim))
        stored = [quantile(run.stored_ms, 0.99) for run in runs[pace]]
        figures.append(Figure(f"{pace.name}: p99 by the ledger", "ms", stored))
    first = [min(run.stored_ms) for pace in PACES for run in runs[pace]]
    return [*figures, Figure("earliest of all; negative is early", "ms", [min(first)], aim=at_least(0))]


async def _deliveries(pace: Pace, seconds: float) -> Lateness:
    """Send at a steady pace, to two levels in turn or with equal due times, and wait for all deliveries."""
    rate = pace.rate
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with running_broker(data, clock="real", levels=LEVELS, topic_queues=1) as broker:
            queue = (await broker.registry.used_topics.for_send(TOPIC)).queues[0]
            waiting = asyncio.create_task(_told(broker, queue, int(rate * seconds)))
            number = 0

            async def send() -> None:
                nonlocal number
                number += 1
                if number <= rate * seconds:
                    level = 1 + number % 2
                    await broker.sender.send(order(delay_ms=level * 1_000) if pace.is_timed else order(level))

            async with paced(rate, send):
                told_us = await waiting
        ledger = rows(Path(data), "SELECT due_us, delivered_us FROM deliveries ORDER BY queue_offset")
    return Lateness(
        [(row["delivered_us"] - row["due_us"]) / US_PER_MS for row in ledger],
        [(told - row["due_us"]) / US_PER_MS for told, row in zip(told_us, ledger, strict=True)],
    )


async def _told(broker: Broker, queue: Queue, count: int) -> list[int]:
    """Return when a waiting consumer was notified of each message of the queue."""
    told_us: list[int] = []
    with broker.polls.listening([queue.topic]) as arrival:
        while len(told_us) < count:
            await arrival.wait()
            arrival.clear()
            told_us += [broker.clock.now_us()] * (queue.next_offset - len(told_us))
    return told_us
