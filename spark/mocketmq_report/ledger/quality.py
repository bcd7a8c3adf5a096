"""Assesses the data: finds unusable rows with the reasons, and oddities of the other rows.

A row is dropped if it has no identity or no due time, an impossible instant, or a state that its times
contradict. Rows with stages in an impossible order are kept and counted, because their clocks differ, but
their lateness is still right.
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
"""Name of an extra column of external files: the reason why a row is unreadable, or null."""
MAX_DROPPED: Final = 0.01
"""Maximum share of rows that may be dropped, by default."""
SKEWED: Final = "skewed"

_END_US: Final = 253_402_300_800_000_000  # the end of the year 9999
_NONE: Final = np.array(NONE).view(np.uint64)
_INSTANTS: Final = [name for name in DELIVERIES.names if name.endswith("_us")]


def faults(rows: Rows) -> pa.Array:
    """Return the first reason to drop each row, in words; null for kept rows."""
    said = rows.column(UNREADABLE) if UNREADABLE in rows else pa.nulls(len(rows))
    if said.null_count == len(said):
        said = pa.nulls(len(rows), pa.string())
    for is_so, reason in _reasons(rows):
        if is_so.any():
            said = pc.if_else(pc.and_(pc.is_null(said), pa.array(is_so)), reason, said)
    return said


def odd(rows: Rows) -> Iterator[tuple[str, int]]:
    """Count skewed rows, and rows with each order of stages that is impossible if clocks agree."""
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
    """Make the quality of the data from tables with the counts of reasons and oddities."""
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
    """Raise RefusedError if all rows, or a greater share than ``max_dropped``, were dropped.

    An empty ledger is valid, because a broker may have had nothing to delay.
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
    """Yield each reason to drop rows, with the rows, in order of precedence."""
    if "message_id" in rows:  # the column is read only if a row may lack an id
        ids = rows.column("message_id")
        yield _array(pc.or_kleene(pc.is_null(ids), pc.equal(ids, ""))), "no message_id"
    yield rows.numbers("due_us") == NONE, "no due_us"
    yield rows.is_any("run", [None, ""]), "no run"
    yield ~rows.is_any("state", STATES), f"state is none of {', '.join(STATES)}"
    is_delivered, has_time = rows.is_any("state", ["delivered"]), rows.numbers("delivered_us") != NONE
    yield is_delivered & ~has_time, "delivered without delivered_us"
    yield ~is_delivered & has_time, "delivered_us of what was not delivered"
    # As unsigned numbers, negative numbers exceed all others, and ``NONE`` is the least of the negative ones.
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
