"""Durations of stages: a partial table of counts by stage and duration, and the report's stages."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells, by_dimension
from mocketmq_report.compute.lateness import LatenessRows
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.compute.spans import SkippedTime
from mocketmq_report.document import STAGES, Stage
from mocketmq_report.ledger.codes import Codes, joined, of_column, packed
from mocketmq_report.ledger.rows import NONE, Bools, Ints

SHAPE: Final = Shape(
    ("scheme", "level", "group", "stage", "is_complete", "value"), ("count", "sum"), most=("most",)
)
"""``is_complete`` is true if the message has all stages; ``group`` is the consumer group."""
OF_CONSUMERS: Final = ("delivered-pulled", "pulled-acked")
"""The stages of consumer groups."""
BITS: Final = 6
"""Precision of a bin: 64 bins for each power of two, so that a percentile is at most 1.6 % too high.

The bins are coarse, because six values per row in fine bins would make more groups than rows.
"""


def stages(late: LatenessRows, skipped: SkippedTime) -> pa.Table:
    """Return each stage of each delivery for which the stage's begin and end are known.

    The stages of consumers do not include time that clock moves skipped.
    """
    rows = late.rows
    has = {name: rows.numbers(name) != NONE for stage in STAGES.values() for name in stage}
    is_complete: Bools = np.logical_and.reduce([*has.values()])
    groups = packed(
        joined([*map(rows.codes, ("scheme", "level", "pulled_by")), Codes(is_complete.astype(np.int8), 2)])
    )
    one = Cells(groups).places
    scheme, level, group = rows.taken(one, "scheme", "level", "pulled_by").values()
    of_groups = pa.table({"scheme": scheme, "level": level, "group": group, "is_complete": is_complete[one]})
    total = np.zeros(len(rows), np.int64)
    found = []
    for name, (begin, end) in STAGES.items():
        spans = rows.numbers(end) - rows.numbers(begin)
        if name in OF_CONSUMERS:
            spans = spans - skipped.us(rows, rows.numbers(begin), rows.numbers(end))
        total += spans
        found.append(_stage(name, spans, has[begin] & has[end], groups, of_groups))
    found.append(_stage("total", total, is_complete, groups, of_groups))
    return pa.concat_tables(found)


def _stage(name: str, spans: Ints, is_in: Bools, groups: Codes, of_groups: pa.Table) -> pa.Table:
    if not is_in.all():
        at = np.flatnonzero(is_in)
        spans, groups = spans[at], Codes(groups.numbers[at], groups.size)
    bin_ = bins.codes(spans, (), BITS)
    cells = Cells(groups, bin_)
    most = cells.most(spans)
    keys = of_groups.take(pa.array(cells.numbers // bin_.size))
    return pa.table(
        {
            **dict(zip(keys.column_names, keys.columns, strict=True)),
            "stage": pa.repeat(name, len(most)),
            "value": bins.lowest(most, BITS),
            "count": cells.count,
            "sum": cells.sum(spans),
            "most": most,
        }
    ).select(SHAPE.names)


def figures(table: pa.Table) -> list[Stage]:
    """Return the stages of the total, the levels, the schemes and the consumer groups, in any order."""
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
    p50, p99 = (bins.rank_of(percentile, upto) for percentile in (50, 99))
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
