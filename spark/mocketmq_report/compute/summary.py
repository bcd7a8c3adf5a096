"""The summary of a ledger, or of a part of it: one partial table of each kind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from mocketmq_report.compute import causes, herds, lateness, order, outcomes, stages, timeline
from mocketmq_report.compute.partial import Shape, merge, plain

SHAPES: Final = {
    "outcomes": outcomes.SHAPE,
    "lateness": lateness.SHAPE,
    "timeline": timeline.SHAPE,
    "stages": stages.SHAPE,
    "herds": herds.SHAPE,
    "late": causes.LATE,
    "waits": causes.WAITS,
    "busy": causes.BUSY,
    "disorder": order.SHAPE,
    "faults": Shape(("reason",)),
    "odd": Shape(("name",)),
    "minutes": lateness.MINUTES,
}


class Summary(NamedTuple):
    """Tables of the ``SHAPES``."""

    outcomes: pa.Table
    lateness: pa.Table
    timeline: pa.Table
    stages: pa.Table
    herds: pa.Table
    late: pa.Table
    waits: pa.Table
    busy: pa.Table
    disorder: pa.Table
    faults: pa.Table  # number of rows by the reason for dropping them; null counts the kept rows
    odd: pa.Table  # counts of oddities in kept rows
    minutes: pa.Table  # lateness by minute for a rollup; otherwise empty


def merged(summaries: Sequence[Summary]) -> Summary:
    """Merge the summaries of several parts."""
    if len(summaries) == 1:
        return summaries[0]
    tables = {name: [getattr(each, name) for each in summaries] for name in SHAPES}
    return Summary(**{name: merge(found, SHAPES[name]) for name, found in tables.items()})


def without_codes(summary: Summary) -> Summary:
    """Decode the texts of a summary."""
    return Summary(**{name: plain(table, SHAPES[name]) for name, table in summary._asdict().items()})
