"""Spans of time, their overlap with other spans, and the spans that clock moves have skipped."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mocketmq_report.ledger.rows import Ints, Rows


class Spans(NamedTuple):
    """Time spans in order, without overlaps. ``before_us`` is the total length of all earlier spans."""

    begin_us: Ints
    end_us: Ints
    before_us: Ints

    @classmethod
    def of(cls, stretches: Sequence[tuple[int, int]]) -> "Spans":
        """Remove overlaps from ``stretches``, which must be in order and not empty."""
        begin_us, end_us = np.array(stretches, np.int64).T
        end_us = np.maximum.accumulate(end_us)
        begin_us = np.append(begin_us[:1], np.maximum(begin_us[1:], end_us[:-1]))
        return cls(begin_us, end_us, np.cumsum(end_us - begin_us) - (end_us - begin_us))

    def covered_us(self, begin_us: Ints, end_us: Ints) -> Ints:
        """Return how much time from ``begin_us`` to ``end_us`` of each row the spans cover."""
        return self._up_to(end_us) - self._up_to(begin_us)

    def _up_to(self, at_us: Ints) -> Ints:
        place = np.searchsorted(self.begin_us, at_us, "right") - 1
        at = np.maximum(place, 0)
        inside_us = np.minimum(at_us, self.end_us[at]) - self.begin_us[at]
        found: Ints = np.where(place < 0, 0, self.before_us[at] + inside_us)
        return found


class SkippedTime(NamedTuple):
    """The clock moves of each store, during which no consumer could work.

    A move delivers each message at the message's own due time, but takes no real time. So the clock may be
    hours ahead when a consumer sees the message. Skipped time counts as neither waiting nor work of a
    consumer. The clock of a store's run continues the clock of the run before.
    """

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
        """Return the time that moves skipped between ``begin_us`` and ``end_us`` of each row."""
        found = np.zeros(len(rows), np.int64)
        for store, spans in self.moves.items():
            is_in = rows.is_any("run", [run for run, of_run in self.stores.items() if of_run == store])
            found[is_in] = spans.covered_us(begin_us[is_in], end_us[is_in])
        return found
