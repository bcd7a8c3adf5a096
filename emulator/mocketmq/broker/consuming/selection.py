"""Choosing what a receiver is given: what is visible again goes before what its group has not met yet.

In order, a queue is given out batch by batch. While one of its messages is taken and not settled, nothing
more of the queue is chosen. When their time has run out, those that are left are chosen again, oldest first
and alone; what is new comes when the last of them is settled. Who pops is given what is new behind them, as
upstream. One that the receiver's filter does not want holds up those behind it. In a retry queue, which the
topics of a group share, each topic counts for itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.groups import ConsumingGroup
from mocketmq.broker.consuming.take import State, Take
from mocketmq.broker.filters.filter import EVERYTHING, Filter, SqlFilter
from mocketmq.broker.registry.topics import Topic, Topics
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import HALF_PREFIX, RETRY_PREFIX, retry_topic
from mocketmq.message.properties import RETRY_TOPIC, decode_properties
from mocketmq.store.database import Database
from mocketmq.store.messages import NO_LIMIT, SCAN, Span, from_first, messages_at, messages_in
from mocketmq.store.queues import Queue


class Wish(NamedTuple):
    """What a receiver asks for: up to ``limit`` messages of the topic that pass the filter.

    Of one ``queue`` alone, unless that is None, and of the group's retries, unless ``retries`` is off. Their
    bodies have no more than ``max_bytes``, unless the first alone has. ``popped``: takes get a ``pop_ms``.
    """

    group: ConsumingGroup
    topic: Topic
    limit: int
    tag_filter: Filter = EVERYTHING
    ordered: bool = False
    queue: Queue | None = None
    retries: bool = True
    max_bytes: int = NO_LIMIT
    popped: bool = False


class Choice:
    """What one receiver is given. Nobody else is given it before it is stored as taken, or reopened.

    ``left`` are retries of other topics that were met on the way: opened, and free for their own receivers.
    """

    def __init__(self, database: Database, topics: Topics, wish: Wish) -> None:
        self.chosen: list[tuple[StoredMessage, Take]] = []
        self.left: list[Take] = []
        self._database = database
        self._topics = topics
        self._wish = wish
        self._bytes = 0
        self._is_full = False

    async def make(self) -> None:
        """Choose. Raises a StoreError; what was chosen until then is to be reopened."""
        async with self._wish.group.lock:
            await self._choose_again(self.again())
            queues = self.queues()
            while not self._is_full and await self._choose_fresh(queues):
                pass

    def again(self) -> list[Take]:
        """What was taken before and is visible again, oldest first."""
        wish, group = self._wish, self._wish.group
        again = [take for take in group.available.values() if self._is_wanted(take)]
        if wish.ordered:
            held = {
                group_queue
                for group_queue in {take.group_queue for take in again}
                if self._is_held(group_queue)
            }
            again = [take for take in again if take.group_queue not in held]
        return sorted(again, key=lambda take: take.commit_offset)

    def queues(self) -> list[Queue]:
        """From where messages may be given out that the group has not met yet."""
        wish, group = self._wish, self._wish.group
        retry = self._topics.find(retry_topic(group.name)) if wish.retries else None
        queues = [
            *(wish.topic.readable if wish.queue is None else [wish.queue]),
            *(retry.readable if retry and retry is not wish.topic else ()),
        ]
        if wish.ordered:
            met = group.queues
            queues = [queue for queue in queues if queue not in met or not self._left_open(met[queue])]
        return queues

    def keep_open(self) -> None:
        """Let go of what was reset or committed past since it was chosen."""
        self.chosen = [one for one in self.chosen if one[1].state is not State.CLOSED]

    def _is_of_topic(self, take: Take) -> bool:
        return self._wish.topic.name in (take.topic, take.queue.topic)

    def _is_wanted(self, take: Take) -> bool:
        wish, queue = self._wish, take.queue
        if queue.topic == wish.topic.name:
            # Upstream's retries are in none of the topic's queues, so they come whichever is popped.
            return (wish.popped and wish.retries) or wish.queue in (None, queue)
        return wish.retries and take.topic == wish.topic.name

    def _open(self, group_queue: GroupQueue) -> list[Take]:
        return [take for take in group_queue.open.values() if self._is_of_topic(take)]

    def _left_open(self, group_queue: GroupQueue) -> bool:
        """Whether something new would come before what the group was given already."""
        given = {take for _, take in self.chosen} if self._wish.popped else set()
        return not given.issuperset(self._open(group_queue))

    def _is_held(self, group_queue: GroupQueue) -> bool:
        return not all(take.state is State.FREE for take in self._open(group_queue))

    async def _choose_again(self, takes: Sequence[Take]) -> None:
        """Add those that were taken before and are visible again."""
        wish = self._wish
        barred: set[GroupQueue] = set()  # in order: where one is not wanted
        for first in range(0, len(takes), wish.limit):
            some = takes[first : first + wish.limit]
            messages = await messages_at(self._database, [take.commit_offset for take in some])
            for take in some:
                message = messages.get(take.commit_offset)
                if message is None:
                    take.close()  # retention removed it
                elif take.state is not State.FREE or take.group_queue in barred:
                    continue
                elif wish.tag_filter.matches(message):
                    if self._has_room(message):
                        self._add(message, take)
                    if self._is_full:
                        return
                elif wish.ordered:
                    barred.add(take.group_queue)

    async def _choose_fresh(self, queues: Sequence[Queue]) -> bool:
        """Add messages that the group has not met yet; False when there are no more to look through."""
        group, topic, limit, tag_filter = self._wish[:4]
        spans = {}
        for queue in queues:
            start = max(group.in_queue(queue).next_offset, queue.min_offset)
            if start < queue.next_offset:
                hashes = tag_filter.hashes if queue.topic == topic.name else ()
                span = Span(queue, start, min(queue.next_offset, start + SCAN), hashes)
                if isinstance(tag_filter, SqlFilter) and queue.topic == topic.name:
                    span = await from_first(self._database, span, tag_filter.accepts)
                    group.in_queue(queue).next_offset = span.start
                spans[queue.key] = span
        rows = await messages_in(self._database, spans.values(), limit)
        found = dict.fromkeys(spans, 0)
        seen = dict.fromkeys(spans, 0)
        for row in rows:
            found[row.queue_key] += 1
        for row in rows:
            if self._is_full or not self._has_room(row):
                break
            group_queue = group.in_queue(spans[row.queue_key].queue)
            seen[row.queue_key] += 1
            group_queue.next_offset = row.queue_offset + 1
            take = Take(
                group_queue,
                row.queue_offset,
                row.commit_offset,
                known_topic(group_queue.queue, row.properties),
                row.reconsume_times,
                is_delayed=row.parked_offset is not None,
            )
            is_retry = group_queue.queue.topic != topic.name
            if is_retry and take.topic != topic.name:
                take.move(State.FREE)
                self.left.append(take)
            elif is_retry or tag_filter.matches(row):
                self._add(row, take)
        is_more = False
        for key, span in spans.items():
            if seen[key] == found[key] < limit:
                group.in_queue(span.queue).next_offset = span.end
            is_more = is_more or group.in_queue(span.queue).next_offset < span.queue.next_offset
        return is_more

    def _has_room(self, message: StoredMessage) -> bool:
        self._is_full = bool(self.chosen) and self._bytes + len(message.body) > self._wish.max_bytes
        return not self._is_full

    def _add(self, message: StoredMessage, take: Take) -> None:
        take.move(State.RESERVED)
        self.chosen.append((message, take))
        self._bytes += len(message.body)
        self._is_full = len(self.chosen) == self._wish.limit


def known_topic(queue: Queue, properties: str) -> str:
    """The topic by which a consumer knows a message of the queue: a retry bears its original topic."""
    if queue.topic.startswith(RETRY_PREFIX):
        return decode_properties(properties).get(RETRY_TOPIC, queue.topic)
    return queue.topic.removeprefix(HALF_PREFIX)
