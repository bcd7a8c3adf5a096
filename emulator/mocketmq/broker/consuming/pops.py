"""Consuming by pop: messages are taken as by receipt, and named by their target and the time (sheet 2.11).

What is not acknowledged in time becomes visible to its group again where it is. Upstream appends it to a
retry topic of its own, which is the same to clients. They see to dead letters themselves.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from mocketmq.broker.consuming.groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pull import MAX_PULLED_BYTES
from mocketmq.broker.consuming.receipts import Receipts, Taken
from mocketmq.broker.consuming.selection import Choice, Wish, known_topic
from mocketmq.broker.consuming.take import State, Take
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topics import Topic
from mocketmq.errors import QueueNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import retry_topic
from mocketmq.store.ground import Ground
from mocketmq.store.messages import Span, messages_at, messages_in
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Batch

ALL_QUEUES = -1
MAX_POPPED = 32
"""Messages in one answer, as upstream."""


class PopTarget(NamedTuple):
    """From where a group pops: a topic, and one queue of it or None for all."""

    group: ConsumingGroup
    topic: Topic
    queue: Queue | None

    @property
    def queues(self) -> Sequence[Queue]:
        """The queues, without those of retries."""
        return self.topic.readable if self.queue is None else [self.queue]

    @property
    def key(self) -> tuple[str, str, int]:
        """By which those who wait are counted."""
        return self.group.name, self.topic.name, ALL_QUEUES if self.queue is None else self.queue.queue_id


class Popped(NamedTuple):
    """Messages that were popped, queue by queue, and how many more there are, wanted or not."""

    messages: Sequence[Taken]
    rest: int


class Pops:
    """Pops for clients, and looks for them without popping."""

    def __init__(
        self, ground: Ground, registry: Registry, groups: ConsumingGroups, polls: Polls, receipts: Receipts
    ) -> None:
        self._database = ground.database
        self._writer = ground.writer
        self._topics = registry.topics
        self._groups = groups
        self._polls = polls
        self._clients = registry.clients
        self._receipts = receipts
        self._waiting: Counter[tuple[str, str, int]] = Counter()

    async def admit(self, group_name: str, topic_name: str, queue_id: int) -> PopTarget:
        """The target from which a client wants to pop; less than 0: all queues. The group is made if need be.

        Raises TopicNotFoundError, NoPermissionError, QueueNotFoundError, InvalidArgumentError,
        GroupNotFoundError, in upstream's order.
        """
        topic = await self._topics.for_reading(topic_name)
        if queue_id >= topic.read_queues:
            raise QueueNotFoundError(topic_name, queue_id, topic.read_queues)
        group = await self._groups.for_consuming(group_name)
        return PopTarget(group, topic, None if queue_id < 0 else topic.queues[queue_id])

    async def pop(
        self,
        target: PopTarget,
        limit: int,
        invisible_us: int,
        *,
        wait_s: float = 0.0,
        tag_filter: Filter = EVERYTHING,
        ordered: bool = False,
        attempt: str = "",
        from_end: bool = False,
    ) -> Popped:
        """Take up to ``limit`` messages, and wait up to ``wait_s`` real seconds for the first.

        ``ordered`` as in :meth:`Receipts.receive`, and without retries; but an ``attempt`` that was answered
        before is given the same messages once more. ``from_end``: a group that never consumed a queue from
        which something was removed begins at its last message, not its first.
        """
        wish = self._wish(target, ordered=ordered)._replace(limit=limit, tag_filter=tag_filter)
        choice = Choice(self._database, self._topics, wish)
        if from_end:
            await self._begin_at_end(target)
        if ordered and attempt:
            await self._begin_again(target, attempt)
        self._waiting[target.key] += 1
        try:
            taken = await self._receipts.take(wish, invisible_us, wait_s)
        finally:
            self._waiting[target.key] -= 1
            if not self._waiting[target.key]:
                del self._waiting[target.key]
        given = {self._topics.queue(one.message.queue_key) for one in taken}
        rest = self._count(choice, target, [*choice.queues(), *given])
        if ordered:
            for known in map(target.group.in_queue, given):
                known.attempt = attempt
                rest += sum(take.state is State.FREE for take in known.open.values())
        taken.sort(key=lambda one: (one.message.queue_key, one.message.queue_offset))
        return Popped(taken, rest)

    def _wish(self, target: PopTarget, *, ordered: bool) -> Wish:
        """Retries are for those of the group who do not pull them: Java clients do, also while they pop."""
        group, topic, queue = target
        live = self._clients.find(group.name)
        is_pulled = live is not None and retry_topic(group.name) in live.subscriptions
        retries = not (ordered or is_pulled)
        return Wish(
            group, topic, MAX_POPPED, EVERYTHING, ordered, queue, retries, MAX_PULLED_BYTES, popped=True
        )

    async def _begin_at_end(self, target: PopTarget) -> None:
        """Durable, or what arrives before the group takes something would be passed over after a kill."""
        group = target.group
        anew = [queue for queue in target.queues if queue not in group.queues and not queue.is_young]

        def work(batch: Batch) -> None:
            for queue in anew:
                if queue not in group.queues:
                    begun = group.in_queue(queue)
                    begun.next_offset = max(queue.next_offset - 1, queue.min_offset)
                    begun.save(batch, begun.next_offset)
                    batch.on_rollback(partial(group.queues.__delitem__, queue))

        if anew:
            await self._writer.commit(work)

    async def _begin_again(self, target: PopTarget, attempt: str) -> None:
        takes = self._held_by(target, attempt)
        if takes:
            await self._receipts.take_back(target.group, [(take.commit_offset, take.times) for take in takes])

    def _held_by(self, target: PopTarget, attempt: str) -> list[Take]:
        """What an attempt was given before and is not settled."""
        known = [target.group.queues.get(queue) for queue in target.queues]
        return [take for one in known if one and one.attempt == attempt for take in one.open.values()]

    # Settle

    def handle(self, group: str, topic_name: str, queue_id: int, queue_offset: int, pop_ms: int) -> PopHandle:
        """The handle of a message that a client of the group names so.

        Raises TopicNotFoundError, QueueNotFoundError.
        """
        is_retry = topic_name.startswith((pop_retry_topic(group, ""), pop_retry_topic(group, "", "+")))
        topic = self._topics.get(retry_topic(group) if is_retry else topic_name)
        if not 0 <= queue_id < len(topic.queues):
            raise QueueNotFoundError(topic_name, queue_id, len(topic.queues))
        return PopHandle(topic.queues[queue_id], queue_offset, pop_ms)

    def is_retry(self, name: str) -> bool:
        """Whether a name behind ``%RETRY%`` is made of a group and a topic, and no group's own."""
        if self._groups.find(name):
            return False
        parts = name.split("_")
        splits = (("_".join(parts[:n]), "_".join(parts[n:])) for n in range(1, len(parts)))
        return any(self._groups.find(group) and self._topics.find(topic) for group, topic in splits)

    # Look

    def waiting(self, target: PopTarget) -> int:
        """How many wait for messages from just there."""
        return self._waiting[target.key]

    async def is_any(
        self, target: PopTarget, *, wait_s: float = 0.0, ordered: bool = False, attempt: str = ""
    ) -> bool:
        """Whether there is something to pop, wanted or not; waits for it up to ``wait_s`` real seconds."""
        group, topic, _ = target
        choice = Choice(self._database, self._topics, self._wish(target, ordered=ordered))

        async def look() -> bool:
            held = self._held_by(target, attempt) if ordered and attempt else ()
            return bool(held or choice.again() or self._spans(target, choice.queues()))

        places = (topic.name, retry_topic(group.name))
        if ordered:
            return await self._polls.wait_for(look, places, wait_s, also=group.announcing)
        return await self._polls.wait_for(look, places, wait_s)

    async def peek(self, target: PopTarget, limit: int) -> Popped:
        """The messages that would be popped, without any trace, and how many there are, these among them."""
        choice = Choice(self._database, self._topics, self._wish(target, ordered=False))
        queues = choice.queues()
        rest = self._count(choice, target, queues)
        takes = {take.commit_offset: take for take in choice.again()[:limit]}
        again = await messages_at(self._database, list(takes))
        fresh = await messages_in(self._database, self._spans(target, queues), limit)
        peeked: list[Taken] = []
        size = 0
        for message in [*again.values(), *filter(partial(self._is_of, target.topic), fresh)][:limit]:
            size += len(message.body)
            if peeked and size > MAX_PULLED_BYTES:
                break
            take = takes.get(message.commit_offset)
            times, first_us = (take.times, take.first_taken_us) if take else (0, 0)
            peeked.append(Taken(message, target.topic.name, "", times + 1, first_us, 0, 0))
        return Popped(peeked, rest)

    def _is_of(self, topic: Topic, message: StoredMessage) -> bool:
        """Whether a message is none of the retries of another topic."""
        queue = self._topics.queue(message.queue_key)
        return topic.name in (queue.topic, known_topic(queue, message.properties))

    def _count(self, choice: Choice, target: PopTarget, queues: Sequence[Queue]) -> int:
        return len(choice.again()) + sum(end - start for _, start, end, _ in self._spans(target, queues))

    def _spans(self, target: PopTarget, queues: Sequence[Queue]) -> list[Span]:
        """What the group has not met yet."""
        spans = []
        for queue in dict.fromkeys(queues):
            known = target.group.queues.get(queue)
            start = max(known.next_offset if known else 0, queue.min_offset)
            if start < queue.next_offset:
                spans.append(Span(queue, start, queue.next_offset))
        return spans


def pop_retry_topic(group: str, topic: str, separator: str = "_") -> str:
    """From where clients believe to have popped a retry (sheet 6.5); really it is the group's retry topic."""
    return f"{retry_topic(group)}{separator}{topic}"
