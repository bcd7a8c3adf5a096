"""Half messages of Aliyun's HTTP protocol, whose producers pop and decide undecided transactions themselves.

Half messages of topic ``T`` are stored in ``%HALF%T``. Undecided ones are rolled back after 24 hours.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.handles import check_handle, handle_of
from mocketmq.broker.consuming.receipt import Outcome, Receipt, State
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.receiver import InFlightMessage, Receiver
from mocketmq.broker.consuming.selection import MemoryReservation, ReceiveRequest
from mocketmq.broker.consuming.settler import Settled, valid
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.clock import US_PER_S
from mocketmq.errors import ReceiptSpentError
from mocketmq.failpoint import pass_point
from mocketmq.invisible_time import POPPED_HALF_US
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.names import HALF_GROUP, half_topic
from mocketmq.schedule.timer import BATCH, Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

LIFETIME_US = 24 * 3600 * US_PER_S
"""Time after which an open half message is rolled back."""


class PreparedHalf(NamedTuple):
    """A stored half message, and the handle with which it can be decided until ``visible_us``."""

    stored: StoredMessage
    handle: str
    visible_us: int


@dataclass(eq=False, repr=False)
class PoppedHalves:
    """Gives half messages to producers and stores decisions; a due source that rolls back old ones."""

    _store: Store
    _registry: Registry
    _receipts: Receipts
    _receiver: Receiver
    _half_messages: HalfMessages
    batch: int = field(init=False, default=BATCH)  # maximum number rolled back per transaction

    async def prepare(self, message: Message, immunity_us: int) -> PreparedHalf:
        """Durably store a half message, which can be popped after ``immunity_us``.

        Raises the errors of :meth:`Intake.accept`, and then stores nothing.
        """
        accepted = await self._half_messages.accept(message)
        topic_name = half_topic(accepted.queue.topic)
        stored, receipt = await self._half_messages.prepare(accepted, topic_name, HALF_GROUP, immunity_us, {})
        return PreparedHalf(stored, handle_of(receipt.group, receipt), receipt.visible_us)

    async def pop(
        self,
        topic_name: str,
        *,
        max_messages: int,
        invisible_us: int = POPPED_HALF_US,
        wait_s: float = 0.0,
        tag_filter: Filter = EVERYTHING,
        load: MemoryReservation | None = None,
    ) -> list[InFlightMessage]:
        """Pop half messages of the topic, oldest first, waiting like ``receive``.

        Raises the errors of :meth:`UsedTopics.for_send`.
        """
        topic = await self._registry.used_topics.for_send(topic_name)
        half = await self._registry.topics.ensure(half_topic(topic.name), 1)
        request = ReceiveRequest(await self._group(), half, max_messages, tag_filter, load=load)
        return await self._receiver.receive_request(request, invisible_us, wait_s)

    async def commit(self, topic_name: str, handles: Sequence[str]) -> Settled:
        """Make the messages visible, each after its delay. The delay of a level counts from now.

        Handles that are invalid for the topic fail; the others are committed.
        """
        group = await self._group()
        settled = Settled([], [])
        receipts: dict[str, Receipt] = {}
        for handle, receipt in valid(group, handles, self._store.clock.now_us(), settled, _of(topic_name)):
            self._receipts.begin_settling(receipt)  # if a handle is repeated, the second call fails
            receipts[handle] = receipt
        done = await self._half_messages.commit(list(receipts.values()))
        for handle, receipt in receipts.items():
            if receipt in done:
                settled.done.append(handle)
            else:
                settled.failed.append(
                    (handle, ReceiptSpentError(f"a reset removed the message of {handle!r}"))
                )
        pass_point("receive.settled")
        return settled

    async def rollback(self, topic_name: str, handles: Sequence[str]) -> Settled:
        """Drop the messages permanently. Handles that are invalid for the topic fail."""
        group = await self._group()
        receipts: list[Receipt] = []

        def work(batch: Batch) -> Settled:
            settled = Settled([], [])
            for handle, receipt in valid(group, handles, batch.now_us, settled, _of(topic_name)):
                if self._half_messages.is_kept(receipt):
                    error = ReceiptSpentError(
                        f"the half message with handle {handle!r} is already being committed"
                    )
                    settled.failed.append((handle, error))
                    continue
                self._receipts.settle(batch, receipt, Outcome.ROLLED_BACK)
                settled.done.append(handle)
                receipts.append(receipt)
            return settled

        settled: Settled = await self._store.writer.commit(work)
        pass_point("receive.settled")
        self._half_messages.rolled_back += len(settled.done)
        await self._count_rolled_back(topic_name, receipts)
        return settled

    async def _count_rolled_back(self, topic_name: str, receipts: Sequence[Receipt]) -> None:
        """Count the rollbacks at each half message's broker, which only the half message identifies."""
        traffic = self._registry.statistics.only_traffic
        if traffic is None:
            for half in await self._half_messages.halves(receipts):
                self._registry.statistics.traffic_of(half.queue).rolled_back[topic_name] += 1
        elif receipts:
            traffic.rolled_back[topic_name] += len(receipts)

    # Half messages without a decision

    def next_due_us(self) -> int | None:
        """The instant of the next rollback. A half message in flight is rolled back once it is free."""
        return next(map(_over_us, self._waiting()), None)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Roll back half messages that were not decided within :data:`LIFETIME_US`."""
        over = takewhile(lambda receipt: _over_us(receipt) <= until_us, self._waiting())
        receipts = list(islice(over, self.batch))
        yield lambda: (Due(_over_us(receipt), partial(self._give_up, receipt)) for receipt in receipts)

    def _give_up(self, receipt: Receipt, batch: Batch) -> None:
        if receipt.state is not State.FREE:  # a producer has popped the half message in the meantime
            return
        if self._half_messages.is_kept(receipt):
            self._half_messages.settle_kept(batch, receipt)
        else:
            self._half_messages.give_up(batch, receipt, Outcome.ROLLED_BACK)

    def _waiting(self) -> Iterator[Receipt]:
        """The free half messages, and those in flight whose lifetime is not over."""
        now_us = self._store.clock.now_us()
        return (
            receipt
            for receipt in self._undecided()
            if receipt.state is State.FREE or _over_us(receipt) > now_us
        )

    def _undecided(self) -> Iterable[Receipt]:
        """All open half messages, in the order in which they were prepared."""
        group = self._receipts.groups.find_group(HALF_GROUP)
        return group.receipts.values() if group else ()

    async def _group(self) -> ConsumingGroup:
        return await self._receipts.groups.for_broker(HALF_GROUP)


def _of(topic_name: str) -> Callable[[str], None]:
    """Make a check that raises ReceiptError unless a handle is for a half message of the topic."""
    return partial(check_handle, group_name=HALF_GROUP, topic_name=topic_name)


def _over_us(receipt: Receipt) -> int:
    return receipt.first_taken_us + LIFETIME_US
