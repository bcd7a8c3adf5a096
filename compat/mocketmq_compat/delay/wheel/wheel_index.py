"""Index what waits in the wheel's files: exactly for files that are loaded, as a count for the others.

A loaded file takes 40 bytes a message: its due time, number and key hash in the timing wheel, whose slots
are seconds (``delay_index.py``), and the place of its record. A file is loaded ahead, or when somebody asks
for one of its messages. The first file in which anything waits is always loaded, so that the next due time
is known to the millisecond.
"""

import heapq
import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from mocketmq.errors import StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delay_index import DelayIndex
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.wheel.record import SPAN_S, start_of
from mocketmq_compat.delay.wheel.wheel_log import WheelLog

log = logging.getLogger(__name__)

T = TypeVar("T")


class Places:
    """The offsets of a file's records by the messages' numbers: 16 bytes each."""

    def __init__(self) -> None:
        self._numbers: array[int] = array("q")
        self._offsets: array[int] = array("q")

    def add(self, number: int, offset: int) -> None:
        """Note a record; numbers mostly rise."""
        if not self._numbers or number >= self._numbers[-1]:
            self._numbers.append(number)
            self._offsets.append(offset)
        else:
            index = bisect_right(self._numbers, number)
            self._numbers.insert(index, number)
            self._offsets.insert(index, offset)

    def of(self, number: int) -> list[int]:
        """The offsets of records with this number."""
        begin = bisect_left(self._numbers, number)
        return list(self._offsets[begin : bisect_right(self._numbers, number)])


class WheelIndex:
    """As :class:`~mocketmq_compat.delay.indexed_scheme.EntryIndex`.

    ``is_hidden`` says of a message in a file whether it does not wait yet, or no longer. New files that begin
    by ``loaded_to_s`` are loaded.
    """

    def __init__(self, files: WheelLog, is_hidden: Callable[[Entry], bool]) -> None:
        self.loaded_to_s = 0
        self._log = files
        self._is_hidden = is_hidden
        self._wheel = DelayIndex()
        self._counts: dict[int, int] = {}  # of each file in which anything waits
        self._places: dict[int, Places] = {}  # of each loaded file
        self._unloaded: list[int] = []  # heap of files that are not loaded, and of some that are
        self._unreadable: set[int] = set()
        self._late: dict[int, dict[Entry, int]] = {}  # what came while a file was being loaded ahead

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __contains__(self, entry: Entry) -> bool:
        start = start_of(entry)
        return start in self._counts and self._load(start) and entry in self._wheel

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in any order; files that are not loaded are read. Raises StoreUnavailableError."""
        yield from self._wheel
        for start in [*self._counts]:
            if start not in self._places:
                found = _readable(start, self._log.scan)
                yield from (entry for entry in found if not self._is_hidden(entry))

    @property
    def files(self) -> int:
        """How many files there are in which anything waits."""
        return len(self._counts)

    @property
    def loaded(self) -> list[int]:
        """The files that are loaded."""
        return [*self._places]

    def count(self, start: int) -> int:
        """How many messages wait in a file."""
        return self._counts.get(start, 0)

    def by_second(self) -> Mapping[int, int]:
        """How many messages wait in each second; those of a file that is not loaded count in its last one."""
        unloaded = {
            start + SPAN_S - 1: count for start, count in self._counts.items() if start not in self._places
        }
        return unloaded | self._wheel.by_second()

    # Loading

    def found(self, start: int, offsets: Mapping[Entry, int]) -> None:
        """Note the messages of a file that was found at the start."""
        if offsets:
            self._counts[start] = len(offsets)
            heapq.heappush(self._unloaded, start)
            if start <= self.loaded_to_s:
                self.adopt(start, offsets)

    def to_load(self) -> list[int]:
        """The files that are to be loaded ahead."""
        return sorted(s for s in self._counts if s <= self.loaded_to_s and s not in self._places)

    def expect(self, start: int) -> None:
        """A file is about to be read: note what is added to it meanwhile."""
        self._late[start] = {}

    def adopt(self, start: int, offsets: Mapping[Entry, int]) -> None:
        """Load a file with these messages, and those that were added meanwhile."""
        late = self._late.pop(start, {})
        if start not in self._counts or start in self._places:
            return
        pass_point("wheel.loaded")
        places = self._places[start] = Places()
        waiting = {entry: offset for entry, offset in offsets.items() if not self._is_hidden(entry)} | late
        for entry, offset in waiting.items():
            self._wheel.add(entry)
            places.add(entry.number, offset)
        self._count(start, len(waiting))

    def unload(self, start: int) -> None:
        """Leave only the count of a file in memory."""
        if self._places.pop(start, None) is not None:
            self._wheel.leave_out(range(start, start + SPAN_S))
            heapq.heappush(self._unloaded, start)

    def _load(self, start: int) -> bool:
        if start not in self._places:
            try:
                self.adopt(start, _readable(start, self._log.scan))
            except StoreUnavailableError as error:
                if start not in self._unreadable:
                    log.error("%s; trying until they can", error)
                self._unreadable.add(start)
                return False
            self._unreadable.discard(start)
        return True

    def _count(self, start: int, count: int) -> None:
        if count:
            self._counts[start] = count
        else:
            self._counts.pop(start, None)
            self._places.pop(start, None)

    # Changes

    def add(self, entry: Entry, offset: int) -> None:
        """Add a message that is saved at this place of its file."""
        start = start_of(entry)
        if start not in self._counts:
            if start <= self.loaded_to_s:
                self._places[start] = Places()
            else:
                heapq.heappush(self._unloaded, start)
        if (places := self._places.get(start)) is not None:
            if offset in places.of(entry.number):
                return  # loaded with its file
            self._wheel.add(entry)
            places.add(entry.number, offset)
        elif start in self._late:
            self._late[start][entry] = offset
        self._counts[start] = self._counts.get(start, 0) + 1

    def remove(self, entry: Entry) -> None:
        """Remove a message, if it is there."""
        if entry in self:
            self._wheel.remove(entry)
            self._count(start_of(entry), self._counts[start_of(entry)] - 1)

    # In order

    def first(self) -> Entry | None:
        """The entry that is due first, without those that were picked."""
        while True:
            entry = self._wheel.first()
            heap = self._unloaded
            while heap and (heap[0] in self._places or heap[0] not in self._counts):
                heapq.heappop(heap)
            if not heap or (entry is not None and start_of(entry) < heap[0]) or not self._load(heap[0]):
                return entry

    def pick(self) -> Entry:
        """As :meth:`DelayIndex.pick`, after ``first``."""
        return self._wheel.pick()

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Put picked entries back into the order."""
        self._wheel.put_back(entries)

    # Looking up

    def places(self, entry: Entry) -> list[int]:
        """The offsets at which the message may be."""
        start = start_of(entry)
        return self._places[start].of(entry.number) if self._load(start) and start in self._places else []

    def with_key(self, key_hash: int) -> list[Entry]:
        """The entries of messages whose key has this hash."""
        return self._with(self._wheel.with_key(key_hash), lambda start: self._log.keyed(start, key_hash))

    def with_number(self, number: int) -> list[Entry]:
        """The entries with this number."""
        return self._with(self._wheel.with_number(number), lambda start: self._log.numbered(start, number))

    def _with(self, loaded: Iterable[Entry], look_up: Callable[[int], list[Entry]]) -> list[Entry]:
        unloaded = [start for start in self._counts if start not in self._places]
        others = [entry for start in unloaded for entry in _readable(start, look_up)]
        return sorted({*loaded, *(entry for entry in others if entry in self)})


def _readable(start: int, read: Callable[[int], T]) -> T:
    """What ``read`` returns for a file. Raises StoreUnavailableError for an OSError."""
    try:
        return read(start)
    except OSError as error:
        raise StoreUnavailableError(
            f"the delayed messages due from {start} on cannot be read: {error.strerror or error}"
        ) from error
