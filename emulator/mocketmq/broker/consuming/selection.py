"""Selects the messages for a receive: redeliveries first, then messages that are new to the group.

Ordered receives get a queue batch by batch. While a message of the queue is in flight, no more of its
messages are selected. When the invisible time ends, the unsettled messages are redelivered alone, oldest
first. New messages follow once the last redelivered message is settled. As in RocketMQ, an ordered pop gets
new messages together with the redelivered ones. A redelivery that the receiver's filter refuses blocks the
messages behind it. All topics of a group share its retry queues; order is kept for each topic separately.

In a topic of type ``priority``, a receive without order gets new messages first, beginning with the highest
queue, and then redeliveries if there is room left. RocketMQ, too, reads the retry topic last.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, NoReturn, Protocol

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.receipt import Receipt, State
from mocketmq.broker.filters.filter import EVERYTHING, Filter, SqlFilter
from mocketmq.broker.registry.topic import Topic
from mocketmq.broker.registry.topics import Topics
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import HALF_PREFIX, RETRY_PREFIX, retry_topic
from mocketmq.message.properties import RETRY_TOPIC, decode_properties
from mocketmq.store.database import Database
from mocketmq.store.messages import SCAN, Span, fitting_messages_at, fitting_messages_in, from_first
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import OpenReceipt

MAX_RECEIVED_BYTES = 4 << 20
"""Maximum total size of the bodies in one receive, unless the first message alone is larger."""


class MemoryReservation(Protocol):
    """A front door's memory limit for one client's messages, from before a read until they are sent."""

    async def wait_for_room(self, is_needed: Callable[[], bool] | None = None) -> None:
        """Wait until there is room for an answer. May raise the door's error; doors that refuse do not wait.

        Does not wait if ``is_needed`` returns false.
        """

    def reserve(self, most: int) -> int:
        """Reserve up to ``most`` bytes, as far as there is room, and return the number reserved."""

    def settle(self, size: int) -> None:
        """Replace the reservation by the actual size of the messages read."""

    def refuse(self) -> NoReturn:
        """Raise the door's error for too little room."""


class ReceiveRequest(NamedTuple):
    """A receive of up to ``limit`` messages of a topic that pass the filter, for one receiver of the group.

    The messages come from ``queues``, or from all queues of the topic if it is None, and with ``retries``
    also from the group's retry topic. The bodies have up to ``max_bytes`` in total, unless the first alone is
    larger, or as many bytes as ``load`` has room for. With ``popped``, receipts get a ``pop_ms``.

    All messages come from the broker with this ``share``, or from any broker if there is only one share.

    For a lite subscription, ``queues`` changes while the request waits, and ``source`` wakes its long poll.
    """

    group: ConsumingGroup
    topic: Topic
    limit: int
    tag_filter: Filter = EVERYTHING
    ordered: bool = False
    queues: Collection[Queue] | None = None
    retries: bool = True
    max_bytes: int = MAX_RECEIVED_BYTES
    popped: bool = False
    load: MemoryReservation | None = None
    source: str = ""
    share: BrokerShare = ALONE


class Selection:
    """The messages selected for one request, reserved until they are stored as delivered, or reopened.

    ``for_others`` are retries of other topics found during the selection. These retries are free for
    receivers of their topics.
    """

    def __init__(self, database: Database, topics: Topics, request: ReceiveRequest) -> None:
        self.chosen: list[tuple[StoredMessage, Receipt]] = []
        self.for_others: list[Receipt] = []
        self._database = database
        self._topics = topics
        self._request = request
        self._max_bytes = request.max_bytes
        self._bytes = 0
        self._is_full = False

    async def select(self) -> None:
        """Select messages. Raises a StoreError, or the load's error.

        After an error, the caller reopens the messages selected so far.
        """
        async with self._request.group.lock:
            load = self._request.load
            if load is not None and self.has_candidates():
                self._max_bytes = load.reserve(self._request.max_bytes)
            try:
                if self._is_by_priority():
                    await self._select_by_priority()
                else:
                    await self._select_redeliveries(self.redeliveries())
                    await self._select_all_fresh(self.fresh_queues())
                if load is not None and self._is_full and not self.chosen:
                    load.refuse()
            finally:
                if load is not None:
                    load.settle(self._bytes)

    def _is_by_priority(self) -> bool:
        group, topic = self._request.group, self._request.topic
        if self._request.ordered or not topic.config.is_by_priority:
            return False
        return self.has_candidates() and group.turn_by_priority(topic)

    async def _select_by_priority(self) -> None:
        queues, topic = self.fresh_queues(), self._request.topic.name
        for queue in sorted(queues, key=lambda queue: queue.queue_id, reverse=True):
            if queue.topic == topic:
                await self._select_all_fresh([queue])
        if not self._is_full:
            await self._select_redeliveries(self.redeliveries())
            await self._select_all_fresh([queue for queue in queues if queue.topic != topic])

    def has_candidates(self) -> bool:
        """Whether there are messages to select from, regardless of the filter."""
        met = self._request.group.queues
        return bool(self.redeliveries()) or any(
            max(queue.min_offset, met[queue].next_offset if queue in met else 0) < queue.next_offset
            for queue in self.fresh_queues()
        )

    def redeliveries(self) -> list[Receipt]:
        """The messages that were received before and are visible again, oldest first.

        An ordered pop also gets messages that were acknowledged before an earlier unsettled message.
        """
        request, group = self._request, self._request.group
        again = [receipt for receipt in group.available.values() if self._is_wanted(receipt)]
        if request.ordered:
            queues = {receipt.group_queue for receipt in again}
            held = {each for each in queues if self._is_held(each)}
            again = [receipt for receipt in again if receipt.group_queue not in held]
            if request.popped:
                again += [
                    receipt
                    for each in queues - held
                    for receipt in each.open.values()
                    if receipt.state is State.BEHIND
                ]
        return sorted(again, key=lambda receipt: receipt.log_offset)

    def fresh_queues(self) -> list[Queue]:
        """The queues from which the request may get messages that are new to the group."""
        request, group = self._request, self._request.group
        retry = self._topics.find_topic(retry_topic(group.name)) if request.retries else None
        queues = [
            *(_readable(request, request.topic) if request.queues is None else request.queues),
            *(_readable(request, retry) if retry and retry is not request.topic else ()),
        ]
        if request.ordered:
            met = group.queues
            queues = [queue for queue in queues if queue not in met or not self._left_open(met[queue])]
        return queues

    def drop_closed(self) -> None:
        """Drop messages closed by a reset or an offset commit since they were selected."""
        self.chosen = [one for one in self.chosen if one[1].state is not State.CLOSED]
        self.for_others = [receipt for receipt in self.for_others if receipt.state is not State.CLOSED]

    def _is_of_topic(self, receipt: Receipt) -> bool:
        return self._request.topic.name in (receipt.topic, receipt.queue.topic)

    def _is_wanted(self, receipt: Receipt) -> bool:
        request, queue = self._request, receipt.queue
        if request.share is not ALONE and not request.share.has_queue(queue.topic, queue.queue_id):
            return False
        if queue.topic == request.topic.name:
            # As in RocketMQ, where retries are in a separate topic, a pop of any queue gets all retries.
            any_queue = (request.popped and request.retries) or request.queues is None
            return any_queue or queue in (request.queues or ())
        return request.retries and receipt.topic == request.topic.name

    def _open(self, group_queue: GroupQueue) -> list[Receipt]:
        return [receipt for receipt in group_queue.open.values() if self._is_of_topic(receipt)]

    def _left_open(self, group_queue: GroupQueue) -> bool:
        """Whether a new message would overtake an unsettled message."""
        given = {receipt for _, receipt in self.chosen} if self._request.popped else set()
        return not given.issuperset(self._open(group_queue))

    def _is_held(self, group_queue: GroupQueue) -> bool:
        return any(receipt.is_in_flight for receipt in self._open(group_queue))

    async def _select_redeliveries(self, receipts: Sequence[Receipt]) -> None:
        """Add redeliveries."""
        request = self._request
        barred: set[GroupQueue] = set()  # for ordered receives: queues that a filtered message blocks
        waiting = list(receipts)
        while waiting:
            offsets = [receipt.log_offset for receipt in waiting[: request.limit]]
            messages, count = await fitting_messages_at(
                self._database, offsets, self._room, or_first=self._may_be_larger
            )
            some, waiting = waiting[:count], waiting[count:]
            if not some:
                self._is_full = True
                return
            for receipt in some:
                message = messages.get(receipt.log_offset)
                if message is None:
                    receipt.close()  # retention removed it
                elif receipt.state not in (State.FREE, State.BEHIND) or receipt.group_queue in barred:
                    continue
                elif request.tag_filter.matches(message):
                    if self._has_room(message):
                        self._add(message, receipt)
                    if self._is_full:
                        return
                elif request.ordered:
                    barred.add(receipt.group_queue)

    async def _select_all_fresh(self, queues: Sequence[Queue]) -> None:
        """Add messages that are new to the group, as far as there is room."""
        while not self._is_full and await self._select_fresh(queues):
            pass

    async def _select_fresh(self, queues: Sequence[Queue]) -> bool:
        """Add messages that are new to the group. Returns False when there are no more to read."""
        group, topic, limit, tag_filter = self._request[:4]
        spans, begun = {}, {}
        for queue in queues:
            if queue.is_gone:
                continue
            group_queue = group.in_queue(queue)
            begun[queue] = group_queue, group_queue.next_offset, group_queue.resets
            start = max(group_queue.next_offset, queue.min_offset)
            if start < queue.next_offset:
                hashes = tag_filter.hashes if queue.topic == topic.name else ()
                span = Span(queue, start, min(queue.next_offset, start + SCAN), hashes)
                if isinstance(tag_filter, SqlFilter) and queue.topic == topic.name:
                    span = await from_first(self._database, span, tag_filter.accepts)
                spans[queue.key] = span
        most = limit - len(self.chosen)
        rows, are_all = await fitting_messages_in(
            self._database, spans.values(), most, self._room, or_first=self._may_be_larger
        )
        for span in spans.values():
            if span.queue.is_gone:
                return True
            group_queue = group.in_queue(span.queue)
            if begun[span.queue] != (group_queue, group_queue.next_offset, group_queue.resets):
                return True  # read again, because a commit, a reset or a restore has moved an offset
        for span in spans.values():
            group.in_queue(span.queue).next_offset = span.start
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
            receipt = receipt_of(group_queue, row)
            is_retry = group_queue.queue.topic != topic.name
            if is_retry and receipt.topic != topic.name:
                receipt.transition(State.FREE)
                self.for_others.append(receipt)
            elif is_retry or tag_filter.matches(row):
                self._add(row, receipt)
        self._is_full = self._is_full or not (rows or are_all)
        is_more = False
        # As in RocketMQ, the remaining messages of the queue at which the reading stopped count as lag.
        cut = rows[-1].queue_key if len(rows) == most else None
        for key, span in spans.items():
            if are_all and seen[key] == found[key] and key != cut:
                group.in_queue(span.queue).next_offset = span.end
            is_more = is_more or group.in_queue(span.queue).next_offset < span.queue.next_offset
        return is_more

    @property
    def _may_be_larger(self) -> bool:
        """Whether the next message may exceed the remaining room."""
        return not self.chosen and self._max_bytes == self._request.max_bytes

    @property
    def _room(self) -> int:
        return max(self._max_bytes - self._bytes, 0)

    def _has_room(self, message: StoredMessage) -> bool:
        self._is_full = not self._may_be_larger and self._bytes + len(message.body) > self._max_bytes
        return not self._is_full

    def _add(self, message: StoredMessage, receipt: Receipt) -> None:
        receipt.transition(State.RESERVED)
        self.chosen.append((message, receipt))
        self._bytes += len(message.body)
        self._is_full = len(self.chosen) == self._request.limit


def _readable(request: ReceiveRequest, topic: Topic) -> Sequence[Queue]:
    return topic.readable_at(request.share)


def receipt_of(group_queue: GroupQueue, message: StoredMessage | OpenReceipt) -> Receipt:
    """Make a new receipt of a message for the group."""
    return Receipt(
        group_queue,
        message.queue_offset,
        message.log_offset,
        _known_topic(group_queue.queue, message.properties),
        message.reconsume_times,
        is_delayed=message.parked_offset is not None,
    )


def _known_topic(queue: Queue, properties: str) -> str:
    """Return the topic that a consumer sees for a message of the queue. A retry has its original topic."""
    if queue.topic.startswith(RETRY_PREFIX):
        return decode_properties(properties).get(RETRY_TOPIC, queue.topic)
    return queue.topic.removeprefix(HALF_PREFIX)
