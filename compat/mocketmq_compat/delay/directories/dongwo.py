"""The mode ``dongwo``: second directories with the scan times and responses of the broker patch.

The patch is described in docs/protocol/aliyun.md §3.

``dongwo`` scans every 200 ms from its start, and compares whole seconds (D-11, D-12). It is unknown how the
patch rounds. Rounding down would deliver messages up to a second early, so here a message waits until its
second ends.
"""

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import DelayedSendError, StoreError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.send_receipt import SendReceipt
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.stored_scheme import StoredScheme

SCAN_US = 200 * US_PER_MS


class Scans:
    """Computes delivery times. A message is delivered at the first scan after the second of its due time."""

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us

    def __call__(self, due_us: int) -> int:
        """Return the delivery time for this due time."""
        second_us = -(-due_us // US_PER_S) * US_PER_S
        scans = -(-max(second_us - self._started_us, 0) // SCAN_US)
        return self._started_us + scans * SCAN_US


class Dongwo(StoredScheme):
    """Second directories with the errors and send receipts of the patch."""

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Like the base class, but every failure is a DelayedSendError without a reason (D-4)."""
        try:
            return await super().keep(draft, queue, due_us, number)
        except StoreError as error:
            raise DelayedSendError from error

    def receipt(self, stored: StoredMessage, queue: Queue) -> SendReceipt:  # noqa: ARG002 - the same for all
        """Return the same receipt whatever the message's queue (D-4, D-7)."""
        return SendReceipt("0", 1, 0)
