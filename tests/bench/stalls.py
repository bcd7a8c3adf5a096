"""Late deliveries of a steady load, and the cause of each above the p99.

The broker and this process, which produces and consumes, record their activities (``marks``), and ``causes``
compares the activities with the deliveries. A watched broker is a little slower than others.
"""

import sys
from collections.abc import Sequence
from typing import Final

from mocketmq.clock import US_PER_MS, wall_us
from tests.bench.causes import CAUSES, CLIENT, READ, TRANSACTION, UNEXPLAINED, Mark, cause_of
from tests.bench.conditions import RATES, SECONDS, STORES, place
from tests.bench.figures import Figure, quantile
from tests.bench.marks import Marks, in_ms
from tests.bench.progress import say
from tests.bench.wire_lateness import LEVELS, Delivered, deliveries, log_of
from tests.support.process import broker_process

_LATE: Final = 0.99


async def measure(quick: bool) -> list[Figure]:
    """For each store and rate: lateness, causes of late deliveries, and activities of the broker."""
    figures = []
    for store in STORES:
        for rate in RATES:
            seconds = 2.0 if quick else SECONDS
            say(f"{store}, {rate} a second for {seconds:.0f} s")
            figures += await _watched(store, rate, seconds)
    return figures


async def _watched(store: str, rate: int, seconds: float) -> list[Figure]:
    async with place(store) as data:
        file = data.parent / "marks"
        wrapper = (sys.executable, "-m", "tests.bench.marked_broker", str(file), str(log_of(data)))
        ours = Marks(CLIENT)
        async with broker_process("--data", str(data), *LEVELS, wrapper=wrapper) as process:
            began_us = wall_us()
            with ours.watching():
                found = await deliveries(process.broker_port, data, rate, seconds)
            log_mb = log_of(data).stat().st_size / 1e6
        its = Marks.load(file).since(began_us)
    name = f"{store}, {rate:,} a second"
    late_ms = [one.late_ms for one in found]
    per_delivery = (its.counts[TRANSACTION] + its.counts[READ]) / len(found)
    return [
        *(
            Figure(f"{name}: {which} of lateness", "ms", [quantile(late_ms, share)])
            for which, share in (("p50", 0.5), ("p99", _LATE), ("max", 1.0))
        ),
        *_causes(name, found, [*its.marks, *ours.marks]),
        *_stages(name, found),
        *_went_on(name, its),
        Figure(f"{name}: visits to threads for each delivery, with its send", "", [per_delivery]),
        Figure(f"{name}: the log", "MB", [log_mb]),
    ]


def _late(found: Sequence[Delivered]) -> list[Delivered]:
    limit_ms = quantile((one.late_ms for one in found), _LATE)
    return [one for one in found if one.late_ms > limit_ms]


def _causes(name: str, found: Sequence[Delivered], marks: Sequence[Mark]) -> list[Figure]:
    """Return a figure for each cause, with its part of each late delivery's lateness."""
    usual_us = int(quantile((one.late_ms for one in found), 0.5) * US_PER_MS)
    by_kind: dict[str, list[int]] = {}
    for one in _late(found):
        cause = cause_of(one.due_us, one.got_us, marks, usual_us)
        by_kind.setdefault(cause.kind, []).append(cause.us)
    return [
        Figure(f"{name}: late by: {kind}", "ms", in_ms(by_kind[kind]))
        for kind in (*CAUSES, UNEXPLAINED)
        if kind in by_kind
    ]


def _stages(name: str, found: Sequence[Delivered]) -> list[Figure]:
    """The stages in which late deliveries were late, by the ledger."""
    late = _late(found)
    stages = {
        "due → picked": [one.picked_us - one.due_us for one in late],
        "picked → written": [one.delivered_us - one.picked_us for one in late],
        "written → in the consumer's hands": [one.got_us - one.delivered_us for one in late],
    }
    return [Figure(f"{name}: of the late: {stage}", "ms", in_ms(us)) for stage, us in stages.items() if us]


def _went_on(name: str, its: Marks) -> list[Figure]:
    """Return all activities recorded in the broker, whether or not they delayed a delivery."""
    by_kind: dict[str, list[int]] = {}
    for mark in its.marks:
        by_kind.setdefault(mark.kind, []).append(mark.end_us - mark.begin_us)
    pauses_us: dict[int, list[int]] = {}
    for generation, begin_us, end_us in its.pauses:
        pauses_us.setdefault(generation, []).append(end_us - begin_us)
    return [
        *(
            Figure(f"{name}: pauses of garbage collection, generation {generation}", "ms", in_ms(pauses))
            for generation, pauses in sorted(pauses_us.items())
        ),
        *(
            Figure(f"{name}: from 1 ms on: {kind}", "ms", in_ms(by_kind[kind]))
            for kind in CAUSES
            if kind in by_kind
        ),
        *(Figure(f"{name}: how many: {what}", "", [count]) for what, count in sorted(its.counts.items())),
    ]
