"""Retention: removes old messages in the background, in bounded steps between which sends continue.

Pending messages and open half messages are never removed. Age is measured in real time, so that a test that
moves the clock by forty days does not lose its messages.
"""

import asyncio
from functools import partial
from typing import Any

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.registry.registry import Registry
from mocketmq.clock import rate_of, wall_us
from mocketmq.message.names import CHECKED_HALF_GROUP, HALF_GROUP
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.batch import Batch
from mocketmq.store.chore import Chore
from mocketmq.store.counters import SAVE_NEXT_LOG_OFFSET
from mocketmq.store.message_keys import UNINDEX, keys_of
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import delete_receipts
from mocketmq.store.store import Store

STEP = 1_000
"""Maximum number of messages removed per transaction."""

_LAST_MARK = """
SELECT wall_us, at_us, clock FROM (
 SELECT started_wall_us AS wall_us, started_us AS at_us, clock FROM runs
 UNION ALL SELECT wall_us, to_us, clock FROM clock_moves JOIN runs USING (run)
) WHERE wall_us <= ? ORDER BY wall_us DESC, at_us DESC LIMIT 1"""
_STORED_FROM = "SELECT log_offset, store_us FROM messages WHERE log_offset >= ? ORDER BY log_offset LIMIT 1"
_OLDEST = "SELECT log_offset, queue_key, queue_offset, unique_key, properties FROM messages"
_EMPTIED_TO = (
    "UPDATE queues SET min_offset = max(min_offset, ?), next_offset = max(next_offset, ?) WHERE key = ?"
)
_REMOVE = (
    "DELETE FROM messages WHERE log_offset = ?",
    "DELETE FROM deliveries WHERE delivered_offset = ?",
    "DELETE FROM interventions WHERE parked_offset = ?",
)


class Retention(Chore):
    """Removes messages older than ``age_us`` or beyond ``max_bytes``, every minute; 0 means no limit."""

    name = "retention"
    interval_s = 60.0

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        schemes: SchemeSet,
        *,
        age_us: int,
        max_bytes: int,
    ) -> None:
        super().__init__()
        self._database = store.database
        self._writer = store.writer
        self._topics = registry.topics
        self._groups = groups
        self._schemes = schemes
        self.removing = asyncio.Lock()  # held while it removes messages
        self._age_us = age_us
        self._max_bytes = max_bytes

    async def turn(self) -> int:
        """Remove messages beyond the limits. Returns the number of removed messages."""
        removed = 0
        if self._age_us:
            end = await self._first_since(await self._instant_at(wall_us() - self._age_us))
            while (step := await self._remove_oldest(end)) and not self.is_closing:
                removed += step
        while self._max_bytes and not self.is_closing:
            size = await self._database.used_bytes()
            end = self._writer.next_log_offset if size > self._max_bytes else 0
            step = await self._remove_oldest(end)
            if not step:
                break
            removed += step
        return removed

    async def _instant_at(self, instant_wall_us: int) -> int:
        """The emulated instant at a wall-clock time; 0 before the first run."""
        for mark_wall_us, at_us, mode in await self._database.rows(_LAST_MARK, (instant_wall_us,)):
            return int(at_us + rate_of(mode) * (instant_wall_us - mark_wall_us))
        return 0

    async def _first_since(self, instant_us: int) -> int:
        """Find the first log offset of messages stored at the instant or later, by bisection."""
        low, high = 0, self._writer.next_log_offset
        while low < high:
            middle = (low + high) // 2
            found = await self._database.rows(_STORED_FROM, (middle,))
            if found and found[0][1] < instant_us:
                low = found[0][0] + 1
            else:
                high = middle
        return low

    async def _remove_oldest(self, end: int) -> int:
        """Remove up to ``STEP`` of the oldest messages with a log offset below ``end``."""
        async with self.removing:
            return await self._remove_some(end)

    async def _remove_some(self, end: int) -> int:
        conditions, parameters = ["log_offset < ?"], [end]
        for queue, offset in self._schemes.retained():
            conditions.append("NOT (queue_key = ? AND queue_offset >= ?)")
            parameters += [queue.key, offset]
        for halves in filter(None, map(self._groups.find_group, (HALF_GROUP, CHECKED_HALF_GROUP))):
            for group_queue in halves.queues.values():
                conditions.append("NOT (queue_key = ? AND queue_offset >= ?)")
                parameters += [group_queue.queue.key, group_queue.committed_offset]
        rows = await self._database.rows(
            f"{_OLDEST} WHERE {' AND '.join(conditions)} ORDER BY log_offset LIMIT {STEP}", parameters
        )
        if rows:
            await self._writer.commit(partial(self._remove, rows), alone=True)
        return len(rows)

    def _remove(self, rows: list[Any], batch: Batch) -> None:
        ends: dict[Queue, int] = {}
        group_names = [group.name for group in self._groups]
        for log_offset, queue_key, queue_offset, unique_key, properties in rows:
            queue = self._topics.find_by_key(queue_key)
            # A reset or a wiped disk may have emptied the queue meanwhile. A damaged store may lack it.
            if queue is not None and log_offset >= queue.emptied_at:
                ends[queue] = min(queue_offset + 1, queue.next_offset)
            for statement in _REMOVE:
                batch.execute(statement, (log_offset,))
            delete_receipts(batch, log_offset, group_names)
            for key in keys_of(unique_key, properties):
                batch.execute(UNINDEX, (key, log_offset))
        for queue, end in ends.items():
            batch.execute(_EMPTIED_TO, (end, queue.next_offset, queue.key))
        batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
        batch.on_commit(partial(self._removed, ends, [row[0] for row in rows]))

    def _removed(self, ends: dict[Queue, int], log_offsets: list[int]) -> None:
        for queue, end in ends.items():
            queue.min_offset = max(queue.min_offset, end)
        self._groups.close_receipts(log_offsets)
