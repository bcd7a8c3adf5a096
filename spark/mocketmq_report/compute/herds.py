"""Counts deliveries due in the same second: a partial table of seconds, and the report's herds."""

from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq.clock import US_PER_S
from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.lateness import LatenessRows
from mocketmq_report.compute.partial import Shape
from mocketmq_report.document import Herd
from mocketmq_report.ledger.codes import of_numbers

SHAPE: Final = Shape(("run", "second"), ("count", "sum"), most=("most",))


def herds(late: LatenessRows) -> pa.Table:
    """Count deliveries by the second of their due time."""
    seconds = late.rows.numbers("due_us") // US_PER_S
    cells = Cells(late.rows.codes("run"), of_numbers(seconds))
    return pa.table(
        {
            **late.rows.taken(cells.places, "run"),
            "second": seconds[cells.places],
            "count": cells.count,
            "sum": cells.sum(late.lateness_us),
            "most": cells.most(late.lateness_us),
        }
    )


def figures(seconds: pa.Table) -> list[Herd]:
    """Group seconds by their number of deliveries, with a group for each power of two."""
    count, total, most = (seconds[name].to_numpy() for name in ("count", "sum", "most"))
    lows = bins.lowest(count, 0)
    found = []
    for low in np.unique(lows):
        is_in = lows == low
        worst = np.sort(most[is_in])
        deliveries = int(count[is_in].sum())
        found.append(
            Herd(
                due_low=int(low),
                due_high=int(low) * 2 - 1,
                seconds=len(worst),
                deliveries=deliveries,
                mean_us=int(total[is_in].sum()) / deliveries,
                p50_max_us=int(worst[(len(worst) - 1) // 2]),
                max_us=int(worst[-1]),
            )
        )
    return found
