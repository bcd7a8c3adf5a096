"""The mode ``dongwo``: second directories with the scans and the answers of the broker patch.

The patch is described in docs/protocol/aliyun.md §3.

``dongwo`` scans every 200 ms from its start, by whole seconds (D-11, D-12). It is not known which way the
patch rounds. Rounding down would deliver up to a second early, so here a message waits for the end of its
second.
"""

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import DelayedSendError, StoreError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.timed_scheme import SendReceipt
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.stored_scheme import StoredScheme

SCAN_US = 200 * US_PER_MS


class Scans:
    """The instant at which a message is delivered: the first scan after the second of its due time."""

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us

    def __call__(self, due_us: int) -> int:
        """The instant for this due time."""
        second_us = -(-due_us // US_PER_S) * US_PER_S
        scans = -(-max(second_us - self._started_us, 0) // SCAN_US)
        return self._started_us + scans * SCAN_US


class Dongwo(StoredScheme):
    """Second directories whose errors and receipts are the patch's."""

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """As the base class, but every failure is a DelayedSendError without a reason (D-4)."""
        try:
            return await super().keep(draft, queue, due_us, number)
        except StoreError as error:
            raise DelayedSendError from error

    def receipt(self, stored: StoredMessage, queue: Queue) -> SendReceipt:  # noqa: ARG002 - the same for all
        """Always the same, whatever queue the message goes to (D-4, D-7)."""
        return SendReceipt("0", 1, 0)
