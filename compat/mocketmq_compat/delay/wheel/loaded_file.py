"""A loaded file of the wheel: its pending messages as slots of the timing wheel, one sorted slot per second.

A message takes 32 bytes: its entry, and the offset of its record. Removing a message only clears its offset,
because deleting it would move the rest of the slot each time. A slot is compacted when more than
half of its messages are removed.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry, in_order

_GONE: Final = -1


class _Slot:
    """The messages of one second, in columns, in which ``bisect`` searches without a call of Python code."""

    def __init__(self) -> None:
        self.due_ms: array[int] = array("q")
        self.numbers: array[int] = array("q")
        self.key_hashes: array[int] = array("q")
        self.offsets: array[int] = array("q")
        self.waiting = 0

    @property
    def columns(self) -> "tuple[array[int], ...]":
        """The columns of an entry, in the order of its fields, and the offsets."""
        return self.due_ms, self.numbers, self.key_hashes, self.offsets

    def __iter__(self) -> Iterator[Entry]:
        for *fields, offset in zip(*self.columns, strict=True):
            if offset != _GONE:
                yield Entry(*fields)

    def place(self, entry: Entry) -> tuple[int, bool]:
        """Return the message's place, or where to insert it, and whether it is there."""
        due_ms, number, key_hash = entry
        low = bisect_left(self.due_ms, due_ms)
        high = bisect_right(self.due_ms, due_ms, low)
        place = bisect_left(self.numbers, number, low, high)
        while place < high and self.numbers[place] == number:  # several only after two folders were merged
            if self.key_hashes[place] >= key_hash:
                return place, self.key_hashes[place] == key_hash
            place += 1
        return place, False

    def compact(self) -> None:
        """Delete the numbers of removed messages, if these take more than half of the slot."""
        if len(self.offsets) > 2 * self.waiting:
            is_left = [offset != _GONE for offset in self.offsets]
            for column in self.columns:
                column[:] = array("q", compress(column, is_left))


class LoadedFile:
    """The pending messages of a file, by second. Not safe for use by several threads at once."""

    def __init__(self, offsets: Mapping[Entry, int]) -> None:
        self._slots: dict[int, _Slot] = {}
        for entry in in_order(offsets):
            self.add(entry, offsets[entry])

    def seconds(self) -> list[int]:
        """Return the seconds with pending messages, in order."""
        return sorted(self._slots)

    def of(self, second: int) -> Iterable[Entry]:
        """Return the entries of a second, in order. Do not change the file before the last is read."""
        return self._slots.get(second, ())

    def by_second(self) -> dict[int, int]:
        """Return the number of pending messages in each second."""
        return {second: slot.waiting for second, slot in self._slots.items()}

    def offset(self, entry: Entry) -> int | None:
        """Return the offset of a pending message's record; None for any other message."""
        slot = self._slots.get(entry.second)
        if slot is None:
            return None
        place, is_there = slot.place(entry)
        offset = slot.offsets[place] if is_there else _GONE
        return None if offset == _GONE else offset

    def matching(self, field: int, value: int) -> list[Entry]:
        """Return the entries with this value in a field."""
        some = [slot for slot in self._slots.values() if value in slot.columns[field]]
        return [entry for slot in some for entry in slot if entry[field] == value]

    def add(self, entry: Entry, offset: int) -> None:
        """Add a message, or change its offset."""
        slot = self._slots.setdefault(entry.second, _Slot())
        place, is_there = slot.place(entry)
        if not is_there:
            for column, value in zip(slot.columns, (*entry, _GONE), strict=True):
                column.insert(place, value)
        if slot.offsets[place] == _GONE:
            slot.waiting += 1
        slot.offsets[place] = offset

    def remove(self, entry: Entry) -> bool:
        """Remove a message. Returns whether it was pending."""
        slot = self._slots.get(entry.second)
        place, is_there = (0, False) if slot is None else slot.place(entry)
        if slot is None or not is_there or slot.offsets[place] == _GONE:
            return False
        slot.offsets[place] = _GONE
        slot.waiting -= 1
        if slot.waiting:
            slot.compact()
        else:
            del self._slots[entry.second]
        return True
