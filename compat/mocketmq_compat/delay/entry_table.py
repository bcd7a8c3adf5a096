"""Entries in order of delivery, in little memory. The time of a change does not grow with their number.

How it works. The entries are in blocks of up to ``BLOCK`` entries, and a block has a column of numbers for
each field. ``bisect`` finds the block, and then the place in the block, without calling Python code. A change
moves numbers of a single block. So no step sorts, copies or scans all entries, which would block the event
loop: a second in which ten million messages are due is delivered like any other.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from mocketmq_compat.delay.delayed_file import MS_PER_S, Entry

BLOCK: Final = 1_024
"""Maximum number of entries in a block."""
MOST_SECONDS: Final = 100_000
"""Number of seconds up to which entries are counted by the second. Copying and sorting more takes long."""
_FIELDS: Final = len(Entry._fields)

Columns = Sequence["array[int]"]
"""The numbers of several entries: one column for each field of an entry, and for each further number."""


class EntryTable:
    """Sorted entries, each with ``further`` additional numbers. Each number takes eight bytes.

    Not safe for use by several threads at once. Methods with a ``lock`` hold it for one block at a time, and
    may miss entries that are added meanwhile.
    """

    def __init__(self, further: int = 0) -> None:
        self._width = _FIELDS + further
        self._blocks: list[Columns] = []
        self._begins: list[Entry] = []  # by block: its first entry, or an earlier entry
        self._by_second: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, entry: Entry) -> bool:
        return self._find(entry)[2]

    @property
    def by_second(self) -> Mapping[int, int]:
        """The number of entries due in each second."""
        return self._by_second

    def due_seconds(self) -> dict[int, int]:
        """Copy ``by_second``; with many seconds, the entries of a block count for its last second."""
        if len(self._by_second) <= MOST_SECONDS:
            return dict(self._by_second)
        counts: dict[int, int] = {}
        for dues, *_ in self._blocks:
            second = dues[-1] // MS_PER_S
            counts[second] = counts.get(second, 0) + len(dues)
        return counts

    def number_of(self, entry: Entry) -> int | None:
        """Return the last number of an entry; None if the entry is not there."""
        index, place, is_there = self._find(entry)
        return self._blocks[index][-1][place] if is_there else None

    # Changes

    def add(self, entry: Entry, *further: int) -> bool:
        """Add an entry, or replace its further numbers. Returns whether it is new."""
        index, place, is_there = self._find(entry)
        if is_there:
            for column, number in zip(self._blocks[index][_FIELDS:], further, strict=True):
                column[place] = number
            return False
        if not self._blocks or len(self._blocks[index][0]) >= BLOCK:
            self._make_room(index, entry)
            index, place, _ = self._find(entry)
        self._begins[index] = min(self._begins[index], entry)
        for column, number in zip(self._blocks[index], (*entry, *further), strict=True):
            column.insert(place, number)
        self._note(entry.second, 1)
        return True

    def append(self, columns: Columns, by_second: Mapping[int, int]) -> None:
        """Add sorted entries that come after all others. ``by_second`` has their number in each second."""
        done, count = 0, len(columns[0])
        while done < count:
            if not self._blocks or len(self._blocks[-1][0]) >= BLOCK:
                self._begin_block(_entry(columns, done))
            end = done + BLOCK - len(self._blocks[-1][0])
            for column, others in zip(self._blocks[-1], columns, strict=True):
                column.extend(others[done:end])
            done = end
        for second, entries in by_second.items():
            self._note(second, entries)

    def remove(self, entry: Entry) -> bool:
        """Remove an entry. Returns whether it was there."""
        index, place, is_there = self._find(entry)
        if is_there:
            block = self._blocks[index]
            for column in block:
                del column[place]
            if not block[0]:
                del self._blocks[index], self._begins[index]
            self._note(entry.second, -1)
        return is_there

    # Reading

    def pages(
        self, lock: AbstractContextManager[Any], without: Container[Entry] = ()
    ) -> Iterator[list[Entry]]:
        """Yield all entries that are not in ``without``, in order, as lists of some entries."""
        after: Entry | None = None
        while True:
            with lock:
                columns = self._following(after)
                if not columns:
                    return
                after = _entry(columns, -1)
                page = [entry for entry in map(Entry, *columns[:_FIELDS]) if entry not in without]
            yield page

    def first(self, limit: int, without: Container[Entry], lock: AbstractContextManager[Any]) -> list[Entry]:
        """Return the first ``limit`` entries that are not in ``without``."""
        found: list[Entry] = []
        for page in self.pages(lock, without):
            found += page
            if len(found) >= limit:
                break
        return found[:limit]

    def matching(self, field: int, value: int, lock: AbstractContextManager[Any]) -> list[Entry]:
        """Return the entries with this value in a field, in order."""
        found: list[Entry] = []
        after: Entry | None = None
        while True:
            with lock:
                columns = self._following(after)
            if not columns:
                return found
            after = _entry(columns, -1)
            if value in columns[field]:
                found += (entry for entry in map(Entry, *columns[:_FIELDS]) if entry[field] == value)

    def of_second(self, second: int) -> Columns:
        """Return the numbers of all entries of a second, in order."""
        found = [array("q") for _ in range(self._width)]
        index, place, _ = self._find(Entry(second * MS_PER_S, 0, 0))
        left = self._by_second.get(second, 0)
        while left:
            for column, others in zip(found, self._blocks[index], strict=True):
                column.extend(others[place : place + left])
            left = self._by_second[second] - len(found[0])
            index, place = index + 1, 0
        return found

    def _following(self, entry: Entry | None) -> Columns:
        """Return the numbers of the entries after this one, up to the end of a block; () at the end."""
        index, place = 0, 0
        if entry is not None:
            index, place, is_there = self._find(entry)
            place += is_there
            if self._blocks and place >= len(self._blocks[index][0]):
                index, place = index + 1, 0
        return [column[place:] for column in self._blocks[index]] if index < len(self._blocks) else ()

    # Blocks

    def _find(self, entry: Entry) -> tuple[int, int, bool]:
        """Return the entry's block, its place there or where to insert it, and whether it exists."""
        if not self._blocks:
            return 0, 0, False
        index = max(bisect_right(self._begins, entry) - 1, 0)
        dues, numbers, key_hashes = self._blocks[index][:_FIELDS]
        low = bisect_left(dues, entry.due_ms)
        high = bisect_right(dues, entry.due_ms, low)
        place = bisect_left(numbers, entry.number, low, high)
        while place < high and numbers[place] == entry.number:  # equal only after two folders were merged
            if key_hashes[place] >= entry.key_hash:
                return index, place, key_hashes[place] == entry.key_hash
            place += 1
        return index, place, False

    def _make_room(self, index: int, entry: Entry) -> None:
        """Split a full block, or begin a new one if the entry comes after all others."""
        if not self._blocks or (index == len(self._blocks) - 1 and entry > _entry(self._blocks[index], -1)):
            self._begin_block(entry)
            return
        half = [column[BLOCK // 2 :] for column in self._blocks[index]]
        for column in self._blocks[index]:
            del column[BLOCK // 2 :]
        self._blocks.insert(index + 1, half)
        self._begins.insert(index + 1, _entry(half, 0))

    def _begin_block(self, entry: Entry) -> None:
        """Add an empty block at the end, for this entry."""
        self._blocks.append([array("q") for _ in range(self._width)])
        self._begins.append(entry)

    def _note(self, second: int, change: int) -> None:
        self._count += change
        if left := self._by_second.get(second, 0) + change:
            self._by_second[second] = left
        else:
            del self._by_second[second]


def _entry(columns: Columns, place: int) -> Entry:
    return Entry(*(column[place] for column in columns[:_FIELDS]))
