"""Select the messages that a receiver is given: redeliveries first, then what is new to its group.

In order, a queue is given out batch by batch. While one of its messages is in flight, nothing more of the
queue is selected. When their invisible time ends, the unsettled ones are redelivered, oldest first and alone;
new messages come after the last of them is settled. A pop is given new ones behind them, as upstream. A
message that the receiver's filter refuses holds up those behind it. In a retry queue, which the topics of a
group share, each topic counts for itself.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.load import Load
from mocketmq.broker.consuming.receipt import Receipt, State
from mocketmq.broker.filters.filter import EVERYTHING, Filter, SqlFilter
from mocketmq.broker.registry.topics import Topic, Topics
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import HALF_PREFIX, RETRY_PREFIX, retry_topic
from mocketmq.message.properties import RETRY_TOPIC, decode_properties
from mocketmq.store.database import Database
from mocketmq.store.messages import SCAN, Span, fitting_messages_at, fitting_messages_in, from_first
from mocketmq.store.queue import Queue

MAX_RECEIVED_BYTES = 4 << 20
"""Bytes of the bodies that one receive is given together, unless the first alone has more."""


class ReceiveRequest(NamedTuple):
    """Up to ``limit`` messages of a topic that pass the filter, for one receiver of the group.

    They come from one ``queue``, or from all if that is None, and with ``retries`` from the group's retry
    topic. Their bodies have up to ``max_bytes`` together, unless the first alone has more; or up to what
    ``load`` has room for. ``popped`` receipts get a ``pop_ms``.
    """

    group: ConsumingGroup
    topic: Topic
    limit: int
    tag_filter: Filter = EVERYTHING
    ordered: bool = False
    queue: Queue | None = None
    retries: bool = True
    max_bytes: int = MAX_RECEIVED_BYTES
    popped: bool = False
    load: Load | None = None


class Selection:
    """The messages for one request. They are reserved until they are stored as given, or reopened.

    ``for_others`` are retries of other topics that were found on the way, free for their own receivers.
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
        """Choose messages. Raises a StoreError, and the refusal of the load.

        The caller then reopens those chosen so far.
        """
        async with self._request.group.lock:
            load = self._request.load
            if load is not None and self._has_candidates():
                self._max_bytes = load.reserve(self._request.max_bytes)
            try:
                await self._select_redeliveries(self.redeliveries())
                queues = self.fresh_queues()
                while not self._is_full and await self._select_fresh(queues):
                    pass
                if load is not None and self._is_full and not self.chosen:
                    load.refuse()
            finally:
                if load is not None:
                    load.settle(self._bytes)

    def _has_candidates(self) -> bool:
        met = self._request.group.queues
        return bool(self.redeliveries()) or any(
            max(queue.min_offset, met[queue].next_offset if queue in met else 0) < queue.next_offset
            for queue in self.fresh_queues()
        )

    def redeliveries(self) -> list[Receipt]:
        """Messages that were received before and are visible again, oldest first.

        In a pop in order, also those that were acknowledged behind them.
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
        """The queues from which the request may be given messages that are new to the group."""
        request, group = self._request, self._request.group
        retry = self._topics.find(retry_topic(group.name)) if request.retries else None
        queues = [
            *(request.topic.readable if request.queue is None else [request.queue]),
            *(retry.readable if retry and retry is not request.topic else ()),
        ]
        if request.ordered:
            met = group.queues
            queues = [queue for queue in queues if queue not in met or not self._left_open(met[queue])]
        return queues

    def drop_closed(self) -> None:
        """Drop messages that were reset or committed past since they were chosen."""
        self.chosen = [one for one in self.chosen if one[1].state is not State.CLOSED]
        self.for_others = [receipt for receipt in self.for_others if receipt.state is not State.CLOSED]

    def _is_of_topic(self, receipt: Receipt) -> bool:
        return self._request.topic.name in (receipt.topic, receipt.queue.topic)

    def _is_wanted(self, receipt: Receipt) -> bool:
        request, queue = self._request, receipt.queue
        if queue.topic == request.topic.name:
            # Upstream's retries are in none of the topic's queues, so they come whichever is popped.
            return (request.popped and request.retries) or request.queue in (None, queue)
        return request.retries and receipt.topic == request.topic.name

    def _open(self, group_queue: GroupQueue) -> list[Receipt]:
        return [receipt for receipt in group_queue.open.values() if self._is_of_topic(receipt)]

    def _left_open(self, group_queue: GroupQueue) -> bool:
        """Whether a new message would overtake one that is unsettled."""
        given = {receipt for _, receipt in self.chosen} if self._request.popped else set()
        return not given.issuperset(self._open(group_queue))

    def _is_held(self, group_queue: GroupQueue) -> bool:
        return any(receipt.is_in_flight for receipt in self._open(group_queue))

    async def _select_redeliveries(self, receipts: Sequence[Receipt]) -> None:
        """Add redeliveries."""
        request = self._request
        barred: set[GroupQueue] = set()  # in order: where one is not wanted
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

    async def _select_fresh(self, queues: Sequence[Queue]) -> bool:
        """Add messages that are new to the group; False when there are no more to look through."""
        group, topic, limit, tag_filter = self._request[:4]
        spans, begun = {}, {}
        for queue in queues:
            begun[queue] = group.in_queue(queue).next_offset
            start = max(begun[queue], queue.min_offset)
            if start < queue.next_offset:
                hashes = tag_filter.hashes if queue.topic == topic.name else ()
                span = Span(queue, start, min(queue.next_offset, start + SCAN), hashes)
                if isinstance(tag_filter, SqlFilter) and queue.topic == topic.name:
                    span = await from_first(self._database, span, tag_filter.accepts)
                spans[queue.key] = span
        rows, are_all = await fitting_messages_in(
            self._database,
            spans.values(),
            limit - len(self.chosen),
            self._room,
            or_first=self._may_be_larger,
        )
        if any(begun[span.queue] != group.in_queue(span.queue).next_offset for span in spans.values()):
            return True  # a commit or a reset moved one meanwhile: look again
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
            receipt = Receipt(
                group_queue,
                row.queue_offset,
                row.log_offset,
                known_topic(group_queue.queue, row.properties),
                row.reconsume_times,
                is_delayed=row.parked_offset is not None,
            )
            is_retry = group_queue.queue.topic != topic.name
            if is_retry and receipt.topic != topic.name:
                receipt.move(State.FREE)
                self.for_others.append(receipt)
            elif is_retry or tag_filter.matches(row):
                self._add(row, receipt)
        self._is_full = self._is_full or not (rows or are_all)
        is_more = False
        for key, span in spans.items():
            if are_all and seen[key] == found[key] < limit:  # else the rest is left, and counted, as upstream
                group.in_queue(span.queue).next_offset = span.end
            is_more = is_more or group.in_queue(span.queue).next_offset < span.queue.next_offset
        return is_more

    @property
    def _may_be_larger(self) -> bool:
        """Whether the next message may have more bytes than there is room for."""
        return not self.chosen and self._max_bytes == self._request.max_bytes

    @property
    def _room(self) -> int:
        return max(self._max_bytes - self._bytes, 0)

    def _has_room(self, message: StoredMessage) -> bool:
        self._is_full = not self._may_be_larger and self._bytes + len(message.body) > self._max_bytes
        return not self._is_full

    def _add(self, message: StoredMessage, receipt: Receipt) -> None:
        receipt.move(State.RESERVED)
        self.chosen.append((message, receipt))
        self._bytes += len(message.body)
        self._is_full = len(self.chosen) == self._request.limit


def known_topic(queue: Queue, properties: str) -> str:
    """The topic that a consumer sees on a message of the queue: of a retry, the original one."""
    if queue.topic.startswith(RETRY_PREFIX):
        return decode_properties(properties).get(RETRY_TOPIC, queue.topic)
    return queue.topic.removeprefix(HALF_PREFIX)
