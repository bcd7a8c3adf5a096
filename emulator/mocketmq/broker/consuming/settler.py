"""Settling by receipt: acknowledges messages, gives them back, and extends their invisible times.

A settlement is committed and durable before it is answered, so neither a kill nor a power cut loses it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Generic, NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.handles import Handle, find_receipt, log_offset_in, next_pop_ms, renewed
from mocketmq.broker.consuming.receipt import Outcome, Receipt, State
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import Retries, Retry
from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.broker.registry.registry import Registry
from mocketmq.errors import ReceiptError
from mocketmq.failpoint import pass_point
from mocketmq.store.batch import Batch
from mocketmq.store.messages import messages_at
from mocketmq.store.queue import LiteQueue
from mocketmq.store.store import Store
from mocketmq.store.wal_syncs import Waiter
from mocketmq.store.writer import Work


class SettledBy(NamedTuple, Generic[Handle]):
    """The settled handles, and the failed handles with their errors."""

    done: list[Handle]
    failed: list[tuple[Handle, ReceiptError]]


Settled = SettledBy[str]
"""Messages settled by their receipt handles."""


class Settler:
    """Settles received messages by their handles, and changes when they become visible again."""

    def __init__(self, store: Store, registry: Registry, receipts: Receipts, retries: Retries) -> None:
        self._database = store.database
        self._writer = store.writer
        self._clock = store.clock
        self._brokers = registry.topics.brokers
        self._groups = receipts.groups
        self._receipts = receipts
        self._retries = retries
        self._statistics = registry.statistics

    async def acknowledge(self, group_name: str, handles: Sequence[Handle]) -> SettledBy[Handle]:
        """Acknowledge messages. Invalid handles fail; the others are acknowledged."""
        settled: SettledBy[Handle] = await self._writer.commit(self._acknowledging(group_name, handles))
        pass_point("receive.settled")
        return settled

    def begin_to_acknowledge(self, group_name: str, handles: Sequence[Handle], waiter: Waiter) -> None:
        """Like ``acknowledge``, notifying a waiter instead of returning the result."""
        self._writer.put(self._acknowledging(group_name, handles), waiter)

    def _acknowledging(self, group_name: str, handles: Sequence[Handle]) -> Work:
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> SettledBy[Handle]:
            settled: SettledBy[Handle] = SettledBy([], [])
            for handle, receipt in valid(group, handles, batch.now_us, settled):
                self._receipts.settle(batch, receipt, Outcome.ACKED)
                settled.done.append(handle)
            return settled

        return work

    async def give_back(
        self, group_name: str, handles: Sequence[str], delay_level: int = 0, *, is_taken: bool = True
    ) -> Settled:
        """Give back messages that could not be consumed, to be retried later or to become dead letters.

        ``delay_level`` is as in :meth:`Retries.prepare`. Without ``is_taken``, the last take reached no
        consumer, and is removed from the attempts. Invalid handles fail; the others are given back. Raises
        TopicNotFoundError if the retry topic was deleted meanwhile.
        """
        group = self._groups.of_client(group_name)
        settled = Settled([], [])
        retries: dict[str, Retry] = {}
        for handle, receipt in valid(group, handles, self._clock.now_us(), settled):
            message = (await messages_at(self._database, [receipt.log_offset])).get(receipt.log_offset)
            if message is None:
                settled.failed.append(
                    (handle, ReceiptError(f"the message of receipt {handle!r} was removed"))
                )
                continue
            retries[handle] = await self._retries.prepare(group.registered, message, delay_level)

        def work(batch: Batch) -> None:
            for retry in retries.values():
                self._retries.check(retry)
            for handle, receipt in valid(group, retries, batch.now_us, settled):
                retry = retries[handle]
                self._retries.append(batch, retry)
                if not is_taken:
                    self._receipts.drop_take(batch, receipt)
                self._receipts.settle(batch, receipt, Outcome.DEAD if retry.is_dead else Outcome.RETRIED)
                batch.on_commit(partial(self._statistics.gave_back, receipt.topic, group.name))
                settled.done.append(handle)

        await self._writer.commit(work)
        pass_point("receive.settled")
        return settled

    async def extend(self, group_name: str, handles: Sequence[str], invisible_us: int) -> Settled:
        """Keep the messages invisible for ``invisible_us`` from now; 0 makes them visible at once."""
        settled: Settled = await self._writer.commit(
            partial(self.extend_in, group_name, handles, invisible_us, is_postponed=False)
        )
        return settled

    def extend_in(
        self,
        group_name: str,
        handles: Sequence[str],
        invisible_us: int,
        batch: Batch,
        *,
        is_postponed: bool | None = None,
    ) -> Settled:
        """Like ``extend``, in this transaction."""
        group = self._groups.of_client(group_name)
        settled = Settled([], [])
        for handle, receipt in valid(group, handles, batch.now_us, settled):
            self._receipts.set_visible(
                batch,
                receipt,
                batch.now_us + invisible_us,
                receipt.times,
                receipt.pop_ms,
                is_postponed=is_postponed,
            )
            settled.done.append(handle)
        return settled

    def check_broker(self, group_name: str, handle: str) -> None:
        """Raise BrokerDownError if clients cannot reach the broker of the message with this handle."""
        if self._brokers.unreachable and (found := self.broker_of(group_name, handle)) is not None:
            self._brokers.check_is_reachable(found.share)

    def broker_of(self, group_name: str, handle: str) -> RegisteredBroker | None:
        """The broker of the message with this handle; None for lite topics, which belong to the cluster.

        Raises ReceiptError for an invalid handle.
        """
        receipt = self._groups.of_client(group_name).receipts.get(log_offset_in(handle))
        if receipt is None or (receipt.queue.lite_topic is not None and len(self._brokers) > 1):
            return None
        return self._brokers.broker_of_queue(receipt.queue)

    async def change(
        self, group_name: str, handle: Handle, invisible_us: int, *, same_handle: bool = False
    ) -> Handle:
        """Change a popped message's invisible time. Returns its new handle, or the same with ``same_handle``.

        Raises ReceiptError.
        """
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> Handle:
            receipt = find_receipt(group, handle, batch.now_us)
            pop_ms = receipt.pop_ms if same_handle else next_pop_ms([receipt])
            visible_us = batch.now_us + invisible_us
            self._receipts.set_visible(batch, receipt, visible_us, receipt.times, pop_ms, is_postponed=True)
            return renewed(handle, pop_ms) if pop_ms else handle

        changed: Handle = await self._writer.commit(work)
        pass_point("receive.settled")
        return changed

    async def suspend(self, group_name: str, handle: str, invisible_us: int) -> None:
        """Postpone all messages of a lite topic that this handle's pop returned; the pop does not count.

        Raises ReceiptError, also for a message without a lite topic.
        """
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> None:
            named = find_receipt(group, handle, batch.now_us)
            if not isinstance(named.queue, LiteQueue):
                raise ReceiptError(
                    "suspend is true; allowed: false for a message without a lite topic, because only in a"
                    " lite topic can an invisible duration end without counting as an attempt"
                )
            for receipt in list(named.group_queue.open.values()):
                if receipt.pop_ms == named.pop_ms and receipt.state is State.HELD:
                    visible_us, times = batch.now_us + invisible_us, receipt.times - 1
                    self._receipts.set_visible(
                        batch, receipt, visible_us, times, receipt.pop_ms, is_postponed=True
                    )

        await self._writer.commit(work)
        pass_point("receive.settled")


def valid(
    group: ConsumingGroup,
    handles: Iterable[Handle],
    now_us: int,
    settled: SettledBy[Handle],
    check: Callable[[Handle], None] = lambda _handle: None,
) -> Iterator[tuple[Handle, Receipt]]:
    """Yield each valid handle with its receipt, and add the others to ``settled.failed``.

    ``check`` raises ReceiptError for handles that the caller refuses. Handles are checked one by one, so that
    the second of two equal handles is refused.
    """
    for handle in handles:
        try:
            check(handle)
            receipt = find_receipt(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error.with_traceback(None)))  # which refers to ``settled``
        else:
            yield handle, receipt
