"""Finds why messages were late: partial tables of each late message's longest stage, and the causes.

A delivery is late if its lateness exceeds ``on_time_us`` (``on_time.py``). A message is late to its consumer
if it is acknowledged more than ``on_time_us`` after its delivery, not counting time that clock moves skipped.
Each late message has one cause: its longest stage, or a fault. If a fault accounts for only part of the time,
the cause has the shares of the fault and of the consumer.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.lateness import LatenessRows
from mocketmq_report.compute.partial import Shape
from mocketmq_report.compute.spans import SkippedTime
from mocketmq_report.compute.struck import HeldUp, Operation
from mocketmq_report.document import Cause, CauseGroup, CauseShare
from mocketmq_report.ledger.codes import of_numbers
from mocketmq_report.ledger.rows import NONE, Ints, Rows

LATE: Final = Shape(("run", "second", "cause", "fault"), most=("most",))
"""Late deliveries and overdue messages by the second in which they were due."""
WAITS: Final = Shape(
    ("topic", "group", "cause", "struck", "is_held", "from_s", "to_s"),
    ("count", "time", "held"),
    most=("most", "most_held", "most_rest"),
)
"""Messages that came late to their consumer. ``from_s`` and ``to_s`` are the wait for a consumer, or 0.

``struck`` is a fault that was injected into requests of consumers during that time. ``held`` is the part of
``time`` for which the fault delayed the messages; ``is_held`` is true if this is at least half of each
message's time.
"""
BUSY: Final = Shape(("topic", "second"))
"""Number of pulls and acknowledgements by consumers in each second."""

_STAGES: Final = np.array(["stored", "waking", "written", "unknown"])
_OF_CONSUMERS: Final = pa.array(["slow", "waited", "never"])
_SLOW, _WAITED, _NEVER = range(3)
GROUPS: Final = 10
"""Maximum number of consumer groups that a cause names."""
_WORTH_NAMING: Final = 0.01
"""Minimum share of a cause's time for which a fault or a consumer is named."""
_LEAST_LINE: Final = 10
_OF_LINE_US: Final = 2 * US_PER_MS
"""Maximum time that each message of a line adds to the lateness of the line's last message."""


class HoldUps(Protocol):
    """The signature of ``struck.held_up`` with its first argument, the faults, already given."""

    def __call__(self, rows: Rows, *, operation: Operation, begin_us: Ints, end_us: Ints) -> HeldUp:
        """Return the fault that delayed this stage of each row the longest."""


class Seconds(NamedTuple):
    """Late deliveries due in one second, with one cause."""

    messages: int
    most_us: int
    due_together: int


def late(measured: LatenessRows, overdue: LatenessRows, on_time_us: int) -> pa.Table:
    """Find the longest stage of each late delivery. An overdue message has the cause ``overdue``."""
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


class _Held(NamedTuple):
    """The fault that delayed each message the longest, and for how long; None and 0 without a fault."""

    fault: np.ndarray[Any, Any]
    waiting_us: Ints
    working_us: Ints

    @classmethod
    def nothing(cls, count: int) -> "_Held":
        """Make the result for ``count`` messages that no fault delayed."""
        return cls(np.full(count, None, object), *np.zeros((2, count), np.int64))


def waits(
    delivered: Rows,
    as_of_us: Ints,
    on_time_us: int,
    skipped: SkippedTime,
    hold_ups: HoldUps | None = None,
) -> pa.Table:
    """Find messages that were late to their consumer.

    A pulled but unacknowledged message counts only if a fault delayed it for at least half of its time,
    because many consumers never acknowledge. Time that a clock move skipped counts only while a fault delayed
    the message.
    """
    from_us, pulled, acked = (delivered.numbers(name) for name in ("delivered_us", "pulled_us", "acked_us"))
    is_pulled = pulled != NONE
    is_acked = is_pulled & (acked != NONE)
    pulled = np.where(is_pulled, pulled, np.maximum(as_of_us, from_us))
    acked = np.where(is_acked, acked, np.maximum(as_of_us, pulled))
    may_be = acked - from_us > on_time_us
    rows = delivered.where(may_be)
    from_us, pulled, acked, is_pulled, is_acked = (
        each[may_be] for each in (from_us, pulled, acked, is_pulled, is_acked)
    )
    wait = pulled - from_us - skipped.us(rows, from_us, pulled)
    work = acked - pulled - skipped.us(rows, pulled, acked)
    held = _Held.nothing(len(rows))
    if hold_ups is not None:
        of_wait = hold_ups(rows, operation="receive", begin_us=from_us, end_us=pulled)
        of_work = hold_ups(rows, operation="ack", begin_us=pulled, end_us=acked)
        held = _held(of_wait, of_work, wait, work, np.where(is_acked, on_time_us, LATEST_US))
        wait, work = np.maximum(wait, held.waiting_us), np.maximum(work, held.working_us)
    held_us = held.waiting_us + held.working_us
    work = np.where(is_acked | (held_us > 0), work, 0)
    cause = np.where(work > wait, _SLOW, np.where(is_pulled, _WAITED, _NEVER))
    has_waited = is_pulled & ((cause == _WAITED) | (held.waiting_us > 0))
    table = pa.table(
        {
            "topic": rows.column("topic"),
            "group": rows.column("pulled_by"),
            "cause": pa.DictionaryArray.from_arrays(cause, _OF_CONSUMERS),
            "struck": pa.array(held.fault, pa.string()),
            "is_held": 2 * held_us >= wait + work,
            "from_s": np.where(has_waited, (pulled - wait) // US_PER_S, 0),
            "to_s": np.where(has_waited, pulled // US_PER_S, 0),
            "count": np.ones(len(rows), np.int64),
            "time": wait + work,
            "held": held_us,
            "most": wait + work,
            "most_held": held_us,
            "most_rest": wait + work - held_us,
        }
    )
    return table.filter(pc.field("time") > on_time_us)


def _held(of_wait: HeldUp, of_work: HeldUp, wait: Ints, work: Ints, worth_us: Ints) -> _Held:
    """Name a fault if it delayed a message for at least half of its time, or for longer than ``worth_us``."""
    is_of_wait, is_of_both = of_wait.us >= of_work.us, of_wait.fault == of_work.fault
    waiting = np.where(is_of_both | is_of_wait, of_wait.us, 0)
    working = np.where(is_of_both | ~is_of_wait, of_work.us, 0)
    rest = np.maximum(wait - waiting, 0) + np.maximum(work - working, 0)
    is_named = (waiting + working >= rest) | (waiting + working > worth_us)
    fault = np.where(is_of_wait, of_wait.fault, of_work.fault)
    fault[~is_named] = None
    return _Held(fault, waiting * is_named, working * is_named)


def busy(delivered: Rows) -> pa.Table:
    """Count the pulls and acknowledgements in each second."""
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
    """Return the causes of late deliveries, the most frequent first, from tables of ``LATE`` and herds."""
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
    return _of_deliveries(found)


def of_consumers(waits: pa.Table, busy: pa.Table) -> list[Cause]:
    """Return the causes of messages that were late to consumers, from tables of ``WAITS`` and ``BUSY``."""
    topics, causes = waits["topic"].to_numpy(), waits["cause"].to_numpy()
    from_s, to_s = waits["from_s"].to_numpy(), waits["to_s"].to_numpy()
    is_absent = causes == "never"
    struck = pc.fill_null(waits["struck"], "").to_numpy(zero_copy_only=False).copy()
    is_held = waits["is_held"].to_numpy()
    held_s = np.where(is_held, to_s - from_s, waits["held"].to_numpy() / waits["count"].to_numpy() / US_PER_S)
    for topic in pc.unique(waits["topic"]).to_pylist():
        seconds = np.sort(busy.filter(pc.equal(busy["topic"], topic))["second"].to_numpy())
        is_in = (topics == topic) & (to_s - from_s > 1)
        is_idle = np.searchsorted(seconds, from_s[is_in] + 1) == np.searchsorted(seconds, to_s[is_in])
        is_absent[is_in] = (causes[is_in] == "waited") & is_idle
        for at in np.flatnonzero(is_in & (struck != "")):
            if 2 * _longest_pause_s(seconds, from_s[at], to_s[at]) < held_s[at]:
                struck[at] = ""
    is_struck = struck != ""
    named = np.where(is_struck & is_held, "fault", np.where(is_absent, "absent", "slow"))
    told = pa.table(
        {
            "cause": pa.array(named, pa.string()),
            "fault": pa.array(struck, pa.string()),
            "group": pc.fill_null(waits["group"], ""),
            **{name: waits[name] for name in ("count", "time", "most")},
            **{name: np.where(is_struck, waits[name].to_numpy(), 0) for name in ("held", "most_held")},
            "most_rest": np.where(is_struck, waits["most_rest"].to_numpy(), waits["most"].to_numpy()),
        }
    )
    total = pc.sum(told["count"]).as_py()
    return _in_order(
        _of_consumers(
            cause, fault, told.filter((pc.field("cause") == cause) & (pc.field("fault") == fault)), total
        )
        for cause, fault in {*zip(told["cause"].to_pylist(), told["fault"].to_pylist(), strict=True)}
    )


def _of_consumers(cause: Any, fault: str, told: pa.Table, total: int) -> Cause:
    """Make one cause from these rows. ``total`` is the number of messages that came late to consumers."""
    sums, longest = ("count", "time", "held"), ("most", "most_held", "most_rest")
    [of_all] = (
        told.group_by([])
        .aggregate([*((name, "sum") for name in sums), *((name, "max") for name in longest)])
        .to_pylist()
    )
    held = of_all["held_sum"] / max(of_all["time_sum"], 1)
    groups = [
        CauseGroup(name=row["group"], messages=row["count_sum"], max_us=row["most_max"])
        for row in told.group_by("group").aggregate([("count", "sum"), ("most", "max")]).to_pylist()
        if row["group"]
    ]
    shares = [
        CauseShare(by="fault", share=held, max_us=of_all["most_held_max"]),
        CauseShare(by="consumer", share=1 - held, max_us=of_all["most_rest_max"]),
    ]
    return Cause(
        at="consumer",
        cause=cause,
        fault=fault,
        messages=of_all["count_sum"],
        share=of_all["count_sum"] / total,
        max_us=of_all["most_max"],
        due_together=0,
        groups=sorted(groups, key=lambda each: (-each.messages, each.name))[:GROUPS],
        shares=shares if all(each.share >= _WORTH_NAMING for each in shares) else [],
    )


def _longest_pause_s(seconds: Ints, from_s: int, to_s: int) -> int:
    """Return the longest time without a pull or an acknowledgement."""
    inside = seconds[np.searchsorted(seconds, from_s) : np.searchsorted(seconds, to_s)]
    return int(np.diff([from_s, *inside, to_s]).max())


def _slow_writes(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """Return the spans of seconds with slow writes by run, in order and without overlaps."""
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


def _of_deliveries(found: Mapping[tuple[Any, str], list[Seconds]]) -> list[Cause]:
    total = sum(each.messages for those in found.values() for each in those)
    return _in_order(
        Cause(
            at="delivery",
            cause=cause,
            fault=fault,
            messages=messages,
            share=messages / total,
            max_us=max(each.most_us for each in those),
            due_together=max(each.due_together for each in those),
        )
        for (cause, fault), those in found.items()
        for messages in [sum(each.messages for each in those)]
    )


def _in_order(causes: Iterable[Cause]) -> list[Cause]:
    """Sort causes, the most frequent first."""
    return sorted(causes, key=lambda each: (-each.messages, each.cause, each.fault))
