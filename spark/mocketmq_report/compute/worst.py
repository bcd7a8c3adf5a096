"""Finds the deliveries and overdue messages with the greatest lateness, with their ids and stages.

A batch returns the lateness of its worst rows. The rows' other columns, such as texts that no other table
needs, are read only from parts that have rows among the overall worst.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq_report.compute.lateness import LatenessRows
from mocketmq_report.document import Worst
from mocketmq_report.ledger.columns import DELIVERIES
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

WORST: Final = 20
BLOCK: Final = 4_096
"""Number of rows of a block; a first pass looks only at the worst row of each block."""
TIMES: Final = pa.schema([("lateness_us", pa.int64()), ("due_us", pa.int64())])
ROWS: Final = pa.schema(
    [
        *(field for field in DELIVERIES if field.name in Worst.__struct_fields__),
        ("lateness_us", pa.int64()),
    ]
)
COLUMNS: Final = [name for name in ROWS.names if name in DELIVERIES.names]

Bound = tuple[int, int]
"""The lateness and the due time of the last row among the worst."""

_BY_TIME: Final = [("lateness_us", "descending"), ("due_us", "ascending")]
_ORDER: Final = [*_BY_TIME, ("run", "ascending"), ("message_id", "ascending"), ("attempt", "ascending")]


def times(lates: Sequence[LatenessRows]) -> pa.Table:
    """Return the lateness and due times of a batch's worst rows, the worst first."""
    found = [TIMES.empty_table()]
    for late in lates:
        lateness = late.lateness_us
        if len(lateness) > WORST:  # sort only the worst rows
            is_in = lateness >= _last(lateness)
            lateness = lateness[is_in]
            due = late.rows.numbers("due_us")[is_in]
        else:
            due = late.rows.numbers("due_us")
        found.append(pa.table({"lateness_us": lateness, "due_us": due}))
    return worst_times(pa.concat_tables(found))


def _last(lateness: Ints) -> int:
    """Return the lateness of the last of the worst rows. Excludes most rows by the greatest of each block."""
    blocks = len(lateness) // BLOCK
    if blocks >= WORST:
        greatest = lateness[: blocks * BLOCK].reshape(blocks, BLOCK).max(axis=1)
        lateness = lateness[lateness >= np.partition(greatest, -WORST)[-WORST]]
    return int(np.partition(lateness, -WORST)[-WORST])


def worst_times(times: pa.Table) -> pa.Table:
    """Select the worst of these lateness and due times, the worst first."""
    return times.sort_by(_BY_TIME).slice(0, WORST)


def bound(times: pa.Table) -> Bound | None:
    """Return the last of the worst rows' times; None if there are no rows."""
    rows = worst_times(times)
    if not rows.num_rows:
        return None
    return rows["lateness_us"][-1].as_py(), rows["due_us"][-1].as_py()


def reaches(times: pa.Table, bound: Bound) -> bool:
    """Return whether any of a part's worst rows is among the overall worst."""
    if not times.num_rows:
        return False
    return (-times["lateness_us"][0].as_py(), times["due_us"][0].as_py()) <= (-bound[0], bound[1])


def may_be(rows: Rows, bound: Bound) -> Bools:
    """Check quickly which rows may be among the worst, because they are late enough or not delivered."""
    delivered = rows.numbers("delivered_us")
    found: Bools = (delivered == NONE) | (delivered - rows.numbers("due_us") >= bound[0])
    return found


def worst(lates: Sequence[LatenessRows], bound: Bound) -> pa.Table:
    """Return the worst rows of a batch up to the bound, with all their columns."""
    found = []
    for late in lates:
        due = late.rows.numbers("due_us")
        is_in = (late.lateness_us > bound[0]) | ((late.lateness_us == bound[0]) & (due <= bound[1]))
        rows = late.rows.where(is_in).text(COLUMNS)
        found.append(rows.append_column("lateness_us", pa.array(late.lateness_us[is_in])))
    return worst_of(pa.concat_tables([ROWS.empty_table(), *found]))


def worst_of(rows: pa.Table) -> pa.Table:
    """Select the worst of these rows, the worst first."""
    return rows.sort_by(_ORDER).slice(0, WORST)
