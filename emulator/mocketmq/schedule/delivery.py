"""Delivers due messages: appends them to the topic queue and writes the ledger row, in one transaction.

Every delay scheme delivers through this module. In the same transaction, the scheme marks the message as
delivered: it moves a delay offset, or adds a row to ``timed_messages``. A kill at any point therefore neither
loses nor repeats a message.
"""

import logging
from collections.abc import Callable, Iterable

from mocketmq.message.message import Draft
from mocketmq.schedule.ledger import DueMessage, LedgerWriter
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue

log = logging.getLogger(__name__)

Catch = Callable[[Batch, str, DueMessage, Draft | int, int], int | None]
"""``catch(batch, scheme, message, content, fires_us)`` returns the log offset of a held record, or None."""


DeliveryListener = Callable[[Queue, int | None, int, int], None]
"""Receives a queue where messages became visible, their level, if any, the size of each, and their number."""


def _catch_nothing(
    _batch: Batch, _scheme: str, _message: DueMessage, _content: Draft | int, _us: int
) -> None:
    """Hold no delivery."""


class Delivery:
    """Delivers and counts messages of one scheme. Calls ``on_delivered`` when they become visible.

    ``catch`` lets an injected fault hold a message instead.
    """

    def __init__(
        self,
        scheme: str,
        ledger: LedgerWriter,
        on_delivered: DeliveryListener = lambda _queue, _level, _size, _messages: None,
        catch: Catch = _catch_nothing,
    ) -> None:
        self._catch = catch
        self.delivered = 0  # number of messages delivered since the start, without forced ones
        self.early = 0  # number of them delivered before their due time, which is a defect
        self._scheme = scheme
        self._ledger = ledger
        self._on_delivered = on_delivered
        self._batch: Batch | None = None  # the batch that has deliveries which are not counted yet
        self._uncounted: dict[tuple[Queue, int | None, int], int] = {}  # messages by queue, level and size

    def deliver(
        self, batch: Batch, message: DueMessage, draft: Draft, *, fires_us: int, picked_us: int
    ) -> int:
        """Deliver the message at ``fires_us`` or later, and return its new log offset.

        The timer picked the message at ``picked_us``.
        """
        batch.reach(fires_us)
        held = self._catch(batch, self._scheme, message, draft, fires_us)
        if held is not None:
            return held
        self._count_on_commit(batch, message, len(draft.body))
        return self._append(batch, message, draft, max(picked_us, fires_us), forced=False)

    def deliver_parked(
        self,
        batch: Batch,
        level: int,
        messages: Iterable[tuple[DueMessage, int]],
        *,
        fires_us: int,
        picked_us: int,
    ) -> None:
        """Like ``deliver``, for several parked records of one level. SQLite copies the records.

        ``messages`` has each message with the size of its body in bytes.
        """
        batch.reach(fires_us)
        catch, scheme, first_offset = self._catch, self._scheme, batch.next_log_offset
        for message, size in messages:
            if catch(batch, scheme, message, size, fires_us) is None:
                self._count_on_commit(batch, message, size)
                batch.copy(message.queue, message.parked_offset, size)
        if batch.next_log_offset > first_offset:
            self._ledger.record_copies(batch, first_offset, scheme, level, max(picked_us, fires_us))

    def _count_on_commit(self, batch: Batch, message: DueMessage, size: int) -> None:
        if batch is not self._batch:
            self._batch, self._uncounted = batch, {}
            batch.on_commit(self._count)
            batch.on_rollback(self._forget_batch)
        key = message.queue, message.level, size
        self._uncounted[key] = self._uncounted.get(key, 0) + 1
        if batch.now_us < message.due_us:
            batch.on_commit(self._count_early)

    def force(self, batch: Batch, message: DueMessage, content: Draft | int) -> int:
        """Deliver the message now, before it is due, and return its new log offset."""
        return self._append(batch, message, content, batch.now_us, forced=True)

    def _append(
        self, batch: Batch, message: DueMessage, content: Draft | int, picked_us: int, *, forced: bool
    ) -> int:
        parked_offset = message.parked_offset
        if isinstance(content, int):
            log_offset = batch.copy(message.queue, parked_offset, content)
        else:
            stored = batch.append(message.queue, content, "delivered", parked_offset=parked_offset)
            log_offset = stored.log_offset
        self._ledger.record(batch, log_offset, message, self._scheme, picked_us, forced=forced)
        return log_offset

    def _forget_batch(self) -> None:
        self._batch = None

    def _count(self) -> None:
        self._forget_batch()
        for (queue, level, size), messages in self._uncounted.items():
            self.delivered += messages
            self._on_delivered(queue, level, size, messages)

    def _count_early(self) -> None:
        self.early += 1


def skip_undeliverable(batch: Batch, log_offset: int, queue_key: int) -> None:
    """Log that a due message cannot be delivered, as a damaged store lacks its queue. It does not count."""
    log.error(
        "the delayed message at log offset %d is not delivered, because its queue %d does not exist",
        log_offset,
        queue_key,
    )
    batch.undelivered += 1
