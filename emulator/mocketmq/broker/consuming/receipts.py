"""Transactions on receipts: changes receipts in memory and in the table ``receipts`` together.

Every change is part of a transaction, and is undone if the transaction fails. ``selection`` decides which
messages a receiver gets.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.expiries import Expiries
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Outcome, Receipt, State
from mocketmq.broker.consuming.selection import receipt_of
from mocketmq.broker.registry.registry import Registry
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import CHECKED_HALF_GROUP
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import (
    OpenReceipt,
    ReceiptRow,
    open_receipts,
    parse_attempts,
    reopen_receipt,
    save_change,
    save_outcome,
    save_receipt,
    save_settled,
    save_take_back,
    save_visible,
)
from mocketmq.store.store import Store

log = logging.getLogger(__name__)


class Receipts:
    """Changes receipts. ``expiries`` orders receipts in flight by the end of their invisible time.

    ``checks`` orders half messages by the time of their next check-back. ``on_step`` is called with a receipt
    that was given to a receiver (no outcome) or settled, and the instant.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        ledger: LedgerWriter,
        changed: Callable[[], None],
    ) -> None:
        self.expiries = Expiries(changed)
        self.checks = Expiries(changed)
        self._database = store.database
        self._topics = registry.topics
        self.groups = groups
        self._polls = polls
        self._ledger = ledger
        self.on_step: Callable[[Receipt, Outcome | None, int], None] | None = None
        # The number of restored snapshots. Handles contain it, because log offsets repeat after a restore.
        self.epoch = 0

    async def reload(self) -> None:
        """Read the open receipts again from a restored store, after the former ones were closed."""
        self.epoch += 1
        await self.load()

    async def load(self) -> None:
        """Read the open receipts of all groups from the store."""
        ignored: Counter[tuple[str, int]] = Counter()
        for row in await open_receipts(self._database):
            group = self.groups.find_group(row.group_name)
            if group is None or self._topics.find_by_key(row.queue_key) is None:
                ignored[row.group_name, row.queue_key] += 1
            else:
                self._add_stored(row, group)
        for (name, key), count in ignored.items():
            log.warning(
                "ignoring %d receipts of group %s in queue %d, one of which does not exist", count, name, key
            )

    def _add_stored(self, row: OpenReceipt, group: ConsumingGroup) -> None:
        group_queue = group.in_queue(self._topics.queue(row.queue_key))
        if row.queue_offset >= group_queue.next_offset:
            return  # the group's offset was reset to below the message, which will be delivered as new
        receipt = receipt_of(group_queue, row)
        receipt.times, receipt.first_taken_us = row.times, row.first_taken_us or 0
        receipt.visible_us, receipt.pop_ms, receipt.has_row = row.visible_us, row.pop_ms or 0, True
        receipt.is_postponed = any(one.is_postponed for one in parse_attempts(row.attempts)[-1:])
        receipt.transition(State.HELD)
        self.watch(receipt)

    def undo_acknowledgement(self, batch: Batch, row: OpenReceipt) -> None:
        """Put the message in flight again for the group, until the end of its invisible time."""
        group = self.groups.find_group(row.group_name)
        if group is None or row.log_offset in group.receipts:
            return
        reopen_receipt(batch, row.group_name, row.log_offset)
        batch.on_commit(partial(self._add_stored, row, group))

    def give(self, batch: Batch, receipt: Receipt, visible_us: int, pop_ms: int) -> None:
        """Give a reserved message to its receiver, invisible to others until ``visible_us``."""
        if receipt.state is State.CLOSED:
            return  # a snapshot was restored after the reservation
        times, now_us = receipt.times + 1, batch.now_us
        self._save(batch, receipt, times, visible_us, now_us, pop_ms)
        if receipt.is_delayed:
            self._ledger.pulled(batch, [receipt.log_offset], receipt.group.name)

        def given() -> None:
            if receipt.state is not State.CLOSED:  # otherwise a commit in this transaction closed it
                receipt.first_taken_us = receipt.first_taken_us or now_us
                receipt.transition(State.HELD)
                receipt.epoch = self.epoch
                self._apply_visible(receipt, visible_us, times, pop_ms, is_postponed=False)
                if self.on_step is not None:
                    self.on_step(receipt, None, now_us)

        batch.on_commit(given)

    def record_free(self, batch: Batch, receipt: Receipt) -> None:
        """Store a free message that no receiver has got yet, so that it is not lost in a restart."""
        self._save(batch, receipt, 0, batch.now_us, None, 0)

    def take_new(
        self, batch: Batch, group: ConsumingGroup, queue: Queue, stored: StoredMessage, invisible_us: int
    ) -> Receipt:
        """Take a message in the transaction that stores it, so that it is never visible to the group."""
        group_queue = group.in_queue(queue)
        receipt = receipt_of(group_queue, stored)
        receipt.first_taken_us, receipt.visible_us = batch.now_us, batch.now_us + invisible_us
        self._save(batch, receipt, receipt.times, receipt.visible_us, batch.now_us, 0)
        group_queue.save(batch, stored.queue_offset + 1)

        def held() -> None:
            group_queue.next_offset = stored.queue_offset + 1
            receipt.transition(State.HELD)
            self.watch(receipt)

        batch.on_commit(held)
        return receipt

    def begin_settled(
        self,
        batch: Batch,
        group: ConsumingGroup,
        queue: Queue,
        messages: Sequence[StoredMessage],
        outcomes: Mapping[int, Outcome],
    ) -> None:
        """Mark messages of this queue, stored in the same transaction, as consumed by the group.

        ``outcomes`` maps the log offset of each consumed message to its outcome. The group's offset is then
        above the last consumed message. Messages below that have no outcome are visible to the group, as if
        they had been given back. Without outcomes, the group's offset in the queue is below all messages.
        """
        is_new = queue not in group.queues
        group_queue = group.in_queue(queue)
        if is_new:
            batch.on_rollback(partial(group.queues.__delitem__, queue))
        seen = (one.queue_offset + 1 for one in messages if one.log_offset in outcomes)
        end = max(seen, default=group_queue.next_offset)
        free = []
        for message in messages:
            if message.queue_offset >= end:
                break
            outcome, at_us = outcomes.get(message.log_offset), message.store_us
            row = ReceiptRow(
                group.name, message.log_offset, queue.key, message.queue_offset, 0, None, None, at_us, None
            )
            if outcome is None:
                save_receipt(batch, row)
                free.append(message)
            else:
                # A message counts as acknowledged only if its invisible time ends after the settlement.
                row = row._replace(times=1, first_taken_us=at_us, last_taken_us=at_us, visible_us=at_us + 1)
                save_settled(batch, row, at_us, outcome)
        group_queue.save(batch, end)

        def begin() -> None:
            group_queue.next_offset = end
            for message in free:
                receipt = receipt_of(group_queue, message)
                receipt.visible_us, receipt.has_row = message.store_us, True
                self.set_free(receipt)

        batch.on_commit(begin)

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

    def set_visible(
        self,
        batch: Batch,
        receipt: Receipt,
        visible_us: int,
        times: int,
        pop_ms: int,
        *,
        is_postponed: bool | None = None,
    ) -> None:
        """Change the end of a message's invisible time to ``visible_us``.

        ``is_postponed`` is True for a client's change, False for a client's extension, None for the broker.
        """
        # Change memory at once, because the former invisible time could otherwise end before the commit.
        batch.on_rollback(
            partial(
                self._apply_visible,
                receipt,
                receipt.visible_us,
                receipt.times,
                receipt.pop_ms,
                is_postponed=receipt.is_postponed,
            )
        )
        where = receipt.group.name, receipt.log_offset, visible_us, times, pop_ms
        if is_postponed is None:
            save_visible(batch, *where)
        else:
            save_change(batch, *where, is_postponed=is_postponed)
        self._apply_visible(receipt, visible_us, times, pop_ms, is_postponed=bool(is_postponed))

    def take_back(self, batch: Batch, receipt: Receipt) -> None:
        """Undo a delivery that did not reach the client: the message is visible again, and nothing counts.

        A pop's ``pop_ms`` changes, so that the same attempt does not undo the pop once more.
        """
        receipt.transition(State.RESERVED)
        times, visible_us = receipt.times - 1, min(receipt.visible_us, batch.now_us)
        pop_ms = receipt.pop_ms and receipt.pop_ms + 1
        save_take_back(batch, receipt.group.name, receipt.log_offset, visible_us, times, pop_ms)
        batch.on_rollback(partial(self.reopen, receipt))

        def taken_back() -> None:
            if receipt.state is State.RESERVED:  # otherwise the group committed an offset above it
                receipt.visible_us, receipt.times, receipt.pop_ms = visible_us, times, pop_ms
                self.set_free(receipt)

        batch.on_commit(taken_back)

    def drop_take(self, batch: Batch, receipt: Receipt) -> None:
        """Remove the last take from the stored attempts of a message that is being settled."""
        times = receipt.times - 1
        save_take_back(
            batch, receipt.group.name, receipt.log_offset, receipt.visible_us, times, receipt.pop_ms
        )

    def _apply_visible(
        self, receipt: Receipt, visible_us: int, times: int, pop_ms: int, *, is_postponed: bool
    ) -> None:
        receipt.visible_us, receipt.times, receipt.pop_ms = visible_us, times, pop_ms
        receipt.is_postponed = is_postponed
        self.watch(receipt)

    def settle(self, batch: Batch, receipt: Receipt, outcome: Outcome) -> None:
        """Settle the message. After ``begin_settling``, the caller reopens it on failure."""
        if receipt.state is not State.SETTLING:
            receipt.transition(State.SETTLING)
            batch.on_rollback(partial(self.reopen, receipt))
        save_outcome(batch, receipt.group.name, receipt.log_offset, outcome.value)
        if receipt.is_delayed and outcome is Outcome.ACKED:
            self._ledger.acked(batch, [receipt.log_offset])
        batch.on_commit(receipt.acknowledged if outcome is Outcome.ACKED else receipt.close)
        if self.on_step is not None:
            batch.on_commit(partial(self.on_step, receipt, outcome, batch.now_us))

    def begin_settling(self, receipt: Receipt) -> None:
        """Reserve the message for settling. No other request gets it until it is settled or reopened."""
        if receipt.state is not State.SETTLING:
            receipt.transition(State.SETTLING)

    def reopen(self, receipt: Receipt) -> None:
        """Undo a reservation or ``begin_settling`` after a failure."""
        receipt.undo_transition()
        if receipt.state is State.FREE:
            self._polls.freed(receipt.queue)  # receivers may have missed the message in the meantime
        else:
            self.watch(receipt)

    def set_free(self, receipt: Receipt) -> None:
        """Make the message visible to the group, and wake its receivers."""
        receipt.transition(State.FREE)
        self._polls.freed(receipt.queue)

    def watch(self, receipt: Receipt) -> None:
        """Register the end of the receipt's invisible time with the timer."""
        is_checked = receipt.group.name == CHECKED_HALF_GROUP
        (self.checks if is_checked else self.expiries).add_receipt(receipt)
