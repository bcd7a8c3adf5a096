"""Where the time went: a partial table of counts by stage and how long it took, and the report's stages."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.groups import by_dimension
from mocketmq_report.compute.lateness import Late
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.document import STAGES, Stage
from mocketmq_report.ledger.codes import Codes, joined, packed
from mocketmq_report.ledger.rows import NONE, Ints

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
    keys = {
        "scheme": rows.column("scheme"),
        "level": rows.column("level"),
        "group": rows.column("pulled_by"),
        "is_complete": pa.array(is_complete),
    }
    found = [_stage(name, span, groups, keys) for name, span in spans.items()]
    return pa.concat_tables(found)


def _stage(name: str, spans: Ints, groups: Codes, keys: Mapping[str, pa.Array]) -> pa.Table:
    has_it = spans != NONE
    if not has_it.all():
        spans = spans[has_it]
        groups = groups._replace(numbers=groups.numbers[has_it])
        keys = {key: column.filter(pa.array(has_it)) for key, column in keys.items()}
    cells = Cells(groups, bins.codes(spans, (), BITS))
    most = cells.most(spans)
    return pa.table(
        {
            **cells.keys(keys),
            "value": bins.lowest(most, BITS),
            "stage": pa.repeat(name, len(cells.count)),
            "count": cells.count,
            "sum": cells.sum(spans),
            "most": most,
        }
    ).select(SHAPE.names)


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
        rows = merge([by_dimension(table, dimension)], shape)
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in rows.sort_by("value").to_pylist():
            groups.setdefault((row["name"], row["stage"]), []).append(row)
        found += [_figures(dimension, *group, of_it) for group, of_it in groups.items()]
    return [each for each in found if each.dimension != "group" or each.stage in OF_CONSUMERS]


def _figures(dimension: str, name: str, stage: str, rows: list[dict[str, Any]]) -> Stage:
    upto = np.cumsum([row["count"] for row in rows])
    count = int(upto[-1])
    p50, p99 = (bins.place(percentile, upto) for percentile in (50, 99))
    return Stage(
        dimension=dimension,  # type: ignore[arg-type]  # one of them
        name=name,
        stage=stage,  # type: ignore[arg-type]  # one of them
        count=count,
        mean_us=sum(row["sum"] for row in rows) / count,
        p50_us=None if p50 is None else rows[p50]["most"],
        p99_us=None if p99 is None else rows[p99]["most"],
        max_us=max(row["most"] for row in rows),
        complete=sum(row["complete_count"] for row in rows),
        complete_sum_us=sum(row["complete_sum"] for row in rows),
    )
