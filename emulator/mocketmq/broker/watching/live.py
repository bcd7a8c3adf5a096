"""The broker's live state for watchers: its clock, pending messages, arrivals, and lateness.

One look at the state serves all watchers. A look is taken at most every :data:`TURN_S` after something was
stored, otherwise every :data:`QUIET_S`, and never without watchers. A slow watcher does not delay others. A
slow watcher misses records, and gets the number of missed records.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.watching.due_curves import Curve, DueCurves
from mocketmq.broker.watching.recent_lateness import TIMED, RecentLateness, Spread
from mocketmq.broker.watching.stored_records import RecordSummary, StoredRecords
from mocketmq.clock import US_PER_S, steady_us, wall_us
from mocketmq.errors import StoreError
from mocketmq.schedule.held_deliveries import HeldBy, HeldDeliveries
from mocketmq.schedule.level import LevelState
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme import PendingFigures
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

TURN_S: Final = 0.4
"""Minimum real time between two looks."""
QUIET_S: Final = 10.0
"""Real time until the next look when nothing is stored."""
MAX_RECORDS: Final = 50
"""Maximum number of records in a look, also for a reader that reconnects."""
SELDOM_US: Final = 60 * US_PER_S
"""Maximum real time between two updates of figures that take long to compute."""
_MAX_OUTSIDE: Final = 2_000
"""Number of pending messages outside of the store above which looks omit them: listing scans all."""
_RATE_S: Final = 5


class LiveLevel(NamedTuple):
    """A delay level, or if ``level`` is None, all messages with an absolute due time.

    ``delivered`` counts the last minute. ``curve`` shows when pending messages are due. Messages held by a
    fault count as pending and overdue; ``held`` has their rules.
    """

    level: int | None
    delay_us: int | None
    pending: int
    next_due_us: int | None
    oldest_overdue_us: int | None
    delivered: int
    curve: Curve
    held: Sequence[HeldBy] = ()


class NextDue(NamedTuple):
    """The next due time, the levels with messages due then, and the first message if it has a level."""

    instant_us: int
    levels: Sequence[int]  # 0 for absolute due times
    record: RecordSummary | None


class LiveLateness(NamedTuple):
    """The lateness of the last minutes: in total, by level (0 for absolute due times), and over time."""

    in_all: Spread
    by_level: Mapping[int, Spread]
    in_time: Sequence[tuple[int, Spread]]


class LiveState(NamedTuple):
    """A snapshot of all figures at one instant. ``commits`` counts transactions since the start."""

    now_us: int
    wall_us: int
    mode: str
    rate: float
    pending: int
    next_due: NextDue | None
    lanes: Sequence[LiveLevel]
    lateness: LiveLateness
    stored_per_s: float
    delivered_per_s: float
    commits: int


@dataclass(eq=False, repr=False)
class Look:
    """One look: the state, and the newest ``records`` since the previous look. ``missed`` counts the others.

    The look covers log offsets from ``begin`` to ``end - 1``. The front door caches its form in ``encoded``.
    """

    state: LiveState
    begin: int
    end: int
    records: Sequence[RecordSummary]
    missed: int
    encoded: bytes | None = field(init=False, default=None)


@dataclass(eq=False, repr=False)
class Live:
    """Takes looks while there are watchers."""

    _store: Store
    _levels: LevelQueues
    _held: HeldDeliveries
    _schemes: SchemeSet
    _polls: Polls
    _records: StoredRecords

    def __post_init__(self) -> None:
        self._curves = DueCurves(self._store.database, self._levels, self._schemes)
        self._lateness = RecentLateness(self._store)
        self._task: asyncio.Task[None] | None = None
        self.readers = 0
        self._latest: Look | None = None
        self._looked = asyncio.Event()
        self._closed = False
        self._last_outside = -1  # the number of the newest message outside of the store
        self._kept_outside = -1
        self._counts: deque[tuple[int, int, int]] = deque()  # ticks, messages stored, messages delivered
        self._first_due: tuple[int, RecordSummary | None] = (-1, None)
        self._timed_curve: Curve = []
        self._timed_again_us = 0
        self._overdue: dict[int, list[HeldBy]] = {}
        self._overdue_again_us = 0

    async def watch(self, after: int | None = None) -> AsyncGenerator[Look, None]:
        """Yield a look now and after each change, until the broker stops.

        The first look has the records from log offset ``after`` on, or the newest records.
        """
        self.readers += 1
        try:
            if self._task is None and not self._closed:
                self._task = asyncio.create_task(self._run(), name="live")
            seen = None
            read_to = after
            while not self._closed:
                looked, latest = self._looked, self._latest
                if latest is None or latest is seen:
                    await looked.wait()
                    continue
                yield latest if read_to == latest.begin and seen else await self._for(latest, read_to)
                seen, read_to = latest, latest.end
        finally:
            self.readers -= 1
            if not self.readers:
                self._end()

    async def _for(self, look: Look, read_to: int | None) -> Look:
        """The look for a reader that has read up to another offset than ``look.begin``."""
        begin = max(look.end - MAX_RECORDS, 0)
        if read_to is not None and read_to <= look.end:
            begin = read_to
        records = await self._records.between(begin, look.end, MAX_RECORDS)
        outside = [one for one in look.records if one.log_offset >= look.end]
        missed = max(look.end - begin - MAX_RECORDS, 0) if read_to is not None else 0
        return Look(look.state, begin, look.end, _newest_first([*outside, *records]), missed)

    def forget(self) -> None:
        """Discard all former figures, after all messages were removed."""
        self._lateness.forget()
        self._curves.forget()

    def begin_again(self) -> None:
        """Look from the start again, after a restore, because log offsets have gone back."""
        is_watched = self._task is not None
        self._end()
        if is_watched:
            self._task = asyncio.create_task(self._run(), name="live")

    def close(self) -> None:
        self._closed = True
        self._looked.set()
        self._end()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._latest = None
        self._last_outside = self._kept_outside = -1
        self._counts.clear()
        self.forget()

    async def _run(self) -> None:
        begin = self._store.writer.next_log_offset
        with self._polls.listening((ANYTHING,)) as changed:
            while True:
                changed.clear()
                with suppress(StoreError):  # the next read may succeed
                    self._latest = await self._look(begin)
                    begin = self._latest.end
                    self._looked.set()
                    self._looked = asyncio.Event()
                await asyncio.sleep(TURN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S - TURN_S):
                        await changed.wait()

    async def _look(self, begin: int) -> Look:
        end = self._store.writer.next_log_offset
        records = await self._records.between(begin, end, MAX_RECORDS) if begin < end else []
        outside = await self._new_outside()
        await self._lateness.follow()
        state = await self._state()
        missed = max(end - begin - MAX_RECORDS, 0)
        return Look(state, begin, end, _newest_first([*outside, *records]), missed)

    async def _new_outside(self) -> list[RecordSummary]:
        kept = self._store.writer.kept_outside
        if kept == self._kept_outside or self._schemes.timed_figures().pending > _MAX_OUTSIDE:
            return []
        self._kept_outside = kept
        found = await self._records.waiting_outside(self._last_outside, _MAX_OUTSIDE)
        if found:
            self._last_outside = max(self._last_outside, found[-1].log_offset)
        return found[: -MAX_RECORDS - 1 : -1]

    async def _state(self) -> LiveState:
        curves = await self._curves.of_levels()
        delivered = self._lateness.of_minute()
        waiting: list[tuple[LevelState | PendingFigures, int | None, Curve]] = [
            *((one, one.delay_us, curves.get(one.level, [])) for one in self._levels.states()),
            (self._schemes.timed_figures(), None, self._curve_of_timed()),
        ]
        lanes = [
            LiveLevel(
                *(one.level, delay_us, one.pending, one.next_due_us, one.oldest_overdue_us),
                *(delivered.get(one.level or TIMED, 0), curve),
            )
            for one, delay_us, curve in waiting
        ]
        overdue = await self._held_back()
        lanes = [_with_held(lane, overdue.get(lane.level or TIMED, [])) for lane in lanes]
        stored_per_s, delivered_per_s = self._rates()
        return LiveState(
            self._store.clock.now_us(),
            wall_us(),
            self._store.clock.mode,
            self._store.clock.rate,
            self._schemes.pending,
            await self._next_due(lanes),
            lanes,
            LiveLateness(self._lateness.in_all(), self._lateness.by_level(), self._lateness.in_time()),
            stored_per_s,
            delivered_per_s,
            self._store.writer.commits,
        )

    def _curve_of_timed(self) -> Curve:
        """The curve of absolute due times, reused for 100 times as long as making it took, up to a minute."""
        began_us = steady_us()
        if began_us >= self._timed_again_us:
            self._timed_curve = self._curves.of_timed()
            now_us = steady_us()
            self._timed_again_us = now_us + min(100 * (now_us - began_us), SELDOM_US)
        return self._timed_curve

    async def _held_back(self) -> dict[int, list[HeldBy]]:
        """Messages held by faults, by level. Reused like the curve, because a read scans all of them."""
        began_us = steady_us()
        if began_us >= self._overdue_again_us or not self._held.pending:
            self._overdue = await self._held.overdue()
            now_us = steady_us()
            self._overdue_again_us = now_us + min(100 * (now_us - began_us), SELDOM_US)
        return self._overdue

    async def _next_due(self, lanes: Sequence[LiveLevel]) -> NextDue | None:
        instant_us = self._schemes.next_delivery_us()
        if instant_us is None:
            return None
        first_us = min((lane.next_due_us for lane in lanes if lane.next_due_us is not None), default=None)
        levels = [lane.level or TIMED for lane in lanes if lane.next_due_us == first_us]
        record = None
        if levels and levels[0] != TIMED and (ahead := self._levels.levels[levels[0] - 1].ahead):
            offset = ahead[0].log_offset
            if self._first_due[0] != offset:
                self._first_due = offset, next(iter(await self._records.between(offset, offset + 1, 1)), None)
            record = self._first_due[1]
        return NextDue(instant_us, levels if first_us is not None else [], record)

    def _rates(self) -> tuple[float, float]:
        now_us = steady_us()
        stored = self._store.writer.next_log_offset + self._store.writer.kept_outside
        self._counts.append((now_us, stored, self._schemes.delivered))
        while len(self._counts) > 2 and self._counts[1][0] <= now_us - _RATE_S * US_PER_S:
            self._counts.popleft()
        then_us, stored_then, delivered_then = self._counts[0]
        elapsed_us = max(now_us - then_us, US_PER_S)
        return (
            (stored - stored_then) * US_PER_S / elapsed_us,
            (self._schemes.delivered - delivered_then) * US_PER_S / elapsed_us,
        )


def _newest_first(records: list[RecordSummary]) -> list[RecordSummary]:
    return sorted(records, key=lambda one: one.store_us, reverse=True)


def _with_held(lane: LiveLevel, held: Sequence[HeldBy]) -> LiveLevel:
    """Add held messages, whose due time is over, to the figures of their level."""
    if not held:
        return lane
    count, oldest_us = sum(one.messages for one in held), min(one.oldest_us for one in held)
    return lane._replace(
        pending=lane.pending + count,
        oldest_overdue_us=min(lane.oldest_overdue_us or oldest_us, oldest_us),
        curve=[(oldest_us, count), *((due_us, count + total) for due_us, total in lane.curve)],
        held=held,
    )
