"""Counts deliveries by time and lateness: a partial table, and the report's instants and cells."""

from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.lateness import Cutoffs, LatenessRows
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.document import Cell, Instant
from mocketmq_report.ledger.codes import of_numbers

SHAPE: Final = Shape(("at_us", "value"), most=("most",))
STEPS: Final = 300
"""Maximum number of steps of a timeline."""
MINUTE_US: Final = 60 * US_PER_S

_STEPS_US: Final = [
    *(step * US_PER_MS for step in (10, 20, 50, 100, 200, 500)),
    *(step * US_PER_S for step in (1, 2, 5, 10, 20, 30)),
    *(step * MINUTE_US for step in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720)),
]
_DAY_US: Final = 24 * 60 * MINUTE_US
_COARSE: Final = 1
"""Precision of a bin of the heat map: two bins for each power of two."""


def timeline(late: LatenessRows, cutoffs_us: Cutoffs, step_us: int) -> pa.Table:
    """Count deliveries by step and lateness."""
    steps = late.rows.numbers("delivered_us") // step_us
    cells = Cells(of_numbers(steps), bins.codes(late.lateness_us, cutoffs_us))
    most = cells.most(late.lateness_us)
    return pa.table(
        {
            "at_us": steps[cells.places] * step_us,
            **{"value": bins.keys(most, cutoffs_us), "count": cells.count, "most": most},
        }
    )


def step_us(span_us: int) -> int:
    """Choose the shortest step of which at most ``STEPS`` cover the span; above half a day, whole days."""
    least = -(-span_us // STEPS)
    return next((step for step in _STEPS_US if step >= least), -(-least // _DAY_US) * _DAY_US)


def of_minutes(minutes: pa.Table, step_us: int) -> pa.Table:
    """Make the table of ``timeline`` from lateness by minute."""
    delivered = minutes.filter(minutes["minute_us"].is_valid())
    at = delivered["minute_us"].to_numpy() // step_us * step_us
    return merge([delivered.append_column("at_us", pa.array(at))], SHAPE)


def instants(table: pa.Table) -> list[Instant]:
    """Return the deliveries of each step, in order."""
    found = []
    rows = table.sort_by([("at_us", "ascending"), ("value", "ascending")])
    at, count, most = (rows[name].to_numpy() for name in ("at_us", "count", "most"))
    edges = [*np.flatnonzero(np.append(True, at[1:] != at[:-1]))[: len(at)], len(at)]
    for start, end in pairwise(edges):
        upto = np.cumsum(count[start:end])
        p50, p99 = (bins.rank_of(percentile, upto) for percentile in (50, 99))
        found.append(
            Instant(
                at_us=int(at[start]),
                count=int(upto[-1]),
                p50_us=None if p50 is None else int(most[start + p50]),
                p99_us=None if p99 is None else int(most[start + p99]),
                max_us=int(most[start:end].max()),
            )
        )
    return found


def cells(table: pa.Table) -> list[Cell]:
    """Return the cells of the heat map, in order."""
    lows = bins.lowest(table["value"].to_numpy(), _COARSE)
    shape = Shape(("at_us", "low_us"))
    rows = merge([table.append_column("low_us", pa.array(lows))], shape)
    rows = rows.sort_by([("at_us", "ascending"), ("low_us", "ascending")])
    highs = bins.highest(rows["low_us"].to_numpy(), _COARSE) + 1
    return [Cell(**row, high_us=high) for row, high in zip(rows.to_pylist(), highs.tolist(), strict=True)]
