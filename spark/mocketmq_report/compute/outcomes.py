"""Outcomes of messages: a partial table, and the report's reconciliation.

The reconciliation counts messages, that is, each group's rows minus the repeated rows that ``repeats`` finds.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mocketmq_report.compute.cells import MOST, Cells, Group, by_dimension, groups_of
from mocketmq_report.compute.partial import Shape
from mocketmq_report.ledger.columns import STATES
from mocketmq_report.ledger.ledger import Extent
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

SHAPE: Final = Shape(
    ("run", "scheme", "level", "state"),
    ("rows", "forced", "overdue"),
    ("overdue_from_us", "first_us", "due_from_us"),
    ("last_us", "due_to_us"),
)
_GROUPS: Final = ("total", "level", "scheme", "run")
_COUNTS: Final = (*STATES, "forced", "overdue")


def outcomes(rows: Rows, is_overdue: Bools) -> pa.Table:
    """Return the outcome of each row."""
    due, delivered = rows.numbers("due_us"), rows.numbers("delivered_us")
    cells = Cells(*map(rows.codes, SHAPE.keys))
    first = cells.least(np.where(delivered == NONE, MOST, delivered))
    last = cells.most(delivered)
    owed = cells.least(np.where(is_overdue, due, MOST))
    return pa.table(
        {
            **rows.taken(cells.places, *SHAPE.keys),
            "rows": cells.count,
            "forced": cells.sum(rows.holds("forced")),
            "overdue": cells.sum(is_overdue),
            "overdue_from_us": pa.array(owed, mask=owed == MOST),
            "first_us": pa.array(first, mask=first == MOST),
            "due_from_us": cells.least(due),
            "last_us": pa.array(last, mask=last == NONE),
            "due_to_us": cells.most(due),
        }
    )


def is_overdue(rows: Rows, states: tuple[str, ...], as_of_us: Ints) -> Bools:
    """Return whether each message should have been delivered by now."""
    found: Bools = rows.is_any("state", states) & (rows.numbers("due_us") <= as_of_us) & (as_of_us != NONE)
    return found


def extent(table: pa.Table) -> Extent:
    """Return the extent of the rows in a table of outcomes."""
    rows = table.to_pylist()
    return Extent(
        sum(row["rows"] for row in rows),
        min((row["first_us"] for row in rows if row["first_us"] is not None), default=0),
        max((row["last_us"] for row in rows if row["last_us"] is not None), default=0),
    )


def reconciliation(
    table: pa.Table, again: pa.Table, runs: Mapping[str, dict[str, Any]], on_time_us: int
) -> list[dict[str, Any]]:
    """Make rows of ``document.Reconciliation``, in any order, without empty groups.

    A group is silent only if its overdue messages are late by more than ``on_time_us``, because a running
    broker always has messages that became due a moment ago.
    """
    found: dict[Group, dict[str, Any]] = {}
    owed: dict[tuple[Group, str], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        for group in groups_of(row, _GROUPS):
            counts = found.setdefault(group, dict.fromkeys((*_COUNTS, "repeats"), 0))
            counts[row["state"]] += row["rows"]
            counts["forced"] += row["forced"]
            counts["overdue"] += row["overdue"]
            owed.setdefault((group, runs[row["run"]]["store"]), []).append(row)
    silent = {group for (group, _), rows in owed.items() if _is_silent(rows, runs, on_time_us)}
    for group, less in _surplus(again):
        for name, count in less.items():
            found[group][name] -= count
    for group, counts in found.items():
        counts |= {
            "dimension": group[0],
            "name": group[1],
            "sent": sum(counts[state] for state in STATES),
            "is_silent": group in silent,
        }
    return list(found.values())


def _is_silent(rows: list[dict[str, Any]], runs: Mapping[str, dict[str, Any]], on_time_us: int) -> bool:
    owed_us = min((row["overdue_from_us"] for row in rows if row["overdue"]), default=None)
    as_of_us = max((runs[row["run"]]["as_of_us"] or 0 for row in rows), default=0)
    last_us = max((row["last_us"] for row in rows if row["last_us"] is not None), default=None)
    return owed_us is not None and owed_us < as_of_us - on_time_us and (last_us is None or last_us < owed_us)


def _surplus(again: pa.Table) -> list[tuple[Group, dict[str, int]]]:
    """Count the repeated rows of messages in each group.

    A message with several states counts in the first of ``STATES``.
    """
    message = ("store", "parked_offset", "message_id", "attempt")
    found = []
    for dimension in _GROUPS:
        rows = by_dimension(again, dimension)
        if not rows.num_rows:
            continue
        numbers = [STATES.index(state) for state in rows["state"].to_pylist()]
        each = {state: [int(number == place) for number in numbers] for place, state in enumerate(STATES)}
        columns = {name: rows[name] for name in ("name", *message)} | {
            "first": numbers,
            **each,
            **{name: rows[name].cast(pa.int64()) for name in ("forced", "is_overdue")},
        }
        keys = ["name", *message]
        sums = [(name, "sum") for name in (*STATES, "forced", "is_overdue")]
        messages = pa.table(columns).group_by(keys).aggregate([("first", "min"), *sums])
        less: dict[str, dict[str, int]] = {}
        for row in messages.to_pylist():
            group = less.setdefault(row["name"], dict.fromkeys((*_COUNTS, "repeats"), 0))
            for place, state in enumerate(STATES):
                group[state] += row[f"{state}_sum"] - (row["first_min"] == place)
            is_pending = STATES[row["first_min"]] == "pending"
            group["forced"] += row["forced_sum"] - (row["forced_sum"] > 0)
            group["overdue"] += row["is_overdue_sum"] - (is_pending and row["is_overdue_sum"] > 0)
            group["repeats"] -= max(row["delivered_sum"] - 1, 0)
        found += [((dimension, name), counts) for name, counts in less.items()]
    return found
