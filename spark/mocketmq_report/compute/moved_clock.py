"""Subtracts the time that clock moves skipped, in which no consumer could work.

A move delivers each message at the message's own due time, but takes no real time. So the clock may read
hours later when a consumer sees the message. Skipped time counts as neither waiting nor work of a consumer.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mocketmq_report.compute.spans import Spans
from mocketmq_report.ledger.rows import Ints, Rows


class SkippedTime(NamedTuple):
    """The clock moves of each store. The runs of a store continue each other's clock."""

    moves: dict[str, Spans]
    stores: Mapping[str, str]  # the store of each run

    @classmethod
    def of(cls, moves: pa.Table, stores: Mapping[str, str]) -> "SkippedTime":
        """Take the moves of a ledger."""
        by_store: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for move in moves.to_pylist():
            if move["run"] in stores:
                by_store[stores[move["run"]]].append((move["from_us"], move["to_us"]))
        return cls({store: Spans.of(sorted(found)) for store, found in by_store.items()}, stores)

    def us(self, rows: Rows, begin_us: Ints, end_us: Ints) -> Ints:
        """Return the time that was skipped from ``begin_us`` to ``end_us`` of each row."""
        found = np.zeros(len(rows), np.int64)
        for store, spans in self.moves.items():
            is_in = rows.is_any("run", [run for run, of_run in self.stores.items() if of_run == store])
            found[is_in] = spans.covered_us(begin_us[is_in], end_us[is_in])
        return found
