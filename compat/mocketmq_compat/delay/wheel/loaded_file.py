"""The messages that wait in one loaded file, as slots of the timing wheel: one per second, each in order.

A message takes 32 bytes: its entry, and the offset of its record. What is delivered leaves its numbers
behind, without an offset, until they are half of its slot, so that a full slot is not moved for each message.
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
        """Where the message's numbers are or belong; whether they are there."""
        numbers = self.numbers
        if not numbers or Entry(*numbers[-_FIELDS:-1]) < entry:  # numbers mostly rise
            return len(numbers), False
        index = bisect_left(range(len(numbers) // _FIELDS), entry, key=self._entry_at)
        is_there = index * _FIELDS < len(numbers) and self._entry_at(index) == entry
        return index * _FIELDS, is_there

    def _entry_at(self, index: int) -> Entry:
        return Entry(*self.numbers[index * _FIELDS : index * _FIELDS + _FIELDS - 1])

    def compact(self) -> None:
        """Drop what is gone, if that is most of it."""
        if len(self.numbers) > 2 * _FIELDS * self.waiting:
            numbers, left = self.numbers, array("q")
            for place in range(0, len(numbers), _FIELDS):
                if numbers[place + _FIELDS - 1] != _GONE:
                    left.extend(numbers[place : place + _FIELDS])
            self.numbers = left


class LoadedFile:
    """The messages of a file by second. Nothing here may run beside a change."""

    def __init__(self, offsets: Mapping[Entry, int]) -> None:
        self._slots: dict[int, _Slot] = {}
        for entry in sorted(offsets):
            self.add(entry, offsets[entry])

    def seconds(self) -> list[int]:
        """The seconds in which anything waits, in order."""
        return sorted(self._slots)

    def of(self, second: int) -> list[Entry]:
        """The messages of a second, in order."""
        return [*self._slots.get(second, ())]

    def by_second(self) -> dict[int, int]:
        """How many messages wait in each second."""
        return {second: slot.waiting for second, slot in self._slots.items()}

    def offset(self, entry: Entry) -> int | None:
        """The offset of the message's record; None if it does not wait."""
        slot = self._slots.get(entry.second)
        if slot is None:
            return None
        place, is_there = slot.place(entry)
        offset = slot.numbers[place + _FIELDS - 1] if is_there else _GONE
        return None if offset == _GONE else offset

    def matching(self, field: int, value: int) -> list[Entry]:
        """The messages that have this value in a field of their entry."""
        some = [slot for slot in self._slots.values() if value in slot.numbers]
        return [entry for slot in some for entry in slot if entry[field] == value]

    def add(self, entry: Entry, offset: int) -> None:
        """Add a message, or note where it is now."""
        slot = self._slots.setdefault(entry.second, _Slot())
        place, is_there = slot.place(entry)
        if not is_there:
            slot.numbers[place:place] = array("q", (*entry, _GONE))
        if slot.numbers[place + _FIELDS - 1] == _GONE:
            slot.waiting += 1
        slot.numbers[place + _FIELDS - 1] = offset

    def remove(self, entry: Entry) -> None:
        """Remove a message, if it waits."""
        if self.offset(entry) is None:
            return
        slot = self._slots[entry.second]
        slot.numbers[slot.place(entry)[0] + _FIELDS - 1] = _GONE
        slot.waiting -= 1
        if slot.waiting:
            slot.compact()
        else:
            del self._slots[entry.second]
