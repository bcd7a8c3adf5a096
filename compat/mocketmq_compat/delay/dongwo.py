"""The mode ``dongwo``: second directories that scan and answer as the patch that they come from.

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

from mocketmq_compat.delay.second_directories import SecondDirectories

SCAN_US = 200 * US_PER_MS


class Scans:
    """When a due time is acted upon: at the first scan after the whole second that is not before it."""

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us

    def __call__(self, due_us: int) -> int:
        """The instant of that scan."""
        second_us = -(-due_us // US_PER_S) * US_PER_S
        scans = -(-max(second_us - self._started_us, 0) // SCAN_US)
        return self._started_us + scans * SCAN_US


class Dongwo(SecondDirectories):
    """Keeps messages as the patch does, and says what it says."""

    name = "dongwo"

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """As the other; whatever goes wrong is DelayedSendError, which does not say what (D-4)."""
        try:
            return await super().keep(draft, queue, due_us, number)
        except StoreError as error:
            raise DelayedSendError from error

    def receipt(self, stored: StoredMessage, queue: Queue) -> SendReceipt:  # noqa: ARG002 - the same for all
        """Always the same, whatever queue the message goes to (D-4, D-7)."""
        return SendReceipt("0", 1, 0)
