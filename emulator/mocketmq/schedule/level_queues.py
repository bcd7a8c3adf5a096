"""The level queues: the delay scheme for delay levels, which sets due times, parks and delivers.

A delayed message is parked in queue ``level - 1`` of ``SCHEDULE_TOPIC_XXXX``. All messages of a level have
the same delay, so they become due in order of arrival: nothing is sorted, and no message has a timer of its
own. One number per level, the delay offset, says how far the queue has been delivered. Delivery is strictly
first in, first out, as in RocketMQ. After a change of the level table, a parked message keeps its due time
and blocks later messages, even if they are due earlier.

Memory holds only a short read-ahead per level, so memory use does not grow with the number of pending
messages. The read-ahead has no bodies, because SQLite copies the message on delivery.

The timer asks for the next due time, then enters ``firing``, which fills the read-aheads and yields their
entries merged by due time, in runs of equal due times. The delay offset is saved in the delivering
transaction. Under profile ``rocketmq4`` it is saved only every 10 s, so that a kill repeats deliveries as
RocketMQ does.
"""

import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from mocketmq.clock import LATEST_US
from mocketmq.errors import NotPendingError, StoreError
from mocketmq.event_loop import pieces_of
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, RecordKind, StoredMessage
from mocketmq.schedule.delivery import Delivery, skip_undeliverable
from mocketmq.schedule.ledger import DueMessage
from mocketmq.schedule.level import Level, LevelState, Parked
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.profile import Profile
from mocketmq.schedule.scheme import ALL_PENDING, EndOfWait, PendingFigures, PendingFilter, SchemeContext
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.messages import FEW_BYTES, IS_RETRY_OF, MAX_SPANS, NO_LIMIT, first_messages
from mocketmq.store.queue import Queue

READ_AHEAD = 512
RUN: Final = 64
"""Maximum number of messages in a run. A transaction may exceed the timer's limit by one run."""

_SAVE_OFFSET = (
    "INSERT INTO delay_offsets VALUES (?, ?)"
    " ON CONFLICT (level) DO UPDATE SET next_offset = excluded.next_offset"
)
_INTERVENE = "INSERT INTO interventions VALUES (?, ?, ?)"
# Returns a single row of JSON, because SQLite's thread waits for the GIL once per row.
_READ_AHEAD = """
SELECT json_group_array(json_array(queue_offset, log_offset, store_us, due_us, real_queue_key, size))
FROM (
 SELECT queue_offset, log_offset, store_us, due_us, real_queue_key, length(body) AS size FROM messages m
 WHERE queue_key = ? AND queue_offset >= ? AND queue_offset < ?
 AND NOT EXISTS (SELECT 1 FROM interventions i WHERE i.parked_offset = m.log_offset)
 ORDER BY queue_offset LIMIT ?
)"""
# In a level queue the log offsets rise, too, and the index has them. So SQLite passes over messages up to
# ``after`` without reading their rows, and sorts none.
PENDING_IN: Final = """
SELECT * FROM (
 SELECT log_offset, length(body) FROM messages
 WHERE queue_key = ? AND queue_offset >= ? AND +log_offset > ? {}
 AND NOT EXISTS (SELECT 1 FROM interventions WHERE parked_offset = log_offset)
 ORDER BY queue_offset LIMIT ?
)"""
_OF_REAL_TOPIC: Final = "AND real_queue_key IN (SELECT key FROM queues WHERE topic = ?)"
_PENDING_OF = f"""
SELECT m.queue_key, m.queue_offset, m.log_offset FROM messages m JOIN queues q ON q.key = m.real_queue_key
WHERE m.due_us IS NOT NULL AND (q.topic = ? OR {IS_RETRY_OF})"""
_NO_HEAD: Final = (LATEST_US + 1,)
"""Sorts after every (instant, log offset)."""

_decode_parked = msgspec.json.Decoder(list[Parked]).decode


class LevelQueues:
    """The :class:`DelayScheme` of all levels. Messages leave it only under the timer's lock."""

    name = "levels"

    def __init__(
        self, context: SchemeContext, levels: list[Level], table: LevelTable, profile: Profile
    ) -> None:
        self.levels = levels
        self._by_queue = {level.queue.key: level for level in levels}
        self.table = table
        self.profile = profile
        self._delivery = Delivery(self.name, context.ledger, context.on_delivered, context.catch)
        self._clock = context.store.clock
        self._database = context.store.database
        self._writer = context.store.writer
        self._queue_of = context.topics.queue
        self._changed = context.changed
        self._saves_at_us = 0  # instant of the next save, valid while offsets are unsaved

    @property
    def delivered(self) -> int:
        return self._delivery.delivered

    @property
    def early(self) -> int:
        return self._delivery.early

    def park(
        self, batch: Batch, draft: Draft, level: int, real_queue: Queue, kind: RecordKind = "parked"
    ) -> StoredMessage:
        """Append the message to its level queue. Its due time is its store time plus the level's delay."""
        target = self.levels[level - 1]
        due_us = (batch.now_us if draft.stored_us is None else draft.stored_us) + target.delay_us
        stored = batch.append(target.queue, draft, kind, due_us=due_us, real_queue_key=real_queue.key)
        batch.on_commit(partial(self._parked, target, stored))
        return stored

    def _parked(self, level: Level, stored: StoredMessage) -> None:
        if level.read_to != stored.queue_offset or len(level.ahead) >= READ_AHEAD:
            if level.largest_unread is not None:
                level.largest_unread = max(level.largest_unread, len(stored.body))
            return
        level.read_to += 1
        level.ahead.append(_parked_of(stored))
        if len(level.ahead) == 1:
            self._changed()

    # Due entries

    def next_due_us(self) -> int | None:
        """The instant of the next delivery or of the next save of the offset table."""
        if any(not level.ahead and not level.is_read for level in self.levels):
            return 0  # unknown until the read-ahead is filled
        delivery_us = self.next_delivery_us()
        if not self._is_dirty:
            return delivery_us
        return self._saves_at_us if delivery_us is None else min(delivery_us, self._saves_at_us)

    def next_delivery_us(self) -> int | None:
        """The instant of the next delivery, by the profile's timing."""
        now_us = self._clock.now_us()
        return min(
            (
                self.profile.fires_at(level.ahead[0].due_us, level.delay_us, now_us)
                for level in self.levels
                if level.ahead
            ),
            default=None,
        )

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        picked_us = self._clock.now_us()
        await self.read_ahead()
        pass_point("delivery.picked")
        yield partial(self._due_now, until_us, picked_us)
        with suppress(StoreError):  # the deliveries are committed, and the next call reads again
            await self.read_ahead()

    async def read_ahead(self) -> None:
        """Fill the empty read-aheads."""
        for level in self.levels:
            if level.ahead or level.is_read:
                continue
            end = level.queue.next_offset
            where = level.queue.key, level.read_to, end, READ_AHEAD
            largest = level.largest_unread
            are_small = largest is not None and READ_AHEAD * largest <= FEW_BYTES
            are_few = are_small and len(level.settled) <= READ_AHEAD  # SQLite looks at the settled ones, too
            [(text,)] = await self._database.rows(_READ_AHEAD, where, are_few=are_few)
            parked = _decode_parked(text)
            level.ahead.extend(parked)
            level.read_to = parked[-1].queue_offset + 1 if len(parked) == READ_AHEAD else end
            if level.read_to == level.queue.next_offset:
                level.largest_unread = 0

    def _due_now(self, until_us: int, picked_us: int) -> Iterator[Due]:
        passed: dict[Level, list[int]] = {}
        deliveries = (
            Due(fires_us, partial(self._deliver, passed, picked_us, fires_us, level, run), len(run))
            if run
            else Due(fires_us, None)
            for fires_us, level, run in self._runs(until_us, picked_us)
        )
        if not self._is_dirty:
            return deliveries
        saves = [Due(self._saves_at_us, partial(self._save, passed))]
        return heapq.merge(deliveries, saves, key=attrgetter("instant_us"))

    def _runs(self, until_us: int, now_us: int) -> Iterator[tuple[int, Level, list[Parked]]]:
        """Yield the messages of all levels by (instant, log offset), in runs of one level and instant.

        A level that has more messages than its read-ahead ends with an empty run.
        """
        heads: list[tuple[int, int, int, int]] = []

        def push(level: Level, index: int, not_before_us: int) -> None:
            entry = level.ahead[index]
            fires_us = max(not_before_us, self.profile.fires_at(entry.due_us, level.delay_us, now_us))
            if fires_us <= until_us:
                heapq.heappush(heads, (fires_us, entry.log_offset, level.number, index))

        for level in self.levels:
            if level.ahead:
                push(level, 0, 0)
        while heads:
            fires_us, _, number, index = heapq.heappop(heads)
            level = self.levels[number - 1]
            others = heads[0] if heads else _NO_HEAD
            run: list[Parked] = []
            size = 0
            due_us = level.ahead[index].due_us
            for entry in islice(level.ahead, index, index + RUN):
                if entry.due_us != due_us or size > FEW_BYTES or (fires_us, entry.log_offset) > others:
                    break
                run.append(entry)
                size += entry.size
            yield fires_us, level, run
            if index + len(run) < len(level.ahead):
                push(level, index + len(run), fires_us)
            elif not level.is_read:
                yield fires_us, level, []

    def _deliver(
        self,
        passed: dict[Level, list[int]],
        picked_us: int,
        fires_us: int,
        level: Level,
        run: Sequence[Parked],
        batch: Batch,
    ) -> None:
        messages: list[tuple[DueMessage, int]] = []
        for entry in run:
            try:
                messages.append((self._due(level, entry), entry.size))
            except KeyError:  # in a store that was damaged
                skip_undeliverable(batch, entry.log_offset, entry.real_queue_key)
                batch.execute(_INTERVENE, (entry.log_offset, "cancelled", batch.now_us))
        self._delivery.deliver_parked(batch, level.number, messages, fires_us=fires_us, picked_us=picked_us)
        if not passed:
            batch.on_commit(partial(self._delivered, passed, fires_us))
        row = passed.get(level)
        if row is None:
            row = passed[level] = [level.number, 0]
            if not self.profile.save_interval_us:
                batch.execute(_SAVE_OFFSET, row)
        row[1] = run[-1].queue_offset + 1  # the batch refers to this same list, and writes its final value

    def _due(self, level: Level, entry: Parked) -> DueMessage:
        queue = self._queue_of(entry.real_queue_key)
        return DueMessage(queue, entry.log_offset, level.number, entry.store_us, entry.due_us)

    def _delivered(self, passed: dict[Level, list[int]], first_us: int) -> None:
        pass_point("delivery.delivered")
        if not self._is_dirty:
            self._saves_at_us = self.profile.saves_at(first_us)
        for level, (_, offset) in passed.items():
            level.passed(offset)
            if not self.profile.save_interval_us:
                level.saved_offset = offset

    # The saved offset table

    @property
    def _is_dirty(self) -> bool:
        return self.profile.save_interval_us > 0 and any(
            lv.saved_offset != lv.next_offset for lv in self.levels
        )

    def _save(self, passed: Mapping[Level, Sequence[int]], batch: Batch) -> None:
        """Save the offset table, under a profile that does not save it with each delivery."""
        offsets = {level: passed[level][1] if level in passed else level.next_offset for level in self.levels}
        for level, offset in offsets.items():
            batch.execute(_SAVE_OFFSET, (level.number, offset))
        batch.on_commit(partial(self._saved, offsets))

    def _saved(self, offsets: Mapping[Level, int]) -> None:
        pass_point("offsets.saved")
        for level, offset in offsets.items():
            level.saved_offset = offset

    async def close(self) -> None:
        """Save the offset table, so that a clean stop repeats no delivery."""
        if self._is_dirty:
            await self._writer.commit(partial(self._save, {}))

    # Pending messages

    @property
    def pending(self) -> int:
        return sum(level.pending for level in self.levels)

    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Pending messages with a log offset above ``after``, oldest first."""
        of_topic, topic = ("", ()) if which.topic is None else (_OF_REAL_TOPIC, (which.topic,))
        places = [
            (one.queue.key, one.first_pending)
            for one in self.levels
            if one.pending and which.level in (None, one.number) and not which.timed
        ]
        rows: list[tuple[int, int]] = []
        for first in range(0, len(places), MAX_SPANS):
            some = places[first : first + MAX_SPANS]
            selects = " UNION ALL ".join([PENDING_IN.format(of_topic)] * len(some))
            values = [value for place in some for value in (*place, after, *topic, limit)]
            rows += await self._database.rows(f"{selects} ORDER BY log_offset LIMIT ?", [*values, limit])
        rows.sort()
        return await first_messages(self._database, rows[:limit], max_bytes)

    def states(self) -> list[LevelState]:
        """The states of all levels in the table, and of removed levels that still hold messages."""
        now_us = self._clock.now_us()
        states = []
        for level in self.levels:
            if level.number > self.table.highest and not level.pending:
                continue
            due_us = level.ahead[0].due_us if level.ahead else None
            overdue_us = due_us if due_us is not None and due_us < now_us else None
            states.append(
                LevelState(
                    level.number,
                    level.delay_us,
                    level.pending,
                    level.next_offset,
                    level.queue.next_offset,
                    due_us,
                    overdue_us,
                )
            )
        return states

    def figures(self) -> Sequence[PendingFigures]:
        return [
            PendingFigures(self.name, state.level, state.pending, state.next_due_us, state.oldest_overdue_us)
            for state in self.states()
        ]

    def holds(self, parked: StoredMessage) -> bool:
        return self._level_holding(parked.queue_key, parked.queue_offset) is not None

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """The level queues from their saved offsets on, because a kill repeats deliveries from there."""
        return ((level.queue, min(level.next_offset, level.saved_offset)) for level in self.levels)

    # Cancel and force

    def _level_holding(self, queue_key: int, queue_offset: int) -> Level | None:
        """The level in which the message is pending, if any."""
        level = self._by_queue.get(queue_key)
        if level is None or queue_offset < level.next_offset or queue_offset in level.settled:
            return None
        return level

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage], why: EndOfWait = "cancelled") -> int:
        return self._cancel(batch, ((m.queue_key, m.queue_offset, m.log_offset) for m in messages), why)

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Cancel messages and retries in transactions of bounded size, and return the last one's work."""
        cancelled = 0
        last: Sequence[tuple[int, int, int]] = ()
        for some in pieces_of(await self._database.rows(_PENDING_OF, (topic, topic))):
            cancelled += await self._writer.commit(partial(self._cancel, parked=last), until="visible")
            last = some
        return lambda batch: cancelled + self._cancel(batch, last)

    def _cancel(
        self, batch: Batch, parked: Iterable[tuple[int, int, int]], why: EndOfWait = "cancelled"
    ) -> int:
        """Cancel the messages, each given as a queue key, queue offset and log offset."""
        settled: dict[Level, list[int]] = {}
        for queue_key, queue_offset, log_offset in parked:
            level = self._level_holding(queue_key, queue_offset)
            if level is not None:
                batch.execute(_INTERVENE, (log_offset, why, batch.now_us))
                settled.setdefault(level, []).append(queue_offset)
        for level, queue_offsets in settled.items():
            batch.on_commit(partial(self._settle, level, queue_offsets))
        return sum(map(len, settled.values()))

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        level = self._level_holding(parked.queue_key, parked.queue_offset)
        assert level is not None  # noqa: S101 - see DelayScheme
        entry = _parked_of(parked)
        self._delivery.force(batch, self._due(level, entry), entry.size)
        batch.execute(_INTERVENE, (parked.log_offset, "forced", batch.now_us))
        batch.on_commit(partial(self._settle, level, [parked.queue_offset]))

    def _settle(self, level: Level, queue_offsets: Sequence[int]) -> None:
        level.settled.update(queue_offsets)
        ahead = level.ahead
        while ahead and ahead[0].queue_offset in level.settled:
            ahead.popleft()
        if ahead and max(queue_offsets) > ahead[0].queue_offset:
            level.ahead = deque(entry for entry in ahead if entry.queue_offset not in level.settled)
        self._changed()

    @property
    def delay_offsets(self) -> Sequence[tuple[int, int]]:
        """Each level with its delay offset, even if the profile has not saved it yet."""
        return [(level.number, level.next_offset) for level in self.levels]

    async def reload(self, levels: list[Level]) -> None:
        """Take over the levels of a restored store."""
        self.levels = levels
        self._by_queue = {level.queue.key: level for level in levels}
        await self.read_ahead()

    def clear(self, batch: Batch) -> None:
        """Forget all pending messages when this batch, which empties every level queue, is committed."""
        for level in self.levels:
            batch.execute(_SAVE_OFFSET, (level.number, level.queue.next_offset))

        def forget() -> None:
            for level in self.levels:
                level.passed(level.queue.next_offset)
                level.settled.clear()
                level.saved_offset = level.next_offset

        batch.on_commit(forget)


def _parked_of(stored: StoredMessage) -> Parked:
    if stored.due_us is None or stored.real_queue_key is None:
        raise NotPendingError(f"message {stored.unique_key} is not a delayed message")
    return Parked(
        stored.queue_offset,
        stored.log_offset,
        stored.store_us,
        stored.due_us,
        stored.real_queue_key,
        len(stored.body),
    )
