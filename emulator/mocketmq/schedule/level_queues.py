"""The level queues: the delay scheme of the delay levels, without sorting and without a timer per message.

A delayed message is parked in queue ``level - 1`` of ``SCHEDULE_TOPIC_XXXX``. All messages of a level
wait equally long, so the queue is in order of due time by itself, and one number per level, the delay
offset, says how far it has been delivered. Delivery is strictly first in, first out, as upstream: after
the level table was changed, a message waits for those parked before it, each with the due time it was
given when it was parked.

In memory there is, per level, a short read-ahead of what is due next, without bodies: delivery copies
a message inside SQLite. So memory does not grow with the number of pending messages.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial

from mocketmq.errors import NotPendingError, StoreError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.delivery import Delivery, DueMessage
from mocketmq.schedule.level import Level, LevelState, Parked
from mocketmq.schedule.level_table import LevelTable
from mocketmq.schedule.profile import Profile
from mocketmq.schedule.scheme import Figures
from mocketmq.schedule.scheme_host import SchemeHost
from mocketmq.schedule.timer import Fired
from mocketmq.store.messages import IS_RETRY_OF
from mocketmq.store.queue import Queue
from mocketmq.store.writer import MAX_BATCH_BYTES, Batch

READ_AHEAD = 512
BATCH = 256
"""Messages per delivering transaction: enough to keep the disk busy, few enough not to hold up a send."""

_SAVE_OFFSET = (
    "INSERT INTO delay_offsets VALUES (?, ?)"
    " ON CONFLICT (level) DO UPDATE SET next_offset = excluded.next_offset"
)
_INTERVENE = "INSERT INTO interventions VALUES (?, ?, ?)"
_READ_AHEAD = """
SELECT queue_offset, commit_offset, store_us, due_us, real_queue_key, length(body) FROM messages m
WHERE queue_key = ? AND queue_offset >= ? AND queue_offset < ?
AND NOT EXISTS (SELECT 1 FROM interventions i WHERE i.parked_offset = m.commit_offset)
ORDER BY queue_offset LIMIT ?"""
_PENDING_OF = f"""
SELECT m.queue_key, m.queue_offset, m.commit_offset FROM messages m JOIN queues q ON q.key = m.real_queue_key
WHERE m.due_us IS NOT NULL AND (q.topic = ? OR {IS_RETRY_OF})"""


class LevelQueues:
    """All levels, as a :class:`DelayScheme`. Fired by the timer, under whose lock it changes."""

    name = "levels"

    def __init__(self, host: SchemeHost, levels: list[Level], table: LevelTable, profile: Profile) -> None:
        self.levels = levels
        self._by_queue = {level.queue.key: level for level in levels}
        self.table = table
        self.profile = profile
        self._delivery = Delivery(self.name, host.ledger)
        self._clock = host.ground.clock
        self._database = host.ground.database
        self._writer = host.ground.writer
        self._queue_of = host.topics.queue
        self._changed = host.changed
        self._others_due_us = partial(host.others_due_us, self.name)
        self._saves_at_us = 0  # while there is something to save: when

    @property
    def delivered(self) -> int:
        """How many messages became visible by themselves since the start."""
        return self._delivery.delivered

    @property
    def early(self) -> int:
        """How many of these did before their due time: a defect."""
        return self._delivery.early

    def park(self, batch: Batch, draft: Draft, level: int, real_queue: Queue) -> StoredMessage:
        """Append the message to its level queue, due at its store time plus the level's delay."""
        target = self.levels[level - 1]
        due_us = batch.now_us + target.delay_us
        stored = batch.append(target.queue, draft, due_us=due_us, real_queue_key=real_queue.key)
        batch.on_commit(partial(self._parked, target, stored))
        return stored

    def _parked(self, level: Level, stored: StoredMessage) -> None:
        if level.read_to != stored.queue_offset or len(level.ahead) >= READ_AHEAD:
            return
        level.read_to += 1
        level.ahead.append(_parked_of(stored))
        if len(level.ahead) == 1:
            self._changed()

    # What is due

    def next_due_us(self) -> int | None:
        """When there is something to do next: a delivery, or saving the offset table."""
        if any(not level.ahead and not level.is_read for level in self.levels):
            return 0  # not known before it is read
        delivery_us = self.next_delivery_us()
        if not self._is_dirty:
            return delivery_us
        return self._saves_at_us if delivery_us is None else min(delivery_us, self._saves_at_us)

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible, by the profile's timing."""
        now_us = self._clock.now_us()
        return min(
            (
                self.profile.fires_at(level.ahead[0].due_us, level.delay_us, now_us)
                for level in self.levels
                if level.ahead
            ),
            default=None,
        )

    async def fire(self, until_us: int) -> Fired:
        """Deliver one batch of what fires by ``until_us``, in order of due time and then of arrival."""
        await self.read_ahead()
        pass_point("delivery.picked")
        # During a move of the clock, the store time jumps to the due time. In a transaction of its own, it
        # passes no message that was sent before: by then all of these are committed, and known here.
        picked_us = self._clock.now_us()
        picks, until_us = await self._writer.commit(
            partial(self._deliver, until_us, picked_us), alone=until_us > picked_us
        )
        pass_point("delivery.delivered")
        if picks:
            until_us = picks[-1][0]
        if self._is_dirty and self._saves_at_us <= until_us:
            await self.save()
        with suppress(StoreError):  # the delivery is committed; the next call reads again
            await self.read_ahead()
        return Fired(len(picks), until_us if picks else picked_us)

    async def read_ahead(self) -> None:
        """Read the next due messages of each level whose read-ahead is empty."""
        for level in self.levels:
            if level.ahead or level.is_read:
                continue
            end = level.queue.next_offset
            rows = await self._database.rows(_READ_AHEAD, (level.queue.key, level.read_to, end, READ_AHEAD))
            level.ahead.extend(map(Parked._make, rows))
            level.read_to = rows[-1][0] + 1 if len(rows) == READ_AHEAD else end

    def _pick(self, until_us: int, now_us: int) -> list[tuple[int, Level, Parked]]:
        """Merge the heads of all levels by (instant, commit offset), as far as the read-ahead reaches."""
        picks: list[tuple[int, Level, Parked]] = []
        heads: list[tuple[int, int, int, int]] = []

        def push(level: Level, index: int, not_before_us: int) -> None:
            entry = level.ahead[index]
            fires_us = max(not_before_us, self.profile.fires_at(entry.due_us, level.delay_us, now_us))
            if fires_us <= until_us:
                heapq.heappush(heads, (fires_us, entry.commit_offset, level.number, index))

        for level in self.levels:
            if level.ahead:
                push(level, 0, 0)
        size = 0
        while heads and len(picks) < BATCH and size < MAX_BATCH_BYTES:
            fires_us, _, number, index = heapq.heappop(heads)
            level = self.levels[number - 1]
            picks.append((fires_us, level, level.ahead[index]))
            size += level.ahead[index].size
            if index + 1 < len(level.ahead):
                push(level, index + 1, fires_us)
            elif not level.is_read:
                break
        return picks

    def _deliver(
        self, until_us: int, picked_us: int, batch: Batch
    ) -> tuple[list[tuple[int, Level, Parked]], int]:
        if (others_us := self._others_due_us()) is not None:
            until_us = min(until_us, others_us)
        picks = self._pick(until_us, picked_us)
        passed: dict[Level, int] = {}
        for fires_us, level, entry in picks:
            message = self._due(level, entry)
            self._delivery.deliver(batch, message, entry.size, fires_us=fires_us, picked_us=picked_us)
            passed[level] = entry.queue_offset + 1
        if not self.profile.save_interval_us:
            for level, offset in passed.items():
                batch.execute(_SAVE_OFFSET, (level.number, offset))
        if picks:
            batch.on_commit(partial(self._delivered, passed, picks[0][0]))
        return picks, until_us

    def _due(self, level: Level, entry: Parked) -> DueMessage:
        queue = self._queue_of(entry.real_queue_key)
        return DueMessage(queue, entry.commit_offset, level.number, entry.store_us, entry.due_us)

    def _delivered(self, passed: dict[Level, int], first_us: int) -> None:
        if not self._is_dirty:
            self._saves_at_us = self.profile.saves_at(first_us)
        for level, offset in passed.items():
            level.passed(offset)
            if not self.profile.save_interval_us:
                level.saved_offset = offset

    # The saved offset table

    @property
    def _is_dirty(self) -> bool:
        return self.profile.save_interval_us > 0 and any(
            lv.saved_offset != lv.next_offset for lv in self.levels
        )

    async def save(self) -> None:
        """Save the offset table, where the profile does not do it with each delivery."""
        offsets = {level: level.next_offset for level in self.levels}

        def work(batch: Batch) -> None:
            for level, offset in offsets.items():
                batch.execute(_SAVE_OFFSET, (level.number, offset))

        await self._writer.commit(work)
        pass_point("offsets.saved")
        for level, offset in offsets.items():
            level.saved_offset = offset

    async def close(self) -> None:
        """Save what is not saved yet: a clean stop repeats nothing."""
        if self._is_dirty:
            await self.save()

    # What waits

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return sum(level.pending for level in self.levels)

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages with a commit offset above ``after``, oldest first."""
        ranges: list[str] = []
        parameters: list[object] = []
        for one in self.levels:
            if one.pending and level in (None, one.number):
                ranges.append("(m.queue_key = ? AND m.queue_offset >= ?)")
                parameters += [one.queue.key, one.next_offset]
        if not ranges:
            return []
        of_topic = ""
        if topic is not None:
            of_topic = "AND m.real_queue_key IN (SELECT key FROM queues WHERE topic = ?)"
            parameters.append(topic)
        rows = await self._database.rows(
            "SELECT m.* FROM messages m LEFT JOIN interventions i ON i.parked_offset = m.commit_offset"
            f" WHERE ({' OR '.join(ranges)}) {of_topic} AND m.commit_offset > ? AND i.parked_offset IS NULL"
            " ORDER BY m.commit_offset LIMIT ?",
            [*parameters, after, limit],
        )
        return [StoredMessage._make(row) for row in rows]

    def states(self) -> list[LevelState]:
        """The level table, and the levels that are no longer in it but still hold messages."""
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

    def figures(self) -> Sequence[Figures]:
        """What waits, one row per level."""
        return [
            Figures(self.name, state.level, state.pending, state.next_due_us, state.oldest_overdue_us)
            for state in self.states()
        ]

    def holds(self, parked: StoredMessage) -> bool:
        """Whether the message still waits in its level."""
        return self._level_holding(parked.queue_key, parked.queue_offset) is not None

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """The level queues; what a kill would deliver again must stay as well: the saved offset counts."""
        return ((level.queue, min(level.next_offset, level.saved_offset)) for level in self.levels)

    # By hand

    def _level_holding(self, queue_key: int, queue_offset: int) -> Level | None:
        """The level in which the message still waits; None when it does not."""
        level = self._by_queue.get(queue_key)
        if level is None or queue_offset < level.next_offset or queue_offset in level.settled:
            return None
        return level

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage]) -> int:
        """Take pending messages out of their level queues: they are never delivered. How many."""
        return self._cancel(batch, ((m.queue_key, m.queue_offset, m.commit_offset) for m in messages))

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Look up what waits for the topic, also to be retried; the work that cancels all of it."""
        rows = await self._database.rows(_PENDING_OF, (topic, topic))
        return lambda batch: self._cancel(batch, rows)

    def _cancel(self, batch: Batch, parked: Iterable[tuple[int, int, int]]) -> int:
        """Each is a queue key, a queue offset and a commit offset."""
        settled: dict[Level, list[int]] = {}
        for queue_key, queue_offset, commit_offset in parked:
            level = self._level_holding(queue_key, queue_offset)
            if level is not None:
                batch.execute(_INTERVENE, (commit_offset, "cancelled", batch.now_us))
                settled.setdefault(level, []).append(queue_offset)
        for level, queue_offsets in settled.items():
            batch.on_commit(partial(self._settle, level, queue_offsets))
        return sum(map(len, settled.values()))

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        """Deliver the pending message now instead of when it is due."""
        level = self._level_holding(parked.queue_key, parked.queue_offset)
        assert level is not None  # noqa: S101 - see DelayScheme
        entry = _parked_of(parked)
        self._delivery.force(batch, self._due(level, entry), entry.size)
        batch.execute(_INTERVENE, (parked.commit_offset, "forced", batch.now_us))
        batch.on_commit(partial(self._settle, level, [parked.queue_offset]))

    def _settle(self, level: Level, queue_offsets: Sequence[int]) -> None:
        level.settled.update(queue_offsets)
        level.ahead = deque(entry for entry in level.ahead if entry.queue_offset not in level.settled)
        self._changed()

    def clear(self, batch: Batch) -> None:
        """Forget all waiting messages once this batch is committed: every level queue is being emptied."""
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
        stored.commit_offset,
        stored.store_us,
        stored.due_us,
        stored.real_queue_key,
        len(stored.body),
    )
