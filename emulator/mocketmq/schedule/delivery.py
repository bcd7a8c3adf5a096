"""Deliver due messages: append to the topic queue and write the ledger row, in one transaction.

Every delay scheme uses this module and marks the message as delivered in the same transaction, by moving a
delay offset or by a row of ``timed_messages``. A kill at any point therefore neither loses nor repeats one.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mocketmq.message.message import Draft
from mocketmq.schedule.ledger import Ledger
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch


class DueMessage(NamedTuple):
    """A message to deliver, without its content. Instants in emulated microseconds."""

    queue: Queue  # where it becomes visible
    parked_offset: int  # log offset of the parked record; outside of the store, the message's number
    level: int | None
    stored_us: int
    due_us: int


Catch = Callable[[Batch, str, DueMessage, Draft | int, int], int | None]
"""``catch(batch, scheme, message, content, fires_us)``: the record that a fault holds, or None."""


def _catch_nothing(
    _batch: Batch, _scheme: str, _message: DueMessage, _content: Draft | int, _us: int
) -> None:
    """No fault holds any delivery."""


class Delivery:
    """Delivers for one scheme and counts. ``on_delivered`` is called for each message that becomes visible.

    ``catch`` lets an injected fault hold a message instead.
    """

    def __init__(
        self,
        scheme: str,
        ledger: Ledger,
        on_delivered: Callable[[int], None] = lambda _count: None,
        catch: Catch = _catch_nothing,
    ) -> None:
        self._catch = catch
        self.delivered = 0  # since the start; not those that were forced
        self.early = 0  # of these, those before their due time: a defect
        self._scheme = scheme
        self._ledger = ledger
        self._on_delivered = on_delivered

    def deliver(
        self, batch: Batch, message: DueMessage, content: Draft | int, *, fires_us: int, picked_us: int
    ) -> int:
        """Deliver the message at ``fires_us``, or later; the log offset that it gets.

        The timer had chosen it at ``picked_us``. A ``content`` that is a number stands for a parked record
        whose body has so many bytes: that is copied inside SQLite.
        """
        batch.reach(fires_us)
        held = self._catch(batch, self._scheme, message, content, fires_us)
        if held is not None:
            return held
        batch.on_commit(partial(self._count, is_early=batch.now_us < message.due_us))
        return self._append(batch, message, content, max(picked_us, fires_us), forced=False)

    def force(self, batch: Batch, message: DueMessage, content: Draft | int) -> int:
        """Deliver the message now, before it is due; the log offset that it gets."""
        return self._append(batch, message, content, batch.now_us, forced=True)

    def _append(
        self, batch: Batch, message: DueMessage, content: Draft | int, picked_us: int, *, forced: bool
    ) -> int:
        queue, parked_offset, level, stored_us, due_us = message
        if isinstance(content, int):
            log_offset = batch.copy(queue, parked_offset, content)
        else:
            log_offset = batch.append(queue, content, parked_offset=parked_offset).log_offset
        self._ledger.record(
            batch,
            log_offset,
            queue,
            parked_offset=parked_offset,
            scheme=self._scheme,
            level=level,
            stored_us=stored_us,
            due_us=due_us,
            picked_us=picked_us,
            forced=forced,
        )
        return log_offset

    def _count(self, *, is_early: bool) -> None:
        self.delivered += 1
        self.early += is_early
        self._on_delivered(1)
