"""Finds offsets by time, and resets groups to offsets.

docs/protocol/remoting.md §2.4, §2.6 and §2.10
"""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Literal

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.registry.clients import OffsetReset
from mocketmq.broker.registry.registry import Registry
from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.errors import OutsideQueueError, TopicNotFoundError
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

Side = Literal["nearest", "lower", "upper"]

Find = Callable[[Queue], Awaitable[int]]
"""Finds the offset in a queue to which a group is reset."""

_STORED = (
    "SELECT queue_offset, store_us FROM messages WHERE queue_key = ? AND queue_offset >= ?"
    " ORDER BY queue_offset LIMIT 1"
)


async def at_start(queue: Queue) -> int:
    """Find the offset of the oldest message."""
    return queue.min_offset


async def at_end(queue: Queue) -> int:
    """Find the end of the queue, so that the group gets only new messages."""
    return queue.next_offset


def at_offset(offset: int) -> Find:
    """Make a function that finds this offset in every queue."""

    async def find(_queue: Queue) -> int:
        return offset

    return find


class Offsets:
    """Finds offsets by the store times of messages.

    Clients give times in milliseconds of the wall clock. The broker shifts these by the current
    difference between the emulated clock and the wall clock.
    """

    def __init__(
        self, store: Store, registry: Registry, groups: ConsumingGroups, committed: CommittedOffsets
    ) -> None:
        self._database = store.database
        self._clock = store.clock
        self._topics = registry.topics
        self._groups = groups
        self._committed = committed
        self._clients = registry.clients

    async def search(self, topic: str, queue_id: int, timestamp_ms: int, side: Side) -> int:
        """Find an offset by the store time of messages; 0 in an empty queue.

        ``lower`` finds the first message stored at that time or later, or the end of the queue. ``upper``
        finds the last message stored at that time or earlier, or the first message. ``nearest`` finds the
        closest message, or the older of two that are equally close.
        """
        queue = self._topics.find_queue(topic, queue_id)
        return 0 if queue is None else await self._search(queue, timestamp_ms, side)

    async def _search(self, queue: Queue, timestamp_ms: int, side: Side) -> int:
        wall_us = min(max(timestamp_ms, 0) * US_PER_MS, LATEST_US)
        at_ms = self._clock.from_wall(wall_us) // US_PER_MS
        later = await self._first_since(queue, at_ms + (side == "upper"))
        before = later - 1
        if side == "lower" or before < queue.min_offset:
            return later
        if side == "upper" or later == queue.next_offset:
            return before
        later_ms, before_ms = await self._stored_ms(queue, later), await self._stored_ms(queue, before)
        return later if later_ms - at_ms < at_ms - before_ms else before

    async def first_at(self, queue: Queue, timestamp_ms: int) -> int:
        """Find the first message of the queue stored at this time of the client's clock or later."""
        return await self._search(queue, timestamp_ms, "lower")

    async def _first_since(self, queue: Queue, at_ms: int) -> int:
        """Find the first message stored at the instant or later, by bisection."""
        low, high = queue.min_offset, queue.next_offset
        while low < high:
            middle = (low + high) // 2
            if await self._stored_ms(queue, middle) < at_ms:
                low = middle + 1
            else:
                high = middle
        return low

    async def _stored_ms(self, queue: Queue, offset: int) -> int:
        """The store time of the first message at or above the offset; the largest value at the end."""
        rows = await self._database.rows(_STORED, (queue.key, offset))
        return rows[0][1] // US_PER_MS if rows else LATEST_US

    async def earliest_ms(self, topic: str, queue_id: int) -> int:
        """The store time of the queue's oldest message, in emulated milliseconds; -1 for an empty queue."""
        queue = self._topics.find_queue(topic, queue_id)
        rows = await self._database.rows(_STORED, (queue.key, queue.min_offset)) if queue else ()
        return rows[0][1] // US_PER_MS if rows else -1

    def by_time(self, timestamp_ms: int, side: Side) -> Find:
        """Make a function that searches a queue like :meth:`search`."""
        return partial(self._search, timestamp_ms=timestamp_ms, side=side)

    def since(self, instant_ms: int) -> Find:
        """Make a function that finds the first message stored at this emulated instant or later."""
        return partial(self._first_since, at_ms=instant_ms)

    async def reset(
        self,
        group: str,
        topic: str,
        find: Find,
        *,
        timestamp_ms: int,
        is_forced: bool = True,
        queue_id: int | None = None,
        is_wanted: Callable[[Queue], bool] | None = None,
    ) -> OffsetReset:
        """Reset the group in the topic, or in some of its queues, to the offsets that ``find`` returns.

        Without ``is_forced`` no offset moves forward, as in 4.x. The group's clients are notified of the
        offsets and of ``timestamp_ms`` after the offsets are stored. Raises TopicNotFoundError,
        QueueNotFoundError, OutsideQueueError, and the errors of :meth:`Groups.for_use`.
        """
        found = self._topics.find_topic(topic)
        if found is None:
            raise TopicNotFoundError(
                f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
            )
        owner = await self._groups.for_use(group)
        targets = {}
        queues = found.queues if queue_id is None else [self._topics.queue_of(topic, queue_id)]
        for queue in queues if is_wanted is None else filter(is_wanted, queues):
            target = await find(queue)
            if not queue.min_offset <= target <= queue.next_offset:
                raise OutsideQueueError(target, queue.min_offset, queue.next_offset)
            targets[queue] = target
        before = {queue: owner.in_queue(queue).committed_offset for queue in targets}
        moves = {queue: target for queue, target in targets.items() if is_forced or target < before[queue]}
        await self._committed.reset(owner, moves)
        offsets = {queue.queue_id: offset for queue, offset in (before | moves).items()}
        moved = OffsetReset(group, topic, timestamp_ms, is_forced, offsets)
        self._clients.push_offsets(moved)
        return moved

    async def clone(self, source: str, target: str, topic: str | None, among: Collection[str] | None) -> None:
        """Set a group's offsets to the offsets of another group, in one topic or in all of ``among``.

        Raises GroupNotFoundError, and the errors of :meth:`Groups.for_use`.
        """
        for group_queue in list(self._groups.get(source).queues.values()):
            name = group_queue.queue.topic
            if topic in (None, name) and (among is None or name in among):
                await self._committed.commit(
                    target, name, group_queue.queue.queue_id, group_queue.committed_offset
                )
