"""Consuming by receipt: receives messages, and takes them back if their response was lost.

The life of a message for one group::

                    receive                    acknowledge
      visible ────────────────► in flight ──────────────────► acked
         ▲                        │ │  give back
         │ invisible time ends    │ └─────────────► retried (parked, then in %RETRY%group) or dead
         └────────────────────────┘   invisible time ends once too often ───► dead (%DLQ%group)

A message in flight is invisible to the rest of its group until its invisible time ends (``visibility``). A
receive is committed before it is answered, so a kill loses no receipt. A receive does not wait for
durability: if a power cut undoes the receive, the message is only delivered once more. ``selection`` chooses
the messages, ``settler`` implements the further steps, and ``receipt`` describes all states.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.handles import handle_of, next_pop_ms
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.selection import MemoryReservation, ReceiveRequest, Selection
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.traffic import Traffic
from mocketmq.clock import steady_us
from mocketmq.delay_limits import DelayLimits
from mocketmq.errors import OverLimitError
from mocketmq.event_loop import log_defect
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import RETRY_PREFIX, retry_topic
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

MAX_MESSAGES = 256


class InFlightMessage(NamedTuple):
    """A message received by a consumer, and the handle for settling it."""

    message: StoredMessage
    topic: str  # as the consumer sees it; the original topic for a retry
    handle: str
    times: int
    first_taken_us: int  # time of the first delivery to this group
    visible_us: int
    pop_ms: int  # 0 unless it was popped

    @property
    def reconsumed(self) -> int:
        """The number of earlier deliveries to this group, through retries or expired invisible times."""
        return self.message.reconsume_times + self.times - 1


class Receiver:
    """Receives messages, and takes them back if their response was lost."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        receipts: Receipts,
        polls: Polls,
        delay_limits: DelayLimits | None,
    ) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = registry.topics
        self._used_topics = registry.used_topics
        self._groups = receipts.groups
        self._receipts = receipts
        self._polls = polls
        self._statistics = registry.statistics
        self._most_in_flight = delay_limits.in_flight if delay_limits else None
        self._over_limit = delay_limits.over_limit if delay_limits else ""
        self._abandoned: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Lock()  # a waiting receive reads nothing if its client disconnects

    # Receiving

    async def receive(
        self,
        group_name: str,
        topic_name: str,
        *,
        max_messages: int,
        invisible_us: int,
        wait_s: float = 0.0,
        tag_filter: Filter = EVERYTHING,
        ordered: bool = False,
        load: MemoryReservation | None = None,
    ) -> list[InFlightMessage]:
        """Receive up to ``max_messages``, including retries of the topic.

        The oldest messages come first, or the messages of the highest priority. Waits up to ``wait_s`` real
        seconds for the first message. The bodies have up to ``MAX_RECEIVED_BYTES`` in total, unless the first
        alone is larger. As in RocketMQ, messages that do not pass the filter are skipped for the whole group.
        ``ordered`` withholds further messages of a queue until its messages in flight are settled. A
        cancelled caller has received nothing. Raises OverLimitError if ``wait_s`` is 0 and the delay limits
        allow no more messages in flight for the group.
        """
        topic = await self._used_topics.for_receive(topic_name)
        group = await self._groups.for_consuming(group_name)
        return await self.receive_request(
            ReceiveRequest(group, topic, max_messages, tag_filter, ordered, load=load), invisible_us, wait_s
        )

    async def receive_request(
        self, request: ReceiveRequest, invisible_us: int, wait_s: float = 0.0
    ) -> list[InFlightMessage]:
        """Like ``receive``, but also for groups and topics that clients may not use.

        Raises BrokerDownError for a pop from a broker that clients cannot reach.
        """
        group, topic_name = request.group, request.topic.name

        async def look() -> list[InFlightMessage]:
            if request.popped and self._topics.brokers.unreachable:
                self._topics.brokers.check_is_reachable(request.share)
            limit = min(request.limit, self._room(request))
            if not limit and wait_s <= 0:
                in_flight = f"Messages of {topic_name} in flight for {group.name}: {self._most_in_flight}"
                raise OverLimitError(f"{self._over_limit} {in_flight}")
            # Look the topic up again, because it may have been changed or deleted.
            now = request._replace(topic=self._topics.get(topic_name), limit=limit)
            return await self._receive_unless_cancelled(now, invisible_us) if limit else []

        sources = (request.source or topic_name, retry_topic(group.name))
        if request.ordered or self._most_in_flight is not None:
            return await self._polls.wait_for(look, sources, wait_s, also=group.announcing)
        return await self._polls.wait_for(look, sources, wait_s)

    def _room(self, request: ReceiveRequest) -> int:
        """How many more messages of the topic the group may have in flight."""
        group, most = request.group, self._most_in_flight
        if most is None or len(group.receipts) + request.limit <= most:
            return request.limit
        return max(
            most
            - sum(
                receipt.is_in_flight and receipt.topic == request.topic.name
                for receipt in group.receipts.values()
            ),
            0,
        )

    async def _receive_unless_cancelled(
        self, request: ReceiveRequest, invisible_us: int
    ) -> list[InFlightMessage]:
        begun = asyncio.Event()
        receiving = asyncio.create_task(self._take(request, invisible_us, begun))
        try:
            return await asyncio.shield(receiving)
        except asyncio.CancelledError:
            if not begun.is_set():  # cancelled before anything was read
                receiving.cancel()
                raise
            self._keep(asyncio.create_task(self._release_result(request, receiving)))
            raise

    async def _release_result(
        self, request: ReceiveRequest, receiving: asyncio.Task[list[InFlightMessage]]
    ) -> None:
        try:
            await self._release(request.group, await receiving)
        finally:
            if request.load is not None:
                request.load.settle(0)

    async def _take(
        self, request: ReceiveRequest, invisible_us: int, begun: asyncio.Event
    ) -> list[InFlightMessage]:
        """Take messages. A caller that leaves after ``begun`` is set must release the result."""
        group = request.group
        selection = Selection(self._database, self._topics, request)

        def work(batch: Batch) -> None:
            group.check_exists()
            self._topics.get(request.topic.name)
            selection.drop_closed()
            visible_us = batch.now_us + invisible_us
            pop_ms = next_pop_ms(receipt for _, receipt in selection.chosen) if request.popped else 0
            for _, receipt in selection.chosen:
                self._receipts.give(batch, receipt, visible_us, pop_ms)
            for receipt in selection.for_others:
                self._receipts.record_free(batch, receipt)
            for group_queue in {
                receipt.group_queue
                for receipt in (*selection.for_others, *(receipt for _, receipt in selection.chosen))
            }:
                group_queue.save(batch, group_queue.next_offset)

        began_us = steady_us()
        try:
            if request.load is not None:
                await request.load.wait_for_room(selection.has_candidates)
            async with self._reading:
                begun.set()
                await selection.select()
            took_us = steady_us() - began_us
            self._statistics.read(len(selection.chosen), took_us)
            if not selection.chosen and not selection.for_others:
                return []
            await self._writer.commit(work, until="visible")
        except BaseException:
            for _, receipt in selection.chosen:
                self._receipts.reopen(receipt)
            raise
        pass_point("receive.taken")
        selection.drop_closed()
        self._statistics.given(
            request.topic.name, group.name, [message for message, _ in selection.chosen], took_us
        )
        self._count_received(request, selection.chosen)
        for receipt in selection.for_others:
            self._polls.wake(receipt.queue.topic)
        return [
            InFlightMessage(
                message,
                receipt.topic,
                handle_of(group, receipt),
                receipt.times,
                receipt.first_taken_us,
                receipt.visible_us,
                receipt.pop_ms,
            )
            for message, receipt in selection.chosen
        ]

    def _count_received(
        self, request: ReceiveRequest, chosen: Sequence[tuple[StoredMessage, Receipt]]
    ) -> None:
        """Count the messages for their brokers, with retries counted separately."""
        sizes: dict[tuple[Traffic, bool], list[int]] = {}
        for message, receipt in chosen:
            key = self._statistics.traffic_of(receipt.queue), _is_retry(receipt, request)
            sizes.setdefault(key, []).append(len(message.body))
        for (traffic, is_retry), some in sizes.items():
            traffic.count_received(
                request.topic.name, request.group.name, len(some), sum(some), is_retry=is_retry
            )

    # Taking back

    async def release(self, group_name: str, taken: Sequence[InFlightMessage]) -> None:
        """Undo a receive after its response was lost. Its messages become visible, and it does not count."""
        await self._release(self._groups.of_client(group_name), taken)

    async def _release(self, group: ConsumingGroup, taken: Sequence[InFlightMessage]) -> None:
        await self.take_back(group, [(one.message.log_offset, one.times) for one in taken])

    async def take_back(self, group: ConsumingGroup, given: Sequence[tuple[int, int]]) -> None:
        """Undo deliveries, given by log offset and delivery count. The deliveries do not count.

        Messages that were settled or received again since are left unchanged.
        """

        def work(batch: Batch) -> None:
            for log_offset, times in given:
                receipt = group.receipts.get(log_offset)
                if receipt is not None and receipt.times == times and receipt.can_be_taken_back:
                    self._receipts.take_back(batch, receipt)

        await self._writer.commit(work, until="visible")

    def abandon(self, group: ConsumingGroup, taken: Sequence[InFlightMessage]) -> None:
        """Make messages visible again that a cancelled caller has received."""
        self._keep(asyncio.create_task(self._release(group, taken)))

    def _keep(self, giving_back: asyncio.Task[None]) -> None:
        self._abandoned.add(giving_back)
        giving_back.add_done_callback(self._abandoned.discard)
        giving_back.add_done_callback(log_defect)

    async def close(self) -> None:
        """Wait until the messages of cancelled receives are visible again."""
        await asyncio.gather(*self._abandoned, return_exceptions=True)


def _is_retry(receipt: Receipt, request: ReceiveRequest) -> bool:
    """Whether RocketMQ would have this message popped from a retry topic."""
    return receipt.queue.topic.startswith(RETRY_PREFIX) or (receipt.times > 1 and not request.ordered)
