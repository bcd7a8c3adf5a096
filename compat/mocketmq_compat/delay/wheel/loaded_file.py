"""A loaded file of the wheel: its pending messages as slots of the timing wheel, one sorted slot per second.

A message takes 32 bytes: its entry, and the offset of its record. Removing a message only clears its offset,
because deleting its numbers would move the rest of the slot each time. A slot is compacted when more than
half of its messages are removed.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry

_FIELDS: Final = 4
_GONE: Final = -1


class _Slot:
    """The messages of one second."""

    def __init__(self) -> None:
        self.numbers: array[int] = array("q")  # due time, number, key hash and offset of each
        self.waiting = 0

    def __iter__(self) -> Iterator[Entry]:
        numbers = iter(self.numbers)
        for due_ms, number, key_hash, offset in zip(numbers, numbers, numbers, numbers, strict=True):
            if offset != _GONE:
                yield Entry(due_ms, number, key_hash)

    def place(self, entry: Entry) -> tuple[int, bool]:
        """Return the index of the message's numbers, or where to insert them, and whether they exist."""
        numbers = self.numbers
        if not numbers or Entry(*numbers[-_FIELDS:-1]) < entry:  # the usual case
            return len(numbers), False
        index = bisect_left(range(len(numbers) // _FIELDS), entry, key=self._entry_at)
        is_there = index * _FIELDS < len(numbers) and self._entry_at(index) == entry
        return index * _FIELDS, is_there

    def _entry_at(self, index: int) -> Entry:
        return Entry(*self.numbers[index * _FIELDS : index * _FIELDS + _FIELDS - 1])

    def compact(self) -> None:
        """Delete the numbers of removed messages, if these take more than half of the slot."""
        if len(self.numbers) > 2 * _FIELDS * self.waiting:
            numbers, left = self.numbers, array("q")
            for place in range(0, len(numbers), _FIELDS):
                if numbers[place + _FIELDS - 1] != _GONE:
                    left.extend(numbers[place : place + _FIELDS])
            self.numbers = left


class LoadedFile:
    """The pending messages of a file, by second. Not safe for use by several threads at once."""

    def __init__(self, offsets: Mapping[Entry, int]) -> None:
        self._slots: dict[int, _Slot] = {}
        for entry in sorted(offsets):
            self.add(entry, offsets[entry])

    def seconds(self) -> list[int]:
        """Return the seconds with pending messages, in order."""
        return sorted(self._slots)

    def of(self, second: int) -> list[Entry]:
        """Return the entries of a second, in order."""
        return [*self._slots.get(second, ())]

    def by_second(self) -> dict[int, int]:
        """Return the number of pending messages in each second."""
        return {second: slot.waiting for second, slot in self._slots.items()}

    def offset(self, entry: Entry) -> int | None:
        """Return the offset of a pending message's record; None for any other message."""
        slot = self._slots.get(entry.second)
        if slot is None:
            return None
        place, is_there = slot.place(entry)
        offset = slot.numbers[place + _FIELDS - 1] if is_there else _GONE
        return None if offset == _GONE else offset

    def matching(self, field: int, value: int) -> list[Entry]:
        """Return the entries with this value in a field."""
        some = [slot for slot in self._slots.values() if value in slot.numbers]
        return [entry for slot in some for entry in slot if entry[field] == value]

    def add(self, entry: Entry, offset: int) -> None:
        """Add a message, or change its offset."""
        slot = self._slots.setdefault(entry.second, _Slot())
        place, is_there = slot.place(entry)
        if not is_there:
            slot.numbers[place:place] = array("q", (*entry, _GONE))
        if slot.numbers[place + _FIELDS - 1] == _GONE:
            slot.waiting += 1
        slot.numbers[place + _FIELDS - 1] = offset

    def remove(self, entry: Entry) -> None:
        """Remove a message, if it is pending."""
        if self.offset(entry) is None:
            return
        slot = self._slots[entry.second]
        slot.numbers[slot.place(entry)[0] + _FIELDS - 1] = _GONE
        slot.waiting -= 1
        if slot.waiting:
            slot.compact()
        else:
            del self._slots[entry.second]
