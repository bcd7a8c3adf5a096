"""An hour's index that ``slots`` has opened: its file, and counts in memory that verify every read."""

import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.known_parts import Stamp, stamp_of
from mocketmq_compat.delay.slots import index_file
from mocketmq_compat.delay.slots.index_file import DONE, SLOTS, DamagedIndexError, Item
from mocketmq_compat.delay.slots.open_files import OpenFiles

NO_NUMBER: Final = 1 << 63


def index_name(hour: int) -> str:
    """Return the name of an hour's index in the scheme's folder."""
    return f"index/{hour}"


@dataclass(eq=False)
class HourIndex:
    """An hour's index. Raises OSError, and DamagedIndexError if another program has changed the file.

    ``lock`` guards the files. The attributes from ``items`` on are counts that the file must match.
    """

    number: int
    files: OpenFiles
    lock: threading.RLock
    items: int = 0
    waiting: int = 0
    heads: int = 0  # checksum of the table: the sum of its numbers
    record_bytes: int = 0  # size of the listed records
    least_number: int = NO_NUMBER
    greatest_number: int = 0
    slot: int = 0  # the slots before this one have no pending messages

    def create(self) -> None:
        """Create the file, without items."""
        name = index_name(self.number)
        os.ftruncate(
            self.files.create(name, index_file.header("index", self.number)),
            index_file.ITEMS_AT,
        )

    def check(self) -> bool:
        """Read the file and set the counts. Returns False if it is damaged."""
        totals = index_file.check(self.files.read(index_name(self.number)), self.number)
        if totals is None:
            return False
        self.items, self.waiting, self.heads = totals.items, totals.waiting, totals.heads
        self.least_number, self.greatest_number = totals.least_number, totals.greatest_number
        self.record_bytes = totals.record_bytes
        return True

    def trust(self, numbers: Sequence[int]) -> None:
        """Set the counts to the values of :attr:`counts` when the file last changed."""
        self.items, self.waiting, self.heads, self.record_bytes = numbers[:4]
        self.least_number, self.greatest_number = numbers[4:]

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts that the file matches."""
        return (
            *(self.items, self.waiting, self.heads, self.record_bytes),
            *(self.least_number, self.greatest_number),
        )

    def stamp(self) -> Stamp:
        """Return the file's stamp. Raises OSError."""
        return stamp_of((self.files.root / index_name(self.number)).stat(follow_symlinks=False))

    # Reading

    def table(self) -> "array[int]":
        """Read the newest item of each slot, and check their sum."""
        with self.lock:
            table = index_file.heads(self._fd())
            if sum(table) != self.heads:
                raise DamagedIndexError(self.number, "its table does not match its checksum")
            return table

    def newest(self, first: int, last: int) -> "array[int]":
        """Read the newest item of each of these slots."""
        with self.lock:
            return index_file.heads(self._fd(), first, last - first + 1)

    def in_slot(self, slot: int, head: int) -> Iterator[tuple[int, Item]]:
        """Yield the items of a slot with their numbers, from ``head`` back."""
        return index_file.chain(self._read, self.number, slot, head)

    def in_order(self) -> Iterator[Item]:
        """Yield all items in order of arrival."""
        return index_file.in_order(self._read, self.number, self.items)

    def item(self, place: int) -> Item:
        with self.lock:
            return index_file.read_item(self._fd(), self.number, place)

    def find(self, entry: Entry) -> tuple[int, Item] | None:
        """Find the number and the item of a pending record."""
        slot = index_file.slot_of(entry.due_ms)
        [head] = self.newest(slot, slot)
        return next(
            (one for one in self.in_slot(slot, head) if one[1].entry == entry and not one[1].mark), None
        )

    def waiting_slots(self) -> Iterator[tuple[int, int]]:
        """Yield the slots that may have pending messages, each with its newest item."""
        table = self.table()
        return ((slot, table[slot]) for slot in range(self.slot, SLOTS) if table[slot])

    def pass_over(self, slot: int, head: int) -> None:
        """Skip this slot from now on, unless it gets an item newer than ``head``; the others are settled."""
        with self.lock:
            if self.slot <= slot:
                *before, newest = self.newest(self.slot, slot)
                if newest == head and not any(before):
                    self.slot = slot + 1

    # Changes

    def add(self, entry: Entry, offset: int, size: int, *, is_done: bool) -> None:
        """Append an item. If this raises OSError, nothing has changed."""
        before = index_file.append(
            self._fd(changes=True), self.items, entry, offset, size, DONE if is_done else 0
        )
        self.items += 1
        self.record_bytes += size
        self.heads += self.items - before
        self.least_number = min(self.least_number, entry.number)
        self.greatest_number = max(self.greatest_number, entry.number)
        if not is_done:
            self.waiting += 1
            self.slot = min(self.slot, index_file.slot_of(entry.due_ms))

    def mark(self, place: int) -> None:
        """Mark a pending item as settled."""
        index_file.set_mark(self._fd(changes=True), place, DONE)
        self.waiting -= 1

    def _read(self, first: int, items: int) -> bytes:
        with self.lock:
            return index_file.read_items(self._fd(), self.number, first, items)

    def _fd(self, *, changes: bool = False) -> int:
        """Return the file's descriptor, after checking its identity and its length."""
        name = index_name(self.number)
        try:
            fd = self.files.write(name) if changes else self.files.read(name)
        except FileNotFoundError:
            raise DamagedIndexError(self.number, "it was removed") from None
        found, expected = os.fstat(fd), index_file.end_of(self.items)
        if not found.st_nlink:
            raise DamagedIndexError(self.number, "it was removed or replaced")
        if found.st_size != expected:
            raise DamagedIndexError(self.number, f"it has {found.st_size} bytes instead of {expected}")
        return fd
