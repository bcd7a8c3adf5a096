"""Places of items, kept in memory so that the scheme ``slots`` reads an item without searching its slot.

These are the places of recently used records, and of all records of full slots. A full slot stays open until
its last record is settled, because reading it again for each batch of deliveries would take too long.
"""

import threading
from collections import OrderedDict
from collections.abc import Container, Iterable
from itertools import islice, takewhile
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.entry_table import EntryTable
from mocketmq_compat.delay.slots.hour_index import HourIndex
from mocketmq_compat.delay.slots.index_file import slot_of

_AT_ONCE: Final = 1_024
"""Number of items added in one step."""
RECENT: Final = 65_536
"""Maximum number of recently used records; more than the engine works on at once."""
FULL: Final = 4_096
"""Number of pending records from which a slot counts as full."""


class OpenSlot:
    """The pending records of a slot, with the numbers of their items. ``lock`` guards them.

    :meth:`first` must not be called by several threads at once.
    """

    def __init__(self, hour: HourIndex, slot: int, lock: threading.RLock) -> None:
        self.hour = hour
        self.slot = slot
        self.pending = EntryTable(1)
        self._lock = lock
        self._head = 0  # the newest item read so far
        self._gone: set[Entry] | None = None  # records settled while items are being read

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


class ItemPlaces:
    """Places of items in their indexes. All methods but :meth:`first_in_slot` need ``lock`` to be held."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._recent: OrderedDict[Entry, int] = OrderedDict()
        self._full: dict[tuple[int, int], OpenSlot] = {}
        self._last: OpenSlot | None = None  # the slot that is being read, or was read last

    def clear(self) -> None:
        """Forget all places."""
        self._recent.clear()
        self._full.clear()
        self._last = None

    def remember(self, entry: Entry, place: int) -> None:
        """Note the place of a record that was just used."""
        self._recent[entry] = place
        self._recent.move_to_end(entry)
        if len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def remember_all(self, places: Iterable[tuple[Entry, int]]) -> None:
        """Note the places of several records."""
        for entry, place in places:
            self.remember(entry, place)

    def find(self, hour: HourIndex, entry: Entry) -> int | None:
        """Return the place of a record's item, or None if it is not known."""
        place = self._recent.get(entry)
        if place is None and (opened := self._full_slot(hour, slot_of(entry.due_ms))):
            place = opened.pending.number_of(entry)
        return place

    def settle(self, hour: HourIndex, entry: Entry) -> None:
        self._recent.pop(entry, None)
        slot = slot_of(entry.due_ms)
        full = self._full_slot(hour, slot)
        if self._last is not None and self._last is not full:
            self._last.settle(entry)
        if full is not None:
            full.settle(entry)
            if not full.pending:
                del self._full[hour.number, slot]

    def first_in_slot(
        self, hour: HourIndex, slot: int, head: int, limit: int, without: Container[Entry]
    ) -> list[Entry]:
        """Return a slot's first records that are not in ``without``; ``head`` is the slot's newest item.

        Must not be called by several threads at once. Raises OSError and DamagedIndexError.
        """
        with self._lock:
            opened = self._last = self._full_slot(hour, slot) or OpenSlot(hour, slot, self._lock)
        found = opened.first(head, limit, without)
        with self._lock:
            if len(opened.pending) >= FULL:
                self._full[hour.number, slot] = opened
            else:
                for entry in found:
                    if (place := opened.pending.number_of(entry)) is not None:
                        self.remember(entry, place)
        if not opened.pending:
            hour.pass_over(slot, head)
        return found

    def _full_slot(self, hour: HourIndex, slot: int) -> OpenSlot | None:
        opened = self._full.get((hour.number, slot))
        return opened if opened is not None and opened.hour is hour else None
