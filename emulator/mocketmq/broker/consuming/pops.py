"""Consuming by pop: chooses what a pop receives, and makes handles of queue, offset and pop time.

A popped message is invisible for a time. If it is not acknowledged in that time, it becomes visible again at
its old offset. RocketMQ appends it to a retry topic instead, but clients cannot see the difference. Remoting
clients send dead letters themselves.

Source: docs/protocol/remoting.md §2.11
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.handles import PopHandle
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Receipt, State
from mocketmq.broker.consuming.receiver import InFlightMessage, Receiver
from mocketmq.broker.consuming.selection import (
    MAX_RECEIVED_BYTES,
    MemoryReservation,
    ReceiveRequest,
    Selection,
)
from mocketmq.broker.consuming.settler import Settler
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topic import Topic
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import QueueNotFoundError
from mocketmq.event_loop import run_to_completion
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.names import retry_topic
from mocketmq.store.batch import Batch
from mocketmq.store.messages import Span, fitting_messages_at, fitting_messages_in
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

ALL_QUEUES = -1
MAX_POPPED = 32
"""Maximum number of messages in a response, as in RocketMQ."""


class PopTarget(NamedTuple):
    """A topic from which a group pops, and one of its queues, or None for all queues.

    For a lite subscription, ``lites`` has the queues of lite topics that may have messages, and ``source``
    wakes long polls when one is added. Each of these queues is popped in order. All messages, retries
    included, come from the broker with this ``share``.
    """

    group: ConsumingGroup
    topic: Topic
    queue: Queue | None
    lites: Collection[Queue] | None = None
    source: str = ""
    share: BrokerShare = ALONE

    @property
    def queues(self) -> Collection[Queue]:
        """The queues to pop from, without the queues of the retry topic."""
        if self.lites is not None:
            return self.lites
        return self.topic.readable_at(self.share) if self.queue is None else [self.queue]

    @property
    def is_in_order(self) -> bool:
        """Whether gRPC clients pop from each queue in order."""
        return self.lites is not None or self.group.registered.config.consume_message_orderly

    @property
    def key(self) -> tuple[str, str, int]:
        """The key by which long polls are counted."""
        return self.group.name, self.topic.name, ALL_QUEUES if self.queue is None else self.queue.queue_id


class Popped(NamedTuple):
    """Popped messages, and the number of remaining messages regardless of the filter.

    The messages are ordered by queue, or by priority in a topic of type ``priority``.
    """

    messages: Sequence[InFlightMessage]
    rest: int


class Pops:
    """Pops messages, peeks at them, and checks for new ones."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        receiver: Receiver,
        settler: Settler,
    ) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = registry.topics
        self._used_topics = registry.used_topics
        self._groups = groups
        self._polls = polls
        self._clients = registry.clients
        self._receiver = receiver
        self._settler = settler
        self._waiting: Counter[tuple[str, str, int]] = Counter()

    async def admit(
        self, group_name: str, topic_name: str, queue_id: int, share: BrokerShare = ALONE
    ) -> PopTarget:
        """Check a pop from a broker, and return its target. May create the group.

        ``queue_id`` counts the queues of all brokers; a negative one means all queues of this broker.

        Raises TopicNotFoundError, NoPermissionError, QueueNotFoundError, InvalidArgumentError,
        GroupNotFoundError, in RocketMQ's order.
        """
        topic = await self._used_topics.for_reading(topic_name)
        if share is not ALONE:
            self._topics.check_may_read(topic, share.position)
        if queue_id >= (limit := topic.queue_limit(queue_id, is_read=True)):
            raise QueueNotFoundError(topic_name, queue_id, limit)
        group = await self._groups.for_consuming(group_name)
        return PopTarget(group, topic, None if queue_id < 0 else topic.queues[queue_id], share=share)

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
        load: MemoryReservation | None = None,
    ) -> Popped:
        """Pop up to ``limit`` messages, waiting up to ``wait_s`` real seconds for the first.

        ``ordered`` works as in :meth:`Receiver.receive`, without retries. A repeated ``attempt`` gets the
        same messages again. With ``from_end``, the group begins at the last message, not the first, in a
        queue that is new to the group and has lost messages to retention.
        """
        request = self._request(target, ordered=ordered)._replace(
            limit=limit, tag_filter=tag_filter, load=load
        )
        selection = Selection(self._database, self._topics, request)
        if from_end:
            await self._begin_at_end(target)
        if ordered and attempt:
            await self._begin_again(target, attempt)
        self._waiting[target.key] += 1
        try:
            taken = await self._receiver.receive_request(request, invisible_us, wait_s)
        finally:
            self._waiting[target.key] -= 1
            if not self._waiting[target.key]:
                del self._waiting[target.key]
        given = {self._topics.queue(one.message.queue_key) for one in taken}
        rest = self._count(selection, target, [*selection.fresh_queues(), *given])
        if ordered:
            for known in map(target.group.in_queue, given):
                known.attempt, known.ordered_pop_ms = attempt, taken[0].pop_ms
                for receipt in known.open.values():
                    if receipt.state is State.BEHIND:
                        receipt.transition(State.FREE)
                rest += sum(receipt.state is State.FREE for receipt in known.open.values())
        if ordered or not target.topic.config.is_by_priority:
            taken.sort(key=lambda one: (one.message.queue_key, one.message.queue_offset))
        return Popped(taken, rest)

    async def pop_within_retries(
        self,
        target: PopTarget,
        limit: int,
        invisible_us: int,
        *,
        wait_s: float,
        tag_filter: Filter,
        attempt: str,
        load: MemoryReservation,
    ) -> Sequence[InFlightMessage]:
        """Pop, in the order that the group requires. Messages beyond its retries become dead letters.

        RocketMQ's proxy makes these dead letters for gRPC clients (ConsumerProcessor.java, 5.3.3). Popping
        remoting clients forward dead letters themselves.
        """
        group, end_us = target.group, steady_us() + int(wait_s * US_PER_S)
        while True:
            popped = await self.pop(
                target,
                limit,
                invisible_us,
                wait_s=max(end_us - steady_us(), 0) / US_PER_S,
                tag_filter=tag_filter,
                ordered=target.is_in_order,
                attempt=attempt,
                load=load,
            )
            most = group.registered.max_retries
            dead = [one for one in popped.messages if one.reconsumed > most]
            if not dead:
                return popped.messages
            alive = [one for one in popped.messages if one.reconsumed <= most]
            giving = self._settler.give_back(group.name, [one.handle for one in dead], -1, is_taken=False)
            try:
                await run_to_completion(giving)
            except asyncio.CancelledError:
                self._receiver.abandon(group, alive)
                raise
            if alive:
                return alive

    def _request(self, target: PopTarget, *, ordered: bool) -> ReceiveRequest:
        """Make the request, without retries if the group's members pull them, as popping Java clients do."""
        group, topic = target.group, target.topic
        live = self._clients.find_connected_group(group.name)
        is_pulled = live is not None and retry_topic(group.name) in live.subscriptions
        retries = not (ordered or is_pulled)
        queues = target.lites if target.queue is None else [target.queue]
        return ReceiveRequest(
            *(group, topic, MAX_POPPED, EVERYTHING, ordered, queues, retries),
            popped=True,
            source=target.source,
            share=target.share,
        )

    async def _begin_at_end(self, target: PopTarget) -> None:
        """Begin at the last message, durably, because the group must not begin later after a kill."""
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
        receipts = self._held_by(target, attempt)
        if receipts:
            await self._receiver.take_back(
                target.group, [(receipt.log_offset, receipt.times) for receipt in receipts]
            )

    def _held_by(self, target: PopTarget, attempt: str) -> list[Receipt]:
        """The unsettled messages of the last pop, if that pop had the same ``attempt``."""
        known = [target.group.queues.get(queue) for queue in target.queues]
        return [
            receipt
            for one in known
            if one and one.attempt == attempt
            for receipt in one.open.values()
            if receipt.pop_ms == one.ordered_pop_ms
        ]

    # Settling

    def handle(self, group: str, topic_name: str, queue_id: int, queue_offset: int, pop_ms: int) -> PopHandle:
        """Make the handle of a message from the values in a client's request.

        Raises TopicNotFoundError, QueueNotFoundError.
        """
        is_retry = topic_name.startswith((pop_retry_topic(group, ""), pop_retry_topic(group, "", "+")))
        topic = self._topics.get(retry_topic(group) if is_retry else topic_name)
        if not 0 <= queue_id < len(topic.queues):
            raise QueueNotFoundError(topic_name, queue_id, len(topic.queues))
        queue = topic.queues[queue_id]
        return PopHandle(queue, queue_offset, pop_ms, self._topics.brokers.queue_id(queue))

    def is_retry(self, name: str) -> bool:
        """Whether the name after ``%RETRY%`` joins a group and a topic, rather than being a group."""
        if self._groups.find_group(name):
            return False
        parts = name.split("_")
        splits = (("_".join(parts[:n]), "_".join(parts[n:])) for n in range(1, len(parts)))
        return any(
            self._groups.find_group(group) and self._topics.find_topic(topic) for group, topic in splits
        )

    # Looking

    def waiting(self, target: PopTarget) -> int:
        """The number of long polls waiting for this target."""
        return self._waiting[target.key]

    async def has_messages(
        self, target: PopTarget, *, wait_s: float = 0.0, ordered: bool = False, attempt: str = ""
    ) -> bool:
        """Whether there are messages to pop, ignoring the filter. Waits up to ``wait_s`` real seconds."""
        group, topic = target.group, target.topic
        selection = Selection(self._database, self._topics, self._request(target, ordered=ordered))

        async def look() -> bool:
            held = self._held_by(target, attempt) if ordered and attempt else ()
            return bool(held or selection.redeliveries() or self._spans(target, selection.fresh_queues()))

        sources = (topic.name, retry_topic(group.name))
        if ordered:
            return await self._polls.wait_for(look, sources, wait_s, also=group.announcing)
        return await self._polls.wait_for(look, sources, wait_s)

    async def peek(self, target: PopTarget, limit: int, load: MemoryReservation | None = None) -> Popped:
        """Return the messages that a pop would return, and how many there are in all. Changes nothing."""
        topic = target.topic
        selection = Selection(self._database, self._topics, self._request(target, ordered=False))
        queues = selection.fresh_queues()
        rest = self._count(selection, target, queues)
        if rest and load is not None:
            await load.wait_for_room()
        receipts = {receipt.log_offset: receipt for receipt in selection.redeliveries()[:limit]}
        room = MAX_RECEIVED_BYTES
        again, count = await fitting_messages_at(self._database, list(receipts), room, or_first=True)
        messages = list(again.values())
        if count == len(receipts) < limit:
            room = max(room - sum(len(message.body) for message in messages), 0)
            spans = [
                span if span.queue.topic == topic.name else span._replace(retries_of=topic.name)
                for span in self._spans(target, queues)
            ]
            fresh, _ = await fitting_messages_in(
                self._database, spans, limit - count, room, or_first=not messages
            )
            messages += fresh
        if load is not None:
            load.settle(sum(len(message.body) for message in messages))
        peeked: list[InFlightMessage] = []
        for message in messages:
            receipt = receipts.get(message.log_offset)
            times, first_us = (receipt.times, receipt.first_taken_us) if receipt else (0, 0)
            peeked.append(InFlightMessage(message, topic.name, "", times + 1, first_us, 0, 0))
        return Popped(peeked, rest)

    def _count(self, selection: Selection, target: PopTarget, queues: Sequence[Queue]) -> int:
        return len(selection.redeliveries()) + sum(
            span.end - span.start for span in self._spans(target, queues)
        )

    def _spans(self, target: PopTarget, queues: Sequence[Queue]) -> list[Span]:
        """The spans of messages that are new to the group."""
        spans = []
        for queue in dict.fromkeys(queues):
            known = target.group.queues.get(queue)
            start = max(known.next_offset if known else 0, queue.min_offset)
            if start < queue.next_offset:
                spans.append(Span(queue, start, queue.next_offset))
        return spans


def pop_retry_topic(group: str, topic: str, separator: str = "_") -> str:
    """Return the name by which pop clients know the group's retry topic (docs/protocol/remoting.md §6.5)."""
    return f"{retry_topic(group)}{separator}{topic}"
