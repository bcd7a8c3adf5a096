"""Why messages were late: partial tables of the longest stage of each late message, and the report's causes.

A delivery is late beyond ``on_time_us``. A message comes late to its consumer if it was not acknowledged so
soon after its delivery. Each late message has one cause: the stage that took the longest, or a fault.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.lateness import Late
from mocketmq_report.compute.partial import Shape
from mocketmq_report.compute.struck import Operation
from mocketmq_report.document import Cause
from mocketmq_report.ledger.codes import of_numbers
from mocketmq_report.ledger.rows import NONE, Ints, Rows

LATE: Final = Shape(("run", "second", "cause", "fault"), most=("most",))
"""Late deliveries and overdue messages by the second in which they were due."""
WAITS: Final = Shape(("topic", "cause", "fault", "struck", "from_s", "to_s"), most=("most",))
"""Messages that came late to their consumer. Of those that waited for one, from when until when.

``struck`` is a fault that struck requests of consumers meanwhile, ``fault`` one that struck the delivery.
"""
BUSY: Final = Shape(("topic", "second"))
"""How often consumers pulled or acknowledged something."""

_STAGES: Final = np.array(["stored", "waking", "written", "unknown"])
_OF_CONSUMERS: Final = pa.array(["slow", "waited", "never"])
_SLOW, _WAITED, _NEVER = range(3)
_LEAST_LINE: Final = 10
_OF_LINE_US: Final = 2 * US_PER_MS
"""What each message of a line adds to the lateness of the last, at most."""


class Explained(Protocol):
    """``struck.explained`` of some faults."""

    def __call__(self, rows: Rows, *, operation: Operation, begin_us: Ints, end_us: Ints) -> pa.Array:
        """The fault that explains this stage of each row, if any."""


class Seconds(NamedTuple):
    """Late deliveries that were due in one second, with one cause."""

    messages: int
    most_us: int
    due_together: int


def late(measured: Late, overdue: Late, on_time_us: int) -> pa.Table:
    """The longest stage of each late delivery; overdue messages are not delivered at all."""
    is_late = measured.lateness_us > on_time_us
    rows, lateness = measured.rows.where(is_late), measured.lateness_us[is_late]
    due, stored, picked = (rows.numbers(name) for name in ("due_us", "stored_us", "picked_us"))
    ready = np.maximum(due, stored)  # NONE is less than any instant
    is_known = picked != NONE
    spans = [
        ready - due,
        np.where(is_known, picked - ready, -1),
        np.where(is_known, rows.numbers("delivered_us") - picked, -1),
        np.where(is_known, -1, rows.numbers("delivered_us") - ready),
    ]
    longest = _STAGES[np.argmax(spans, axis=0)] if len(lateness) else _STAGES[:0]
    is_owed = overdue.lateness_us > on_time_us
    return pa.concat_tables(
        [
            _table(rows, lateness, longest),
            _table(
                overdue.rows.where(is_owed),
                overdue.lateness_us[is_owed],
                np.repeat(np.array(["overdue"]), is_owed.sum()),
            ),
        ]
    )


def _table(rows: Rows, lateness: Ints, cause: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table(
        {
            "run": rows.column("run"),
            "second": rows.numbers("due_us") // US_PER_S,
            "cause": pa.array(cause, pa.string()),
            "fault": _faults(rows),
            "count": np.ones(len(lateness), np.int64),
            "most": lateness,
        }
    )


def waits(delivered: Rows, as_of_us: Ints, on_time_us: int, explained: Explained | None = None) -> pa.Table:
    """Messages that came late to their consumer.

    One that was pulled and is not acknowledged counts only if a fault explains it: many consumers never
    acknowledge.
    """
    from_us, pulled, acked = (delivered.numbers(name) for name in ("delivered_us", "pulled_us", "acked_us"))
    is_pulled = pulled != NONE
    wait = np.where(is_pulled, pulled, np.maximum(as_of_us, from_us)) - from_us
    work = np.where(is_pulled & (acked != NONE), acked - pulled, 0)
    is_late = wait + work > on_time_us
    struck = pa.nulls(len(delivered), pa.string())
    if explained is not None:
        is_open = is_pulled & (acked == NONE)
        so_far = np.where(is_open, np.maximum(as_of_us - pulled, 0), work)
        struck = _struck(delivered, wait, so_far, on_time_us, explained)
        is_struck = struck.is_valid().to_numpy(zero_copy_only=False)
        work = np.where(is_struck, so_far, work)
        is_late |= is_struck
    rows = delivered.where(is_late)
    wait, work, is_pulled, from_us, pulled = (
        each[is_late] for each in (wait, work, is_pulled, from_us, pulled)
    )
    cause = np.where(work > wait, _SLOW, np.where(is_pulled, _WAITED, _NEVER))
    return pa.table(
        {
            "topic": rows.column("topic"),
            "cause": pa.DictionaryArray.from_arrays(cause, _OF_CONSUMERS),
            "fault": _faults(rows),
            "struck": struck.filter(pa.array(is_late)),
            "from_s": np.where(cause == _WAITED, from_us // US_PER_S, 0),
            "to_s": np.where(cause == _WAITED, pulled // US_PER_S, 0),
            "count": np.ones(len(rows), np.int64),
            "most": wait + work,
        }
    )


def _struck(delivered: Rows, wait: Ints, work: Ints, on_time_us: int, explained: Explained) -> pa.Array:
    """The fault that explains the longer stage of each message, if it came late and one does."""
    is_late = wait + work > on_time_us
    rows, wait, work = delivered.where(is_late), wait[is_late], work[is_late]
    from_us = rows.numbers("delivered_us")
    of_wait = explained(rows, operation="receive", begin_us=from_us, end_us=from_us + wait)
    of_work = explained(rows, operation="ack", begin_us=from_us + wait, end_us=from_us + wait + work)
    found = pc.if_else(pa.array(work > wait), of_work, of_wait)
    return pc.replace_with_mask(pa.nulls(len(delivered), pa.string()), pa.array(is_late), found)


def busy(delivered: Rows) -> pa.Table:
    """The seconds in which consumers pulled or acknowledged."""
    found = []
    for name in ("pulled_us", "acked_us"):
        times = delivered.numbers(name)
        rows = delivered.where(times != NONE)
        seconds = rows.numbers(name) // US_PER_S
        cells = Cells(rows.codes("topic"), of_numbers(seconds))
        keys = rows.taken(cells.places, "topic")
        found.append(pa.table({**keys, "second": seconds[cells.places], "count": cells.count}))
    return pa.concat_tables(found)


def _faults(rows: Rows) -> pa.Array:
    return rows.column("fault") if "fault" in rows else pa.nulls(len(rows), pa.string())


def of_deliveries(table: pa.Table, herds: pa.Table) -> list[Cause]:
    """Why deliveries were late, from tables of ``LATE`` and of herds. The most frequent cause comes first."""
    herds = herds.filter(pc.is_in(herds["second"], value_set=table["second"].combine_chunks()))
    together = {
        (run, second): count
        for run, second, count in zip(
            *(herds[name].to_pylist() for name in ("run", "second", "count")), strict=True
        )
    }
    rows = table.to_pylist()
    slow = _slow_writes(row for row in rows if row["cause"] == "written")
    found: dict[tuple[str, str], list[Seconds]] = defaultdict(list)
    for row in rows:
        count = together.get((row["run"], row["second"]), 0)
        cause = row["cause"]
        if row["fault"]:
            cause = "fault"
        elif cause == "waking" and count >= _LEAST_LINE and row["most"] <= count * _OF_LINE_US:
            cause = "line"
        elif cause == "waking" and _is_in(slow.get(row["run"]), row["second"]):
            cause = "written"
        found[cause, row["fault"] or ""].append(Seconds(row["count"], row["most"], count))
    return _causes("delivery", found)


def of_consumers(waits: pa.Table, busy: pa.Table) -> list[Cause]:
    """Why messages came late to their consumers, from tables of ``WAITS`` and ``BUSY``."""
    topics, causes = waits["topic"].to_numpy(), waits["cause"].to_numpy()
    from_s, to_s = waits["from_s"].to_numpy(), waits["to_s"].to_numpy()
    is_absent = causes == "never"
    struck = pc.fill_null(waits["struck"], "").to_numpy(zero_copy_only=False).copy()
    for topic in pc.unique(waits["topic"]).to_pylist():
        seconds = np.sort(busy.filter(pc.equal(busy["topic"], topic))["second"].to_numpy())
        is_in = (causes == "waited") & (topics == topic) & (to_s - from_s > 1)
        is_absent[is_in] = np.searchsorted(seconds, from_s[is_in] + 1) == np.searchsorted(
            seconds, to_s[is_in]
        )
        for at in np.flatnonzero(is_in & (struck != "")):
            if not _is_mostly_idle(seconds, from_s[at], to_s[at]):
                struck[at] = ""
    fault = pc.fill_null(waits["fault"], "").to_numpy(zero_copy_only=False)
    fault = np.where(fault == "", struck, fault)
    named = np.where(fault != "", "fault", np.where(is_absent, "absent", "slow"))
    told = pa.table(
        {"cause": pa.array(named, pa.string()), "fault": pa.array(fault, pa.string()), **_numbers(waits)}
    )
    sums = told.group_by(["cause", "fault"]).aggregate([("count", "sum"), ("most", "max")])
    return _causes(
        "consumer",
        {
            (row["cause"], row["fault"]): [Seconds(row["count_sum"], row["most_max"], 0)]
            for row in sums.to_pylist()
        },
    )


def _is_mostly_idle(seconds: Ints, from_s: int, to_s: int) -> bool:
    """Whether consumers did nothing in half of this time, at a stretch."""
    inside = seconds[np.searchsorted(seconds, from_s) : np.searchsorted(seconds, to_s)]
    return bool(2 * np.diff([from_s, *inside, to_s]).max() >= to_s - from_s)


def _numbers(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[name] for name in ("count", "most")}


def _slow_writes(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """The seconds during which messages were written slowly, for each run, in order and apart."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in sorted(rows, key=lambda row: row["second"]):
        spans = found.setdefault(row["run"], [])
        span = row["second"], row["second"] + row["most"] // US_PER_S + 1
        if spans and span[0] <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(span[1], spans[-1][1])
        else:
            spans.append(span)
    return found


def _is_in(spans: list[tuple[int, int]] | None, second: int) -> bool:
    return any(first <= second <= last for first, last in spans or ())


def _causes(at: Any, found: Mapping[tuple[Any, str], list[Seconds]]) -> list[Cause]:
    total = sum(each.messages for those in found.values() for each in those)
    causes = [
        Cause(
            at=at,
            cause=cause,
            fault=fault,
            messages=messages,
            share=messages / total,
            max_us=max(each.most_us for each in those),
            due_together=max(each.due_together for each in those),
        )
        for (cause, fault), those in found.items()
        for messages in [sum(each.messages for each in those)]
    ]
    return sorted(causes, key=lambda each: (-each.messages, each.cause, each.fault))
