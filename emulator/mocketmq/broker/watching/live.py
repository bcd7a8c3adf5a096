"""What the broker is doing now, for those who watch: its clock, what waits, what arrives, how late it is.

One look serves all who watch, at most every :data:`TURN_S`, and only after something was stored. Nobody is
kept waiting for: a reader who is slow misses records, and is told how many. While nobody watches, there is no
look at all.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.watching.due_curves import Curve, DueCurves
from mocketmq.broker.watching.recent_lateness import TIMED, RecentLateness, Spread
from mocketmq.broker.watching.stored_records import RecordSummary, StoredRecords
from mocketmq.clock import US_PER_S, steady_us, wall_us
from mocketmq.errors import StoreError
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

TURN_S: Final = 0.4
"""Real seconds between two looks."""
QUIET_S: Final = 10.0
"""Real seconds until the next look when nothing is stored."""
MAX_RECORDS: Final = 50
"""Records that a look tells of, and a reader who comes back is told of."""
SELDOM_US: Final = 60 * US_PER_S
"""Real time after which is looked again even at what takes long to look at."""
_MAX_OUTSIDE: Final = 2_000
"""Finding the newest messages outside of the store means going through all that wait there."""
_RATE_S: Final = 5


class LiveLevel(NamedTuple):
    """A delay level; without ``level``, all messages with an absolute due time.

    ``delivered`` counts the last minute, ``curve`` is when those that wait are due. What a fault holds waits
    too, and is overdue.
    """

    level: int | None
    delay_us: int | None
    pending: int
    next_due_us: int | None
    oldest_overdue_us: int | None
    delivered: int
    curve: Curve


class NextDue(NamedTuple):
    """What is due next: in which lanes, and the first message if it is in a level."""

    instant_us: int
    levels: Sequence[int]  # 0 for absolute due times
    record: RecordSummary | None


class Lateness(NamedTuple):
    """The lateness of the last minutes: in all, by level (0 for absolute due times), and in time."""

    in_all: Spread
    by_level: Mapping[int, Spread]
    in_time: Sequence[tuple[int, Spread]]


class LiveState(NamedTuple):
    """All figures at one instant. ``commits`` counts the transactions so far."""

    now_us: int
    wall_us: int
    mode: str
    rate: float
    pending: int
    next_due: NextDue | None
    lanes: Sequence[LiveLevel]
    lateness: Lateness
    stored_per_s: float
    delivered_per_s: float
    commits: int


class Look:
    """One look: the state, and the ``records`` since the look before, newest first, but for ``missed``.

    It is about records from log offset ``begin`` to ``end - 1``. ``encoded`` is for the door.
    """

    def __init__(
        self, state: LiveState, begin: int, end: int, records: Sequence[RecordSummary], missed: int
    ) -> None:
        self.state = state
        self.begin = begin
        self.end = end
        self.records = records
        self.missed = missed
        self.encoded: bytes | None = None


class Live:
    """Looks while somebody watches."""

    def __init__(
        self,
        store: Store,
        levels: LevelQueues,
        held: HeldDeliveries,
        schemes: SchemeSet,
        polls: Polls,
        records: StoredRecords,
    ) -> None:
        self._clock = store.clock
        self._writer = store.writer
        self._levels = levels
        self._held = held
        self._schemes = schemes
        self._polls = polls
        self._records = records
        self._curves = DueCurves(store.database, levels, schemes)
        self._lateness = RecentLateness(store)
        self._task: asyncio.Task[None] | None = None
        self._readers = 0
        self._latest: Look | None = None
        self._looked = asyncio.Event()
        self._closed = False
        self._last_outside = -1  # the number of the newest message outside of the store
        self._kept_outside = -1
        self._counts: deque[tuple[int, int, int]] = deque()  # ticks, messages stored, messages delivered
        self._first_due: tuple[int, RecordSummary | None] = (-1, None)
        self._timed_curve: Curve = []
        self._timed_again_us = 0
        self._overdue: dict[int, tuple[int, int]] = {}
        self._overdue_again_us = 0

    @property
    def readers(self) -> int:
        """How many watch."""
        return self._readers

    async def watch(self, after: int | None = None) -> AsyncGenerator[Look, None]:
        """A look now and after each change, until the broker stops.

        The first one tells of the records from log offset ``after`` on, or of the newest ones.
        """
        self._readers += 1
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
            self._readers -= 1
            if not self._readers:
                self._end()

    async def _for(self, look: Look, read_to: int | None) -> Look:
        """The look for a reader who has read to another offset than the look before."""
        begin = max(look.end - MAX_RECORDS, 0)
        if read_to is not None and read_to <= look.end:
            begin = read_to
        records = await self._records.between(begin, look.end, MAX_RECORDS)
        outside = [one for one in look.records if one.log_offset >= look.end]
        missed = max(look.end - begin - MAX_RECORDS, 0) if read_to is not None else 0
        return Look(look.state, begin, look.end, _newest_first([*outside, *records]), missed)

    def forget(self) -> None:
        """Everything was removed: what was seen before is no more."""
        self._lateness.forget()
        self._curves.forget()

    def close(self) -> None:
        """Let all who watch go."""
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
        begin = self._writer.next_log_offset
        with self._polls.listening((ANYTHING,)) as changed:
            while True:
                changed.clear()
                with suppress(StoreError):  # the next look may succeed
                    self._latest = await self._look(begin)
                    begin = self._latest.end
                    self._looked.set()
                    self._looked = asyncio.Event()
                await asyncio.sleep(TURN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(QUIET_S - TURN_S):
                        await changed.wait()

    async def _look(self, begin: int) -> Look:
        end = self._writer.next_log_offset
        records = await self._records.between(begin, end, MAX_RECORDS) if begin < end else []
        outside = await self._new_outside()
        await self._lateness.follow()
        state = await self._state()
        missed = max(end - begin - MAX_RECORDS, 0)
        return Look(state, begin, end, _newest_first([*outside, *records]), missed)

    async def _new_outside(self) -> list[RecordSummary]:
        kept = self._writer.kept_outside
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
        lanes = [
            LiveLevel(
                state.level,
                state.delay_us,
                state.pending,
                state.next_due_us,
                state.oldest_overdue_us,
                delivered.get(state.level, 0),
                curves.get(state.level, []),
            )
            for state in self._levels.states()
        ]
        timed = self._schemes.timed_figures()
        lanes.append(
            LiveLevel(
                None,
                None,
                timed.pending,
                timed.next_due_us,
                timed.oldest_overdue_us,
                delivered.get(TIMED, 0),
                self._curve_of_timed(),
            )
        )
        overdue = await self._held_back()
        lanes = [_with_overdue(lane, *overdue.get(lane.level or TIMED, (0, 0))) for lane in lanes]
        stored_per_s, delivered_per_s = self._rates()
        return LiveState(
            self._clock.now_us(),
            wall_us(),
            self._clock.mode,
            self._clock.rate,
            self._schemes.pending,
            await self._next_due(lanes),
            lanes,
            Lateness(self._lateness.in_all(), self._lateness.by_level(), self._lateness.in_time()),
            stored_per_s,
            delivered_per_s,
            self._writer.commits,
        )

    def _curve_of_timed(self) -> Curve:
        """Made anew each minute, or so seldom that it takes a hundredth of the time."""
        began_us = steady_us()
        if began_us >= self._timed_again_us:
            self._timed_curve = self._curves.of_timed()
            now_us = steady_us()
            self._timed_again_us = now_us + min(100 * (now_us - began_us), SELDOM_US)
        return self._timed_curve

    async def _held_back(self) -> dict[int, tuple[int, int]]:
        """What faults hold, by level. Read as seldom as that curve, as all of it is gone through."""
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
        stored = self._writer.next_log_offset + self._writer.kept_outside
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


def _with_overdue(lane: LiveLevel, count: int, oldest_us: int) -> LiveLevel:
    """The lane with messages beside those that wait for their due time: theirs is over."""
    if not count:
        return lane
    return lane._replace(
        pending=lane.pending + count,
        oldest_overdue_us=min(lane.oldest_overdue_us or oldest_us, oldest_us),
        curve=[(oldest_us, count), *((due_us, count + total) for due_us, total in lane.curve)],
    )
