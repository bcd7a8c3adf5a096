"""The days of the scheme ``slots``: a data file each, and an index for each hour that has records.

Opens the days, appends records, and rebuilds indexes. The data is authoritative: an index that is damaged or
lacks a record of its day is rebuilt from it. All indexes are checked when the days are opened, and each read
of an index is checked afterwards.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import Entry, parse_second
from mocketmq_compat.delay.known_parts import KnownPart, KnownParts, load_known, save_known
from mocketmq_compat.delay.quarantine import Quarantine
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, DayData, SlotRecord, data_name
from mocketmq_compat.delay.slots.hour_index import HourIndex, index_name
from mocketmq_compat.delay.slots.index_file import (
    HEADER_BYTES,
    HOUR_MS,
    ITEM_BYTES,
    DamagedIndexError,
    write_whole,
)
from mocketmq_compat.delay.slots.item_places import ItemPlaces
from mocketmq_compat.delay.slots.open_files import OpenFiles

HOURS: Final = DAY_MS // HOUR_MS
"""Number of hours in a day."""
log = logging.getLogger(__name__)
_TRIES: Final = 3
_KIND: Final = "slots"
_NUMBERS: Final = 6
"""Values kept for an index between runs: its counts."""
T = TypeVar("T")


@dataclass(eq=False)
class Day:
    """A day: the length of its data file, and the hours that have an index. ``lock`` guards the files."""

    number: int
    files: OpenFiles
    lock: threading.RLock
    end: int = HEADER_BYTES
    hours: dict[int, HourIndex] = field(default_factory=dict)
    is_indexed: bool = True  # False while rebuilding its indexes has failed

    @property
    def waiting(self) -> int:
        """The number of pending records."""
        return sum(hour.waiting for hour in self.hours.values())

    @property
    def disk_bytes(self) -> int:
        """Bytes of its data and items."""
        return self.end + sum(hour.items for hour in self.hours.values()) * ITEM_BYTES

    def hour(self, number: int) -> HourIndex | None:
        """Return the index of an hour, or None. Raises DamagedIndexError while the day is not indexed."""
        if not self.is_indexed:
            raise DamagedIndexError(number, "it has not been rebuilt yet")
        return self.hours.get(number)

    def open_indexes(self, numbers: Iterable[int], known: KnownParts) -> bool:
        """Open the indexes of these hours. Returns whether all are intact. Raises OSError."""
        is_good = True
        for number in numbers:
            index = HourIndex(number, self.files, self.lock)
            if (part := known.get(number, index.stamp())) is not None:
                index.trust(part.numbers)
            elif not index.check():
                is_good = False
                continue
            self.hours[number] = index
        return is_good

    def measure(self) -> bool:
        """Read the length of the data. Returns whether the indexes list all of it. Raises OSError."""
        self.end = os.fstat(self.files.read(data_name(self.number))).st_size
        return HEADER_BYTES + sum(hour.record_bytes for hour in self.hours.values()) == self.end

    def remove_indexes(self) -> None:
        """Forget all indexes, and remove their files. Raises OSError."""
        self.hours, self.end = {}, HEADER_BYTES
        for hour in range(self.number * HOURS, (self.number + 1) * HOURS):
            self.files.remove_file(index_name(hour))

    def add_item(self, entry: Entry, offset: int, size: int, *, is_done: bool) -> int:
        """Append an item to the index of its hour, creating the index if needed. Returns the item's place.

        If this raises OSError, no item was added.
        """
        number = entry.due_ms // HOUR_MS
        if number not in self.hours:
            hour = HourIndex(number, self.files, self.lock)
            hour.create()
            self.hours[number] = hour
        hour = self.hours[number]
        hour.add(entry, offset, size, is_done=is_done)
        return hour.items


class Days:
    """The days of a folder. Opening raises OSError.

    ``lock`` must be held for all methods but :meth:`mended`, :meth:`all_hours`, :meth:`hours_in_order`,
    :meth:`save_known` and :meth:`remove_over`. The event loop also acquires the lock, so no thread holds it
    for long, except to rebuild the indexes of a damaged day.
    """

    def __init__(self, root: Path, lock: threading.RLock) -> None:
        self.root = root
        self.disk_bytes = 0  # bytes of data and items
        self.recounts = 0
        self.places = ItemPlaces(lock)
        self._days: dict[int, Day] = {}
        self._lock = lock
        for folder in ("index", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.files = OpenFiles(root)
        # A broker that was killed before its sync may have added names.
        self.files.unsynced |= {"index", "data", ".", ".."}
        self.quarantine = Quarantine(root)
        self._data = DayData(root, self.files, self.quarantine)
        self._open_days()

    def save_known(self) -> None:
        """Save the counts of each index for the next start. Raises OSError."""
        hours = [hour for day in self._days.values() if day.is_indexed for hour in day.hours.values()]
        parts = [(hour.number, KnownPart(hour.stamp(), hour.counts)) for hour in hours if hour.items]
        save_known(self.root, _KIND, _NUMBERS, parts)

    @property
    def waiting(self) -> int:
        """The number of pending records."""
        return sum(day.waiting for day in self._days.values())

    def all_hours(self) -> list[HourIndex]:
        """Return all indexes, in any order."""
        with self._lock:
            return [hour for day in self._days.values() for hour in day.hours.values()]

    def hours_in_order(self) -> list[HourIndex]:
        """Return all indexes in order of their hours. Raises DamagedIndexError."""
        with self._lock:
            for number, day in self._days.items():
                day.hour(number * HOURS)
        return sorted(self.all_hours(), key=lambda hour: hour.number)

    def hour(self, number: int) -> HourIndex | None:
        """Return the index of an hour, or None. Raises DamagedIndexError."""
        day = self._days.get(number // HOURS)
        return None if day is None else day.hour(number)

    # Opening

    def _open_days(self) -> None:
        known = load_known(self.root, _KIND, _NUMBERS)
        data, indexes = self._numbers("data"), self._numbers("index")
        for number in sorted(data | {hour // HOURS for hour in indexes}):
            hours = [hour for hour in indexes if hour // HOURS == number]
            self._open_day(number, hours, known, number in data)

    def _numbers(self, folder: str) -> set[int]:
        """Read the numbers that name a folder's files, ignoring other files."""
        found = set()
        for path in (self.root / folder).iterdir():
            number = parse_second(path.name)
            if number is not None and path.is_file():
                found.add(number)
            elif path.suffix == ".tmp":
                path.unlink()
            else:
                self.quarantine.met["ignored"] += 1
                log.warning("ignoring %s: not a file of the scheme slots", path)
        return found

    def _open_day(self, number: int, hours: Sequence[int], known: KnownParts, has_data: bool) -> None:
        day = Day(number, self.files, self._lock)
        is_good = day.open_indexes(hours, known)
        if not (has_data and self._data.is_ours(number)):
            self._lose_day(number, hours, day.waiting)
            return
        self._days[number] = day
        if not (day.measure() and is_good):
            log.warning("rebuilding the indexes of day %d: they do not list all of its data", number)
            self._rebuild(day)
        self.disk_bytes += day.disk_bytes

    def _lose_day(self, number: int, hours: Iterable[int], waiting: int) -> None:
        for hour in hours:
            self.files.remove_file(index_name(hour))
        if waiting:
            self.quarantine.met["missing"] += waiting
            log.warning("%d messages are lost: %s is missing", waiting, self.root / data_name(number))

    # Damaged indexes

    def mended(self, act: Callable[[], T]) -> T:
        """Call ``act``, and again whenever this or another thread has rebuilt a damaged index.

        Raises DamagedIndexError if the last call fails too.
        """
        for _ in range(_TRIES):
            recounts = self.recounts
            try:
                result = act()
            except DamagedIndexError as error:
                self._mend(error, recounts)
            else:
                if self.recounts == recounts:
                    return result
        return act()

    def _mend(self, error: DamagedIndexError, recounts: int) -> None:
        """Rebuild the indexes of the day, unless another thread has rebuilt some since ``recounts``."""
        with self._lock:
            day = self._days.get(error.hour // HOURS)
            if self.recounts != recounts or day is None:
                return
            if day.is_indexed:
                log.warning(
                    "%s is damaged (%s): rebuilding the indexes of its day from the data",
                    self.root / error.filename,
                    error.strerror,
                )
                self.quarantine.met["index"] += 1
            self.disk_bytes -= day.disk_bytes
            try:
                self._rebuild(day)
            finally:
                self.disk_bytes += day.disk_bytes
            self.recounts += 1

    def _rebuild(self, day: Day) -> None:
        """Rebuild the indexes of a day from its data, quarantining damaged parts of the data."""
        day.is_indexed = False
        self.places.clear()
        day.remove_indexes()
        self._data.drop_damage(day.number)
        for part in data_file.records(self.files.write(data_name(day.number))):
            if isinstance(part, SlotRecord):
                self._add_item(day, part.entry, part.offset, part.size, is_done=part.is_done)
                day.end = part.offset + part.size
        day.is_indexed = True

    # Changes

    def append(self, entry: Entry, content: bytes) -> None:
        """Append a record to its day, and an item to its hour. Raises OSError and DamagedIndexError."""
        number = entry.due_ms // DAY_MS
        name = data_name(number)
        record = data_file.encode(entry, content)
        day = self._days.get(number)
        if day is None:
            day = Day(number, self.files, self._lock)
            self.files.create(name, index_file.header("data", number))
            self._days[number] = day
            self.disk_bytes += day.end
        day.hour(entry.due_ms // index_file.HOUR_MS)  # raises now if an item could not be added
        fd = self.files.write(name)
        try:
            write_whole(fd, record, day.end)
            pass_point("slots.recorded")
            self._add_item(day, entry, day.end, len(record), is_done=False)
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, day.end)  # otherwise a restart would find the refused message
            raise
        day.end += len(record)
        self.disk_bytes += len(record) + index_file.ITEM_BYTES

    def _add_item(self, day: Day, entry: Entry, offset: int, size: int, *, is_done: bool) -> None:
        place = day.add_item(entry, offset, size, is_done=is_done)
        if not is_done:
            self.places.remember(entry, place)

    def remove_over(self, today: int, *, is_cleared: bool) -> None:
        """Remove days before ``today``, or all with ``is_cleared``, that have no pending message."""
        with self._lock:
            numbers = [number for number in self._days if number < today or is_cleared]
        for number in numbers:
            with self._lock:
                self._remove_over(number)

    def _remove_over(self, number: int) -> None:
        day = self._days.get(number)
        if day is not None and day.is_indexed and not day.waiting:
            del self._days[number]
            self.disk_bytes -= day.disk_bytes
            for hour in day.hours:
                self.files.remove_file(index_name(hour))
            pass_point("slots.removed")
            self.files.remove_file(data_name(number))
