"""Assess the data: which rows cannot be used and why, and what is odd about the others.

A row is dropped when it would spoil the tables: it has no identity or no due time, an impossible instant, or
a state that its times contradict. Rows with stages in an impossible order are kept and counted: they come
from clocks that differ, and their lateness is still right.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.errors import RefusedError
from mocketmq_report.document import Drop, Quality
from mocketmq_report.ledger.columns import DELIVERIES, STATES
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

UNREADABLE: Final = "unreadable"
"""An extra column of files from elsewhere: why a row could not be read, else null."""
MAX_DROPPED: Final = 0.01
"""The share of rows that may be dropped, by default."""
SKEWED: Final = "skewed"

_END_US: Final = 253_402_300_800_000_000  # of the year 9999
_NONE: Final = np.array(NONE).view(np.uint64)
_INSTANTS: Final = [name for name in DELIVERIES.names if name.endswith("_us")]


def faults(rows: Rows) -> pa.Array:
    """The first reason to drop each row, in words; null if it is kept."""
    said = rows.column(UNREADABLE) if UNREADABLE in rows else pa.nulls(len(rows))
    if said.null_count == len(said):
        said = pa.nulls(len(rows), pa.string())
    for is_so, reason in _reasons(rows):
        if is_so.any():
            said = pc.if_else(pc.and_(pc.is_null(said), pa.array(is_so)), reason, said)
    return said


def odd(rows: Rows) -> Iterator[tuple[str, int]]:
    """How many rows are skewed, and how many have stages in each order that is impossible if clocks agree."""
    born, stored, due = (rows.numbers(name) for name in ("born_us", "stored_us", "due_us"))
    yield SKEWED, _count((born > stored) & (stored != NONE))
    yield "stored after due", _count((stored > due) & rows.is_any("scheme", ["levels"]))
    picked, delivered = rows.numbers("picked_us"), rows.numbers("delivered_us")
    # Forced deliveries may come early.
    yield "picked before due", _count((picked < due) & (picked != NONE) & ~rows.holds("forced"))
    pulled, acked = rows.numbers("pulled_us"), rows.numbers("acked_us")
    yield "delivered before picked", _before(delivered, picked)
    yield "pulled before delivered", _before(pulled, delivered)
    yield "acknowledged before pulled", _before(acked, pulled)


def quality(faults: pa.Table, odd: pa.Table) -> Quality:
    """The quality of the data, from tables of how often each reason and each oddity occurred."""
    counts = dict(zip(faults["reason"].to_pylist(), faults["count"].to_pylist(), strict=True))
    oddities = {row["name"]: row["count"] for row in odd.to_pylist() if row["count"]}
    kept = counts.pop(None, 0)
    return Quality(
        read=kept + sum(counts.values()),
        kept=kept,
        dropped=_most_first(counts),
        skewed=oddities.pop(SKEWED, 0),
        disorder=_most_first(oddities),
        broken=[],
    )


def check(quality: Quality, max_dropped: float = MAX_DROPPED) -> None:
    """Raise RefusedError if all rows, or a share of more than ``max_dropped``, had to be dropped.

    An empty ledger is fine: a broker may have had nothing to delay.
    """
    gone = quality.read - quality.kept
    if gone <= max_dropped * quality.read and (quality.kept or not quality.read):
        return
    reasons = "; ".join(f"{drop.reason}: {drop.rows:,}" for drop in quality.dropped)
    allowed = f"at most {100 * max_dropped:.3g}% may be dropped" if quality.kept else "nothing is left"
    raise RefusedError(
        f"{gone:,} of {quality.read:,} rows ({gone / quality.read:.2%}) cannot be used, and {allowed}:"
        f" {reasons}"
    )


def _reasons(rows: Rows) -> Iterator[tuple[Bools, str]]:
    """Each reason to drop rows, and which rows it concerns, in order of precedence."""
    if "message_id" in rows:  # otherwise each row has one
        ids = rows.column("message_id")
        yield _array(pc.or_kleene(pc.is_null(ids), pc.equal(ids, ""))), "no message_id"
    yield rows.numbers("due_us") == NONE, "no due_us"
    yield rows.is_any("run", [None, ""]), "no run"
    yield ~rows.is_any("state", STATES), f"state is none of {', '.join(STATES)}"
    is_delivered, has_time = rows.is_any("state", ["delivered"]), rows.numbers("delivered_us") != NONE
    yield is_delivered & ~has_time, "delivered without delivered_us"
    yield ~is_delivered & has_time, "delivered_us of what was not delivered"
    # Without a sign, negative numbers are greater than all others, and the least of them is ``NONE``.
    plain = {name: rows.numbers(name).view(np.uint64) for name in _INSTANTS}
    doubtful = {name: column for name, column in plain.items() if column.max(initial=0) >= _END_US}
    for name, column in doubtful.items():
        yield column > _NONE, f"{name} is negative"
    for name, column in doubtful.items():
        yield (column >= _END_US) & (column < _NONE), f"{name} is beyond the year 9999"


def _array(mask: pa.Array) -> Bools:
    found: Bools = mask.fill_null(True).to_numpy(zero_copy_only=False)
    return found


def _before(later: Ints, earlier: Ints) -> int:
    return _count((later < earlier) & (later != NONE))


def _count(mask: Bools) -> int:
    return int(np.count_nonzero(mask))


def _most_first(counts: dict[str, int]) -> list[Drop]:
    drops = [Drop(reason=reason, rows=rows) for reason, rows in counts.items()]
    return sorted(drops, key=lambda drop: (-drop.rows, drop.reason))
