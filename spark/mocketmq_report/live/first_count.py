"""Counts deliveries as ``delivery_stream.windows`` does, without Spark, while Spark starts."""

from pathlib import Path
from typing import Final

import numpy as np
from pyspark.sql import Row

from mocketmq.store.database import FILE_NAME
from mocketmq_report.compute.bins import highest, lowest
from mocketmq_report.ledger.store_reader import StoreReader
from mocketmq_report.live.delivery_stream import OLDER, STEPS
from mocketmq_report.live.status import NO_LEVEL

_SINCE: Final = (
    f"SELECT coalesce(level, {NO_LEVEL}) AS level, delivered_us - due_us AS late_us, delivered_us"
    f" FROM deliveries WHERE delivered_offset > coalesce(({OLDER}), -1) AND forced = 0"
)


def first_count(data: Path, since_us: int, window_us: int) -> list[Row]:
    """Count the deliveries of a data directory since an instant, by window. Raises StoreError."""
    with StoreReader(data / FILE_NAME) as reader:
        found = reader.table(_SINCE.format(since_us))
    if not found.num_rows:
        return []
    levels, late, at = (column.to_numpy() for column in found.columns)
    step_us = window_us // STEPS
    steps = at // step_us * step_us
    rows = []
    for level in np.unique(levels):
        for from_us in np.unique(steps[levels == level][:, None] - step_us * np.arange(STEPS)):
            held = np.sort(late[(levels == level) & (steps >= from_us) & (steps < from_us + window_us)])
            rows.append(_row(int(level), int(from_us), held))
    return rows


def _row(level: int, from_us: int, late: np.ndarray) -> Row:
    """Make a window's row; ``late`` is the sorted lateness of its deliveries."""
    at = [-(-share * len(late) // 100) - 1 for share in (50, 99)]  # by nearest rank
    p50_us, p99_us = np.minimum(highest(lowest(late[at])), late[-1]).tolist()
    return Row(
        from_us=from_us,
        level=level,
        deliveries=len(late),
        early=int(np.count_nonzero(late < 0)),
        max_us=int(late[-1]),
        p50_us=p50_us,
        p99_us=p99_us,
    )
