"""A slot whose pending records are in memory, in order.

An index lists a slot's records from the newest back. A batch of the first ones could only be found by reading
the whole slot, so a full slot would be read once for each batch that is delivered.
"""

import threading
from collections.abc import Container
from itertools import islice, takewhile
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.entry_table import EntryTable
from mocketmq_compat.delay.slots.hour_index import HourIndex

_AT_ONCE: Final = 1_024
"""Number of items added in one step."""


class OpenSlot:
    """The pending records of a slot, with the numbers of their items. ``lock`` guards them.

    :meth:`first` must not be called by several threads at once.
    """

    def __init__(self, hour: HourIndex, slot: int, lock: threading.RLock) -> None:
        self.hour = hour
        self.slot = slot
        self.pending = EntryTable(1)
        self._lock = lock
        self._head = 0  # the newest item that was read
        self._gone: set[Entry] | None = None  # settled while items are being read

    def first(self, head: int, limit: int, without: Container[Entry]) -> list[Entry]:
        """Read the items up to ``head``, and return the first records that are not in ``without``."""
        self._read_to(head)
        return self.pending.first(limit, without, self._lock)

    def settle(self, entry: Entry) -> None:
        """Remove a settled record, of any slot. The caller must hold the lock."""
        self.pending.remove(entry)
        if self._gone is not None:
            self._gone.add(entry)

    def _read_to(self, head: int) -> None:
        newer = takewhile(lambda found: found[0] > self._head, self.hour.in_slot(self.slot, head))
        waiting = ((item.entry, number) for number, item in newer if not item.mark)
        gone = self._gone = set()
        try:
            while some := [*islice(waiting, _AT_ONCE)]:
                with self._lock:
                    for entry, number in some:
                        if entry not in gone:
                            self.pending.add(entry, number)
            self._head = head
        finally:
            self._gone = None
