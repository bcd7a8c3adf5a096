"""Change receipts in a transaction, in memory and in the table ``receipts``: in flight, visible, settled.

Every change is part of a transaction, and is undone when that fails. Which message a receiver is given is
decided in ``selection``.
"""

from collections.abc import Callable
from functools import partial

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.expiries import Expiries
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Outcome, Receipt, State
from mocketmq.broker.consuming.selection import known_topic
from mocketmq.broker.registry.registry import Registry
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import CHECKED_HALF_GROUP
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import ReceiptRow, open_receipts, save_outcome, save_receipt, save_visible
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch


class Receipts:
    """Changes receipts. ``expiries`` has those in flight by the end of their invisible time.

    ``checks`` has half messages instead, by when their producers are to be asked.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        changed: Callable[[], None],
    ) -> None:
        self.expiries = Expiries(changed)
        self.checks = Expiries(changed)
        self._database = store.database
        self._topics = registry.topics
        self._groups = groups
        self._polls = polls

    async def load(self) -> None:
        """Read the open receipts of all groups from the store."""
        for row in await open_receipts(self._database):
            group, queue = self._groups.get(row.group_name), self._topics.queue(row.queue_key)
            group_queue = group.in_queue(queue)
            if row.queue_offset >= group_queue.next_offset:
                continue  # it is given anew: the group went back before it, and its end was not stored
            receipt = Receipt(
                group_queue,
                row.queue_offset,
                row.log_offset,
                known_topic(queue, row.properties),
                row.reconsume_times,
                is_delayed=row.parked_offset is not None,
                times=row.times,
                first_taken_us=row.first_taken_us or 0,
                visible_us=row.visible_us,
                pop_ms=row.pop_ms or 0,
                has_row=True,
            )
            receipt.move(State.HELD)
            self.watch(receipt)

    def give(self, batch: Batch, receipt: Receipt, visible_us: int, pop_ms: int) -> None:
        """Give a reserved message to its receiver, invisible to others until ``visible_us``."""
        times, now_us = receipt.times + 1, batch.now_us
        self._save(batch, receipt, times, visible_us, now_us, pop_ms)

        def given() -> None:
            if receipt.state is not State.CLOSED:  # the same transaction moved the committed offset past it
                receipt.first_taken_us = receipt.first_taken_us or now_us
                receipt.move(State.HELD)
                self._apply_visible(receipt, visible_us, times, pop_ms)

        batch.on_commit(given)

    def record_free(self, batch: Batch, receipt: Receipt) -> None:
        """Store a free message that no receiver was given yet, so that it is found after a restart."""
        self._save(batch, receipt, 0, batch.now_us, None, 0)

    def take_new(
        self, batch: Batch, group: ConsumingGroup, queue: Queue, stored: StoredMessage, invisible_us: int
    ) -> Receipt:
        """Take a message in the transaction that stores it, so that it is never visible before."""
        group_queue = group.in_queue(queue)
        receipt = Receipt(
            group_queue,
            stored.queue_offset,
            stored.log_offset,
            known_topic(queue, stored.properties),
            stored.reconsume_times,
            is_delayed=False,
            first_taken_us=batch.now_us,
            visible_us=batch.now_us + invisible_us,
        )
        self._save(batch, receipt, receipt.times, receipt.visible_us, batch.now_us, 0)
        group_queue.save(batch, stored.queue_offset + 1)

        def held() -> None:
            group_queue.next_offset = stored.queue_offset + 1
            receipt.move(State.HELD)
            self.watch(receipt)

        batch.on_commit(held)
        return receipt

    def _save(
        self, batch: Batch, receipt: Receipt, times: int, visible_us: int, taken_us: int | None, pop_ms: int
    ) -> None:
        group_queue = receipt.group_queue
        save_receipt(
            batch,
            ReceiptRow(
                group_queue.group.name,
                receipt.log_offset,
                group_queue.queue.key,
                receipt.queue_offset,
                times,
                receipt.first_taken_us or taken_us,
                taken_us,
                visible_us,
                pop_ms or None,
            ),
        )
        if not receipt.has_row:
            receipt.has_row = True
            batch.on_rollback(partial(setattr, receipt, "has_row", False))

    def set_visible(self, batch: Batch, receipt: Receipt, visible_us: int, times: int, pop_ms: int) -> None:
        """Let the invisible time of a message in flight end at ``visible_us``."""
        # At once, or the former time could end before the commit.
        batch.on_rollback(
            partial(self._apply_visible, receipt, receipt.visible_us, receipt.times, receipt.pop_ms)
        )
        save_visible(batch, receipt.group.name, receipt.log_offset, visible_us, times, pop_ms)
        self._apply_visible(receipt, visible_us, times, pop_ms)

    def take_back(self, batch: Batch, receipt: Receipt) -> None:
        """Make a message visible again that did not reach its receiver. That delivery does not count."""
        receipt.move(State.RESERVED)
        times, visible_us = receipt.times - 1, min(receipt.visible_us, batch.now_us)
        save_visible(batch, receipt.group.name, receipt.log_offset, visible_us, times, receipt.pop_ms)
        batch.on_rollback(partial(self.reopen, receipt))

        def taken_back() -> None:
            if receipt.state is State.RESERVED:  # else its group has just committed past it
                receipt.visible_us, receipt.times = visible_us, times
                self.set_free(receipt)

        batch.on_commit(taken_back)

    def _apply_visible(self, receipt: Receipt, visible_us: int, times: int, pop_ms: int) -> None:
        receipt.visible_us, receipt.times, receipt.pop_ms = visible_us, times, pop_ms
        self.watch(receipt)

    def settle(self, batch: Batch, receipt: Receipt, outcome: Outcome) -> None:
        """Settle the message. If ``begin_settling`` was called before, its caller reopens it on failure."""
        if receipt.state is not State.SETTLING:
            receipt.move(State.SETTLING)
            batch.on_rollback(partial(self.reopen, receipt))
        save_outcome(batch, receipt.group.name, receipt.log_offset, outcome.value)
        batch.on_commit(receipt.acknowledged if outcome is Outcome.ACKED else receipt.close)

    def begin_settling(self, receipt: Receipt) -> None:
        """Keep the message from being given or settled by others, until it is settled or reopened."""
        if receipt.state is not State.SETTLING:
            receipt.move(State.SETTLING)

    def reopen(self, receipt: Receipt) -> None:
        """Undo a reservation or ``begin_settling`` after a failure."""
        receipt.move_back()
        if receipt.state is State.FREE:
            self._polls.wake(receipt.queue.topic)  # receivers may have looked in vain meanwhile
        else:
            self.watch(receipt)

    def set_free(self, receipt: Receipt) -> None:
        """Make the message visible to the group, and wake its receivers."""
        receipt.move(State.FREE)
        self._polls.wake(receipt.queue.topic)

    def watch(self, receipt: Receipt) -> None:
        """Let the timer know when the receipt's time ends."""
        is_checked = receipt.group.name == CHECKED_HALF_GROUP
        (self.checks if is_checked else self.expiries).add(receipt)
