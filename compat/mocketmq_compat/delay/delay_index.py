"""Index the delayed files in memory by due time, so that no directory has to be listed.

A file takes three numbers in an array of its second; only a second that is about to be due is unpacked. The
index is rebuilt from the names of directories and files alone.
"""

import heapq
from array import array
from collections.abc import Iterable, Iterator

from mocketmq_compat.delay.delayed_file import Entry

_FIELDS = len(Entry._fields)


class DelayIndex:
    """Every file that waits, by second. A picked entry stays in the index until it is removed."""

    def __init__(self) -> None:
        self._packed: dict[int, array[int]] = {}
        self._packed_order: list[int] = []  # heap of the keys of ``_packed``, and of some that are gone
        self._open: dict[int, set[Entry]] = {}
        self._heap: list[Entry] = []  # of the open seconds, and some that are gone
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, entry: Entry) -> bool:
        opened = self._open.get(entry.second)
        if opened is not None:
            return entry in opened
        return entry in _unpacked(self._packed.get(entry.second, _EMPTY))

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in any order."""
        for packed in self._packed.values():
            yield from _unpacked(packed)
        for opened in self._open.values():
            yield from opened

    @property
    def directories(self) -> int:
        """How many seconds hold files."""
        return len(self._packed) + len(self._open)

    def by_second(self) -> dict[int, int]:
        """How many files wait in each second."""
        counts = {second: len(packed) // _FIELDS for second, packed in self._packed.items()}
        return counts | {second: len(opened) for second, opened in self._open.items()}

    def add(self, entry: Entry) -> None:
        """Add a file. Adding it twice would count it twice."""
        second = entry.second
        self._count += 1
        opened = self._open.get(second)
        if opened is not None:
            opened.add(entry)
            heapq.heappush(self._heap, entry)
            return
        packed = self._packed.get(second)
        if packed is None:
            packed = self._packed[second] = array("q")
            heapq.heappush(self._packed_order, second)
        packed.extend(entry)

    def remove(self, entry: Entry) -> bool:
        """Remove a file, if it is there; whether its second is empty now."""
        second = entry.second
        opened = self._unpack(second)
        if opened is None or entry not in opened:
            return False
        self._count -= 1
        opened.remove(entry)
        if not opened:
            del self._open[second]
        return not opened

    def leave_out(self, seconds: Iterable[int]) -> None:
        """Forget what is due in these seconds."""
        for second in seconds:
            self._count -= len(self._packed.pop(second, _EMPTY)) // _FIELDS
            self._count -= len(self._open.pop(second, ()))

    def clear(self) -> None:
        """Remove all."""
        self.__init__()  # type: ignore[misc]

    def first(self) -> Entry | None:
        """The entry that is due first, without those that were picked."""
        heap, order = self._heap, self._packed_order
        while True:
            while heap and heap[0] not in self._open.get(heap[0].second, ()):
                heapq.heappop(heap)
            while order and order[0] not in self._packed:
                heapq.heappop(order)
            if not order or (heap and heap[0].second < order[0]):
                return heap[0] if heap else None
            self._unpack(order[0])

    def pick(self) -> Entry:
        """Pick the first entry: it is out of the order until ``put_back``, or for good after ``remove``."""
        entry = self.first()
        if entry is None:
            raise LookupError("nothing waits")
        # An entry that was removed and added again is in the heap twice.
        while self._heap and self._heap[0] == entry:
            heapq.heappop(self._heap)
        return entry

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Put picked entries back into the order."""
        for entry in entries:
            heapq.heappush(self._heap, entry)

    def with_key(self, key_hash: int) -> list[Entry]:
        """The entries of messages whose key has this hash."""
        return self._with(2, key_hash)

    def with_number(self, number: int) -> list[Entry]:
        """The entry with this number, or several after two directories were put together."""
        return self._with(1, number)

    def _with(self, field: int, value: int) -> list[Entry]:
        found = [
            entry
            for packed in self._packed.values()
            if value in packed
            for entry in _unpacked(packed)
            if entry[field] == value
        ]
        found += [entry for opened in self._open.values() for entry in opened if entry[field] == value]
        return sorted(found)

    def _unpack(self, second: int) -> set[Entry] | None:
        packed = self._packed.pop(second, None)
        if packed is not None:
            entries = list(_unpacked(packed))
            self._open[second] = set(entries)
            for entry in entries:
                heapq.heappush(self._heap, entry)
        return self._open.get(second)


_EMPTY: "array[int]" = array("q")


def _unpacked(packed: "array[int]") -> Iterator[Entry]:
    numbers = iter(packed)
    return map(Entry, *[numbers] * _FIELDS)
