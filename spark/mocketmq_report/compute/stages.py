"""Where the time went: a partial table of counts by stage and how long it took, and the report's stages."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.groups import by_dimension
from mocketmq_report.compute.lateness import Late
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.document import STAGES, Stage
from mocketmq_report.ledger.codes import Codes, joined, of_column, packed
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

SHAPE: Final = Shape(
    ("scheme", "level", "group", "stage", "is_complete", "value"), ("count", "sum"), most=("most",)
)
"""``is_complete`` tells messages that have all stages from others; ``group`` is of consumers."""
OF_CONSUMERS: Final = ("delivered-pulled", "pulled-acked")
"""The stages that groups of consumers have."""
BITS: Final = 6
"""Bits of a bin: 64 bins for each power of two, so that a percentile is at most 1.6 % too high.

These bins are always coarse: six values per row in fine bins would make more groups than rows.
"""


def stages(late: Late) -> pa.Table:
    """Every stage of each delivery that has its begin and its end."""
    rows = late.rows
    spans: dict[str, Ints] = {}
    is_complete = np.ones(len(rows), bool)
    total = np.zeros(len(rows), np.int64)
    for name, (begin, end) in STAGES.items():
        begins, ends = rows.numbers(begin), rows.numbers(end)
        has_both = (begins != NONE) & (ends != NONE)
        spans[name] = np.where(has_both, ends - begins, NONE)
        is_complete &= has_both
        total += spans[name]
    spans["total"] = np.where(is_complete, total, NONE)
    groups = packed(joined([*map(rows.codes, ("scheme", "level", "pulled_by")), Codes(is_complete, 2)]))
    return pa.concat_tables(_stage(name, span, groups, rows, is_complete) for name, span in spans.items())


def _stage(name: str, spans: Ints, groups: Codes, rows: Rows, is_complete: Bools) -> pa.Table:
    at = np.flatnonzero(spans != NONE)
    if len(at) < len(spans):
        spans = spans[at]
        groups = groups._replace(numbers=groups.numbers[at])
    cells = Cells(groups, bins.codes(spans, (), BITS))
    most = cells.most(spans)
    places = at[cells.places]
    return (
        pa.table(
            {
                **rows.taken(places, "scheme", "level", "pulled_by"),
                "is_complete": is_complete[places],
                "value": bins.lowest(most, BITS),
                "stage": pa.repeat(name, len(cells.count)),
                "count": cells.count,
                "sum": cells.sum(spans),
                "most": most,
            }
        )
        .rename_columns({"pulled_by": "group"})
        .select(SHAPE.names)
    )


def figures(table: pa.Table) -> list[Stage]:
    """The stages of the total, the levels, the schemes and the groups of consumers, in no order."""
    is_complete = table["is_complete"].to_numpy().astype(bool)
    for name in ("count", "sum"):
        within = np.where(is_complete, table[name].to_numpy(), 0)
        table = table.append_column(f"complete_{name}", pa.array(within))
    shape = Shape(
        ("name", "stage", "value"), ("count", "sum", "complete_count", "complete_sum"), most=("most",)
    )
    found = []
    for dimension in ("total", "level", "scheme", "group"):
        rows = merge([by_dimension(table, dimension)], shape).sort_by(
            [("name", "ascending"), ("stage", "ascending"), ("value", "ascending")]
        )
        columns = {each: rows[each].to_numpy() for each in shape.names[2:]}
        of_group, _ = joined(of_column(rows[key].combine_chunks()) for key in ("name", "stage"))
        edges = [0, *np.flatnonzero(np.diff(of_group)) + 1, len(of_group)]
        for start, end in pairwise(edges) if len(of_group) else ():
            name, stage = (rows[key][int(start)].as_py() for key in ("name", "stage"))
            of_it = {each: column[start:end] for each, column in columns.items()}
            if dimension != "group" or stage in OF_CONSUMERS:
                found.append(_figures(dimension, name, stage, of_it))
    return found


def _figures(dimension: str, name: str, stage: str, of_it: Mapping[str, Ints]) -> Stage:
    most = of_it["most"]
    upto = np.cumsum(of_it["count"])
    count = int(upto[-1])
    p50, p99 = (bins.place(percentile, upto) for percentile in (50, 99))
    return Stage(
        dimension=dimension,  # type: ignore[arg-type]  # one of them
        name=name,
        stage=stage,  # type: ignore[arg-type]  # one of them
        count=count,
        mean_us=int(of_it["sum"].sum()) / count,
        p50_us=None if p50 is None else int(most[p50]),
        p99_us=None if p99 is None else int(most[p99]),
        max_us=int(most.max()),
        complete=int(of_it["complete_count"].sum()),
        complete_sum_us=int(of_it["complete_sum"].sum()),
    )
