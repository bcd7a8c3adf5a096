"""Spans of time, and how much of other spans they cover."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mocketmq_report.ledger.rows import Ints


class Spans(NamedTuple):
    """Spans of time in order, without overlaps. ``before_us`` is the total length of all earlier spans."""

    begin_us: Ints
    end_us: Ints
    before_us: Ints

    @classmethod
    def of(cls, stretches: Sequence[tuple[int, int]]) -> "Spans":
        """Remove overlaps from ``stretches``, which must be in order, and at least one."""
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
