"""Due curves: when pending messages will be due. There is one per level, and one for absolute due times.

A level queue is in order of due time. Evenly spaced offsets therefore give the curve of all its pending
messages with a few look-ups, however many messages there are.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from mocketmq.clock import US_PER_S
from mocketmq.schedule.level import Level
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.database import Database

POINTS: Final = 40
"""Maximum number of points of a curve."""

Curve = list[tuple[int, int]]
"""Instants, each with the number of messages due by then, from the first due time to the last."""

_DUE = (
    "WITH wanted (key, place) AS (VALUES {}) SELECT queue_key, queue_offset, due_us"
    " FROM wanted CROSS JOIN messages WHERE queue_key = key AND queue_offset = place ORDER BY 1, 2"
)


class DueCurves:
    """Makes the curves, and makes them again when the pending messages have changed."""

    def __init__(self, database: Database, levels: LevelQueues, schemes: SchemeSet) -> None:
        self._database = database
        self._levels = levels
        self._schemes = schemes
        self._seen: dict[int, tuple[int, int, int]] = {}
        self._curves: dict[int, Curve] = {}

    async def of_levels(self) -> dict[int, Curve]:
        """The curves of all levels with pending messages, by level. Raises a StoreError."""
        places: list[tuple[int, int]] = []
        changed: dict[int, Level] = {}
        for level in self._levels.levels:
            state = (level.next_offset, level.queue.next_offset, len(level.settled))
            if self._seen.get(level.number) == state:
                continue
            self._seen[level.number] = state
            self._curves.pop(level.number, None)
            if level.pending:
                changed[level.queue.key] = level
                places += [(level.queue.key, offset) for offset in _spaced(*state[:2])]
        found: dict[int, list[tuple[int, int]]] = {}
        for first in range(0, len(places), 400):
            some = places[first : first + 400]
            sql = _DUE.format(",".join(["(?, ?)"] * len(some)))
            for queue_key, offset, due_us in await self._database.rows(
                sql, [number for place in some for number in place]
            ):
                found.setdefault(queue_key, []).append((offset, due_us))
        for queue_key, points in found.items():
            level = changed[queue_key]
            begin, settled = points[0][0], sorted(level.settled)
            self._curves[level.number] = [
                (due_us, offset - begin + 1 - bisect_right(settled, offset))
                for offset, due_us in points
                if due_us is not None
            ]
        return self._curves

    def of_timed(self) -> Curve:
        """The curve of messages with an absolute due time, or of the first ones, in whole seconds."""
        seconds = sorted(self._schemes.due_seconds().items())
        step = max(-(-len(seconds) // POINTS), 1)
        curve: Curve = []
        total = 0
        for index, (second, count) in enumerate(seconds):
            total += count
            if index % step == 0 or index == len(seconds) - 1:
                curve.append((second * US_PER_S, total))
        return curve

    def forget(self) -> None:
        """Discard the curves after the last reader has left."""
        self._seen.clear()
        self._curves.clear()


def _spaced(begin: int, end: int) -> Iterable[int]:
    """Up to :data:`POINTS` offsets from ``begin`` to ``end - 1``, both included."""
    count = end - begin
    if count <= POINTS:
        return range(begin, end)
    return [begin + index * (count - 1) // (POINTS - 1) for index in range(POINTS)]
