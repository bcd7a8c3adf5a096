"""Consuming by offset. Pulls read messages from an offset on; ``committed_offsets`` handles commits.

Source: docs/protocol/remoting.md §2.3 and §2.4
"""

from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.broker.consuming.selection import MemoryReservation
from mocketmq.broker.filters.filter import EVERYTHING, Filter, SqlFilter
from mocketmq.broker.registry.clients import BROADCASTING
from mocketmq.broker.registry.registry import Registry
from mocketmq.clock import steady_us
from mocketmq.errors import QueueNotFoundError, TopicNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import is_system_group
from mocketmq.settings import Settings
from mocketmq.store.messages import NO_LIMIT, SCAN, Span, from_first, run_of_messages
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

_STORED_UNTIL = """
SELECT queue_offset FROM messages WHERE queue_key = ? AND store_us <= ? ORDER BY queue_offset DESC LIMIT 1"""
MAX_NOTED = 10_000
"""Maximum number of pulled delayed messages per group and queue that are remembered for the ledger."""


class Pulled(NamedTuple):
    """The result of a pull: messages, and the offset for the next pull."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]


class Pull:
    """Reads queues by offset.

    A pull returns up to ``max_pull_messages``, of up to ``max_pull_bytes`` in total unless the first alone is
    larger. RocketMQ has these limits for messages in memory (``isTheBatchFull``, DefaultMessageStore, 4.9.8).
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        notes: LedgerNotes,
    ) -> None:
        self.most_noted = MAX_NOTED
        self._max_messages = settings.max_pull_messages
        self._max_bytes = settings.max_pull_bytes
        self._database = store.database
        self._topics = registry.topics
        self._used_topics = registry.used_topics
        self._clients = registry.clients
        self._groups = groups
        self._polls = polls
        self._notes = notes
        self._statistics = registry.statistics
        self._clock = store.clock
        self._trail = notes.trail

    async def browse(
        self,
        topic_name: str,
        queue_id: int,
        offset: int,
        limit: int,
        tag_filter: Filter = EVERYTHING,
        max_bytes: int = NO_LIMIT,
    ) -> Pulled:
        """Read messages from ``offset`` on, without changing offsets or the ledger."""
        queue = self._topics.queue_of(topic_name, queue_id)
        return await self._read(queue, offset, limit, tag_filter, max_bytes)

    async def browse_lite_topic(
        self, topic_name: str, name: str, offset: int, limit: int, tag_filter: Filter, max_bytes: int
    ) -> Pulled:
        """Like ``browse``, of a lite topic. Raises TopicNotFoundError."""
        queue = self._topics.lites.find(self._topics.get(topic_name).name, name)
        if queue is None:
            raise TopicNotFoundError(
                f"topic {topic_name} has no lite topic {name}. The first message to it creates it"
            )
        return await self._read(queue, offset, limit, tag_filter, max_bytes)

    async def _read(
        self,
        queue: Queue,
        offset: int,
        limit: int,
        tag_filter: Filter,
        max_bytes: int,
        group: ConsumingGroup | None = None,
        load: MemoryReservation | None = None,
        until_us: int | None = None,
    ) -> Pulled:
        if load is not None and queue.min_offset <= offset < queue.next_offset:
            await load.wait_for_room()
        began_us = steady_us()
        pulled = await self._look(queue, offset, limit, tag_filter, max_bytes, until_us)
        if group is not None and queue.is_young and 0 <= offset < pulled.min_offset:
            # A reset emptied the queue. The status must not be an illegal offset, because Java's client would
            # then pause for 10 s.
            pulled = pulled._replace(status=PullStatus.NO_MATCHED_MESSAGE)
        took_us = steady_us() - began_us
        self._statistics.read(len(pulled.messages), took_us)
        if group is not None:
            self._statistics.given(queue.topic, group.name, pulled.messages, took_us)
            size = sum(len(message.body) for message in pulled.messages)
            if load is not None:
                load.settle(size)
            self._statistics.traffic_of(queue).count_received(
                queue.topic, group.name, len(pulled.messages), size, is_retry=None
            )
        return pulled

    async def _look(
        self,
        queue: Queue,
        offset: int,
        limit: int,
        tag_filter: Filter,
        max_bytes: int,
        until_us: int | None = None,
    ) -> Pulled:
        low, high = queue.min_offset, queue.next_offset
        if until_us is not None:
            high = await self.end_at(queue, until_us)
        if high == 0:
            return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, 0, low, high, [])
        if offset < low:
            return Pulled(PullStatus.OFFSET_TOO_SMALL, low, low, high, [])
        if offset == high:
            return Pulled(PullStatus.OFFSET_OVERFLOW_ONE, offset, low, high, [])
        if offset > high:
            end = high if until_us is None else offset  # a lagging slave must not send consumers back
            return Pulled(PullStatus.OFFSET_OVERFLOW_BADLY, end, low, high, [])
        span = Span(queue, offset, min(high, offset + SCAN), tag_filter.hashes)
        if isinstance(tag_filter, SqlFilter):
            span = await from_first(self._database, span, tag_filter.accepts)
        rows, next_offset = await run_of_messages(self._database, span, limit, max_bytes)
        if tag_filter is not EVERYTHING:
            rows = [row for row in rows if tag_filter.matches(row)]
        status = PullStatus.FOUND if rows else PullStatus.NO_MATCHED_MESSAGE
        return Pulled(status, next_offset, low, high, rows)

    async def end_at(self, queue: Queue, until_us: int) -> int:
        """The end of the queue without messages that were stored after the instant."""
        rows = await self._database.rows(_STORED_UNTIL, (queue.key, until_us))
        return rows[0][0] + 1 if rows else queue.min_offset

    async def admit(self, group_name: str, topic_name: str, queue_id: int) -> tuple[ConsumingGroup, Queue]:
        """Check a pull and return its group and queue. May create the group, but not the topic.

        Raises InvalidArgumentError, GroupNotFoundError, TopicNotFoundError, NoPermissionError,
        QueueNotFoundError, in RocketMQ's order.
        """
        group = await self._groups.for_consuming(group_name)
        topic = await self._used_topics.for_reading(topic_name)
        if topic.config.at:
            self._topics.check_may_read(topic, queue_id % topic.brokers)
        limit = topic.queue_limit(queue_id, is_read=True)
        if not 0 <= queue_id < limit:
            raise QueueNotFoundError(topic_name, queue_id, limit)
        return group, topic.queues[queue_id]

    async def pull(
        self,
        group_name: str,
        topic_name: str,
        queue_id: int,
        offset: int,
        limit: int,
        *,
        wait_s: float = 0.0,
        tag_filter: Filter = EVERYTHING,
        max_bytes: int | None = None,
        gets_resets: bool = False,
        load: MemoryReservation | None = None,
        until_us: int | None = None,
    ) -> Pulled:
        """Read messages for a group. At the end of the queue, wait up to ``wait_s`` real seconds for some.

        A message that does not pass the filter does not end the long poll. The ledger records the first pull
        of each delayed message. Offsets do not change. A consumer not yet notified of a reset gets the new
        offset. A reset also ends the wait, unless the consumer ``gets_resets`` by a push. ``limit``
        and ``max_bytes`` can only lower the broker's limits. With ``until_us``, the queue ends before
        messages that were stored later, and the pull does not wait. Raises the errors of ``admit``.
        """
        group, queue = await self.admit(group_name, topic_name, queue_id)
        limit = min(max(limit, 1), self._max_messages)
        max_bytes = min(max_bytes or self._max_bytes, self._max_bytes)
        resets = 0
        group_queue = group.queues.get(queue) or self._find_uncommitted(group, queue, offset)
        if group_queue is not None:
            if group_queue.gives_notice(offset):
                return _notice_of(group_queue)
            group_queue.pulled_offset, resets = offset, group_queue.resets
            group_queue.is_deserted = False
        pulled = await self._read(queue, offset, limit, tag_filter, max_bytes, group, load, until_us)
        if until_us is None and wait_s > 0 and _is_at_end(pulled, offset):
            known_resets = None if gets_resets else resets
            pulled = await self._wait(
                group, queue, offset, limit, tag_filter, max_bytes, wait_s, known_resets, load
            )
        is_beyond = pulled.status is PullStatus.OFFSET_OVERFLOW_BADLY and pulled.min_offset == 0
        if is_beyond and until_us is None:
            # The client has an offset that the broker no longer has, for example because the store is new.
            group_queue = group.queues.get(queue)
            pulled = pulled._replace(next_offset=group_queue.committed_offset if group_queue else 0)
        await self._note_pulled(group, queue, pulled.messages)
        return pulled

    def _find_uncommitted(self, group: ConsumingGroup, queue: Queue, offset: int) -> GroupQueue | None:
        """The group's position in a queue before its first commit; None for tools and for broadcasts."""
        if is_system_group(group.name) or not 0 <= offset <= queue.next_offset:
            return None
        live = self._clients.find_connected_group(group.name)
        return group.in_uncommitted(queue, offset) if live and live.model != BROADCASTING else None

    async def _wait(
        self,
        group: ConsumingGroup,
        queue: Queue,
        offset: int,
        limit: int,
        tag_filter: Filter,
        max_bytes: int,
        wait_s: float,
        known_resets: int | None,
        load: MemoryReservation | None,
    ) -> Pulled:
        """Wait for messages. The consumer was notified of ``known_resets`` resets; None ignores resets."""
        start = offset

        async def look() -> Pulled:
            nonlocal start
            while True:
                self._topics.get(queue.topic)  # raises if the topic was deleted during the wait
                group_queue = group.queues.get(queue)
                if (
                    group_queue is not None
                    and known_resets not in (None, group_queue.resets)
                    and group_queue.start_offset != start
                ):
                    return _notice_of(group_queue)
                pulled = await self._read(queue, start, limit, tag_filter, max_bytes, group, load)
                if pulled.status is not PullStatus.NO_MATCHED_MESSAGE:
                    return pulled
                start = pulled.next_offset

        def is_enough(pulled: Pulled) -> bool:
            return not _is_at_end(pulled, start)

        pulled = await self._polls.wait_for(look, (queue,), wait_s, is_enough=is_enough)
        if start == offset or is_enough(pulled):
            return pulled
        return pulled._replace(status=PullStatus.NO_MATCHED_MESSAGE)

    async def _note_pulled(
        self, group: ConsumingGroup, queue: Queue, messages: Sequence[StoredMessage]
    ) -> None:
        if messages:
            offsets = [message.queue_offset for message in messages]
            self._trail.pulled(self._clock.now_us(), group.name, queue, offsets)
        delayed = [message for message in messages if message.parked_offset is not None]
        if not delayed:
            return
        await self._notes.pulled([message.log_offset for message in delayed], group.name)
        noted = group.pulled.setdefault(queue, {})
        for message in delayed:
            noted[message.queue_offset] = message.log_offset
        while len(noted) > self.most_noted:
            del noted[next(iter(noted))]


def _notice_of(group_queue: GroupQueue) -> Pulled:
    queue = group_queue.queue
    return Pulled(PullStatus.OFFSET_RESET, group_queue.start_offset, queue.min_offset, queue.next_offset, [])


def _is_at_end(pulled: Pulled, offset: int) -> bool:
    """Whether the pull is at the end of the queue. In an empty queue RocketMQ corrects other offsets to 0."""
    if pulled.status is PullStatus.NO_MESSAGE_IN_QUEUE:
        return offset == 0
    return pulled.status is PullStatus.OFFSET_OVERFLOW_ONE
