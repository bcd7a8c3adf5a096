"""The store of the scheme ``slots``: an index per hour with slots of 0.1 s, and a data file per day.

A record is appended to the data file of its due day, and an item in its hour's index points from its slot to
the record. Memory holds a few numbers per hour and day, and the locations of recently used records. Settled
records are marked in both files. Both files are removed once their day is past and has no pending message.

The data is authoritative, so an index that is damaged or lacks a record of its day is rebuilt from the data.
All indexes are checked when the store is opened, and each read of an index is checked afterwards.
"""

import heapq
import logging
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from mocketmq.clock import US_PER_MS
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode, parse_second
from mocketmq_compat.delay.known_parts import KnownPart, KnownParts, load_known, save_known
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, PREFIX_BYTES, SlotRecord
from mocketmq_compat.delay.slots.day_data import DayData, data_name
from mocketmq_compat.delay.slots.hour_index import NO_NUMBER, HourIndex, index_name
from mocketmq_compat.delay.slots.index_file import (
    HEADER_BYTES,
    HOUR_MS,
    DamagedIndexError,
    Item,
    slot_of,
    write_whole,
)
from mocketmq_compat.delay.slots.open_files import OpenFiles, sync
from mocketmq_compat.delay.slots.open_slot import OpenSlot
from mocketmq_compat.delay.slots.quarantine import Quarantine

log = logging.getLogger(__name__)

FOLDER: Final = "slots"
_HOURS: Final = DAY_MS // HOUR_MS
_LOCATIONS: Final = 65_536
"""Maximum number of records with a cached item; more than the engine works on at once."""
_FULL: Final = 4_096
"""Number of pending records from which on a slot stays open while it is delivered."""
_TRIES: Final = 3
_KIND: Final = "slots"
_NUMBERS: Final = 6
"""What is known of an index between runs: its counts."""

T = TypeVar("T")


@dataclass
class Day:
    """A day's data file: its length, and the hours that have an index."""

    end: int = HEADER_BYTES
    hours: dict[int, HourIndex] = field(default_factory=dict)
    is_indexed: bool = True  # False: rebuilding its indexes has failed so far

    @property
    def waiting(self) -> int:
        """The number of pending records."""
        return sum(hour.waiting for hour in self.hours.values())

    @property
    def disk_bytes(self) -> int:
        """Bytes of its data and items."""
        return self.end + sum(hour.items for hour in self.hours.values()) * index_file.ITEM_BYTES


class SlotStore:
    """A :class:`~mocketmq_compat.delay.store.DelayStore` in the folder ``slots``. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk_bytes = 0  # bytes of data and items
        self.recounts = 0
        self.repeats = 0
        self._days: dict[int, Day] = {}
        self._locations: OrderedDict[Entry, int] = OrderedDict()
        self._last_slot: OpenSlot | None = None  # being read, or the last one that was
        self._full_slots: dict[tuple[int, int], OpenSlot] = {}  # kept until their last record is settled
        self._first_reads = threading.Lock()  # taken before ``_lock``, for calls of ``first_records``
        self._lock = threading.RLock()  # never held for long, because the event loop takes it too
        for folder in ("index", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self._files = OpenFiles(root)
        self._quarantine = Quarantine(root)
        self._data = DayData(root, self._files, self._quarantine)
        self._is_closed = False
        self._open_days()

    def by_second(self) -> Mapping[int, int]:
        """Return nothing, because the store has no counts by second."""
        return {}

    def disk_bytes_of(self, size: int) -> int:
        """Return about the size of the content."""
        return size

    def adopt(self, now_us: int) -> Sequence[Entry]:  # noqa: ARG002 - see DelayStore
        """Return nothing, because no other program can add records."""
        return ()

    def close(self) -> None:
        """Remove files without pending messages, and close all other files."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):
            self.remove_over(0, is_cleared=True)
            self.sync(())
            self._save_known()
        with self._lock:
            self._files.close()

    def _save_known(self) -> None:
        """Write down the counts of each index, for the next start."""
        hours = [hour for day in self._days.values() if day.is_indexed for hour in day.hours.values()]
        parts = [(hour.number, KnownPart(hour.stamp(), hour.counts)) for hour in hours if hour.items]
        save_known(self.root, _KIND, _NUMBERS, parts)

    @property
    def count(self) -> int:
        with self._lock:
            return sum(day.waiting for day in self._days.values())

    @property
    def damaged(self) -> Counter[str]:
        """Damaged pieces found since the start, by kind."""
        return self._quarantine.met

    @property
    def quarantined(self) -> int:
        return self._quarantine.pieces

    @property
    def last_number(self) -> int:
        return max((hour.greatest_number for hour in self._all_hours()), default=0)

    @property
    def parts(self) -> int:
        """The number of hours with pending messages."""
        return sum(hour.waiting > 0 for hour in self._all_hours())

    # Opening

    def _open_days(self) -> None:
        known = load_known(self.root, _KIND, _NUMBERS)
        data, indexes = self._numbers("data"), self._numbers("index")
        for number in sorted(data | {hour // _HOURS for hour in indexes}):
            hours = [hour for hour in indexes if hour // _HOURS == number]
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
                self.damaged["ignored"] += 1
                log.warning("ignoring %s: not a file of the scheme slots", path)
        return found

    def _open_day(self, number: int, hours: Sequence[int], known: KnownParts, has_data: bool) -> None:
        day = self._days[number] = Day()
        waiting = record_bytes = 0
        is_good = True
        for hour in hours:
            index = HourIndex(hour, self._files, self._lock)
            if (part := known.get(hour, index.stamp())) is not None:
                index.trust(part.numbers)
            elif not index.check():
                is_good = False
                continue
            day.hours[hour] = index
            waiting += index.waiting
            record_bytes += index.record_bytes
        if not (has_data and self._data.is_ours(number)):
            self._lose_day(number, hours, waiting)
            return
        day.end = os.fstat(self._files.read(data_name(number))).st_size
        if not is_good or HEADER_BYTES + record_bytes != day.end:
            log.warning("rebuilding the indexes of day %d: they do not list all of its data", number)
            self._rebuild(number)
        self.disk_bytes += day.disk_bytes

    def _lose_day(self, number: int, hours: Iterable[int], waiting: int) -> None:
        del self._days[number]
        for hour in hours:
            self._files.remove_file(index_name(hour))
        if waiting:
            self.damaged["missing"] += waiting
            log.warning("%d messages are lost: %s is missing", waiting, self.root / data_name(number))

    def _rebuild(self, number: int) -> None:
        """Rebuild the indexes of a day from its data, quarantining damaged parts of the data."""
        day = self._days[number]
        day.is_indexed = False
        day.hours, day.end = {}, HEADER_BYTES
        self._locations.clear()
        self._last_slot = None
        self._full_slots.clear()
        for hour in range(number * _HOURS, (number + 1) * _HOURS):
            self._files.remove_file(index_name(hour))
        name = data_name(number)
        self._data.drop_damage(number)
        for part in data_file.records(self._files.write(name)):
            if isinstance(part, SlotRecord):
                self._add_item(day, part.entry, part.offset, part.size, is_done=part.is_done)
                day.end = part.offset + part.size
        day.is_indexed = True

    # Indexes damaged while in use

    def _mended(self, act: Callable[[], T]) -> T:
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
            day = self._days.get(error.hour // _HOURS)
            if self.recounts != recounts or day is None:
                return
            if day.is_indexed:
                log.warning(
                    "%s is damaged (%s): rebuilding the indexes of its day from the data",
                    self.root / error.filename,
                    error.strerror,
                )
                self.damaged["index"] += 1
            self.disk_bytes -= day.disk_bytes
            try:
                self._rebuild(error.hour // _HOURS)
            finally:
                self.disk_bytes += day.disk_bytes
            self.recounts += 1

    def _hour(self, number: int) -> HourIndex | None:
        """Return the index of an hour, or None. The caller must hold the lock."""
        day = self._days.get(number // _HOURS)
        if day is None:
            return None
        if not day.is_indexed:
            raise DamagedIndexError(number, "it has not been rebuilt yet")
        return day.hours.get(number)

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        """Append the record to its day, and an item to its hour."""
        with self._lock:
            self._mended(partial(self._write, entry, content))

    def _write(self, entry: Entry, content: bytes) -> None:
        number = entry.due_ms // DAY_MS
        day = self._days.get(number) or Day()
        name = data_name(number)
        record = data_file.encode(entry, content)
        if number not in self._days:
            self._files.create(name, index_file.header("data", number))
            self._days[number] = day
            self.disk_bytes += day.end
        self._hour(entry.due_ms // HOUR_MS)
        fd = self._files.write(name)
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
        number = entry.due_ms // HOUR_MS
        if number not in day.hours:
            hour = HourIndex(number, self._files, self._lock)
            hour.create()
            day.hours[number] = hour
        hour = day.hours[number]
        hour.add(entry, offset, size, is_done=is_done)
        if not is_done:
            self._remember(entry, hour.items)

    def sync(self, entries: Iterable[Entry]) -> None:  # noqa: ARG002 - syncs all writes
        """Sync all data files and indexes that have changed."""
        with self._lock:
            names = self._files.take_unsynced()
        sync(self.root, names)

    def remove_record(self, entry: Entry) -> None:
        """Mark the record of a refused message as settled."""
        self.forget([entry])

    # Pending records

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first entries slot by slot, sorting only the slots that it needs."""
        with self._first_reads:
            return self._mended(partial(self._first, limit, without))

    def _first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        found: list[Entry] = []
        for hour in self._hours():
            for slot, head in hour.waiting_slots() if hour.waiting else ():
                found += self._first_in_slot(hour, slot, head, limit - len(found), without)
                if len(found) >= limit:
                    return found
        return found

    def _first_in_slot(
        self, hour: HourIndex, slot: int, head: int, limit: int, without: Container[Entry]
    ) -> list[Entry]:
        with self._lock:
            opened = self._last_slot = self._full_slot(hour, slot) or OpenSlot(hour, slot, self._lock)
        found = opened.first(head, limit, without)
        with self._lock:
            if len(opened.pending) >= _FULL:
                self._full_slots[hour.number, slot] = opened
            else:
                self._remember_all((entry, opened.pending.number_of(entry)) for entry in found)
        if not opened.pending:
            hour.pass_over(slot, head)
        return found

    def _full_slot(self, hour: HourIndex, slot: int) -> OpenSlot | None:
        opened = self._full_slots.get((hour.number, slot))
        return opened if opened is not None and opened.hour is hour else None

    def _all_hours(self) -> list[HourIndex]:
        with self._lock:
            return [hour for day in self._days.values() for hour in day.hours.values()]

    def _hours(self) -> list[HourIndex]:
        """Return all indexes in order of their hours."""
        with self._lock:
            for number in self._days:
                self._hour(number * _HOURS)
        return sorted(self._all_hours(), key=lambda hour: hour.number)

    def holds(self, entry: Entry) -> bool:
        with self._lock:
            return self._mended(partial(self._find, entry)) is not None

    def read(self, entry: Entry) -> bytes:
        """Read the content of a record, whose own checksum the caller verifies."""
        with self._lock:
            return self._mended(partial(self._read, entry))

    def _read(self, entry: Entry) -> bytes:
        found = self._find_surely(entry)
        if found is None:
            raise FileNotFoundError(entry.name)
        return self._content(self._files.read(data_name(entry.due_ms // DAY_MS)), *found)

    def _content(self, data: int, place: int, item: Item) -> bytes:
        """Read an item's content; if the record's head is damaged, check that it is the item's message."""
        content = os.pread(data, item.size - PREFIX_BYTES, item.offset + PREFIX_BYTES)
        is_there = data_file.begins(data, item.offset, item.size, item.entry)
        if not is_there and not _is_message(content, item.entry):
            reason = f"item {place} leads to no record of {item.entry.name}"
            raise DamagedIndexError(item.entry.due_ms // HOUR_MS, reason)
        return content

    def with_number(self, number: int) -> list[Entry]:
        """Return the entries with this number. Scans the indexes whose range includes it."""
        return self._mended(partial(self._matching, 1, number, number, number))

    def with_key(self, key_hash: int) -> list[Entry]:
        """Return the entries with this key hash. Scans all indexes."""
        return self._mended(partial(self._matching, 2, key_hash, 0, NO_NUMBER))

    def _matching(self, field: int, value: int, least: int, greatest: int) -> list[Entry]:
        found = [(entry, item) for entry, item in self._with(least, greatest) if entry[field] == value]
        with self._lock:
            self._remember_all(found)
        return [entry for entry, _ in found]

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Return entries in order of arrival. Scans the indexes with later numbers."""

        def found() -> list[Entry]:
            later = (each for each in self._with(after + 1, NO_NUMBER) if each[0].number > after)
            first = heapq.nsmallest(limit, later, key=lambda each: each[0].number)
            with self._lock:
                self._remember_all(first[:_LOCATIONS])
            return [entry for entry, _ in first]

        return self._mended(found)

    def all(self) -> Iterator[Entry]:
        """Yield every entry. Scans all indexes, hour by hour."""
        return iter(self._mended(lambda: [entry for entry, _ in self._with(0, NO_NUMBER)]))

    def _with(self, least: int, greatest: int) -> Iterator[tuple[Entry, int]]:
        """Yield all entries of the hours that have numbers in this range, and the places of their items."""
        for hour in self._hours():
            if hour.waiting and hour.least_number <= greatest and hour.greatest_number >= least:
                for number, item in enumerate(hour.in_order(), 1):
                    if not item.mark:
                        yield item.entry, number

    def _find(self, entry: Entry) -> tuple[int, Item] | None:
        """Find the number and the item of a pending record. The caller must hold the lock."""
        hour = self._hour(entry.due_ms // HOUR_MS)
        if hour is None:
            return None
        place = self._locations.get(entry)
        if place is None and (opened := self._full_slot(hour, slot_of(entry.due_ms))):
            place = opened.pending.number_of(entry)
        if place is not None:
            item = hour.item(place)
            if item.entry != entry:
                raise DamagedIndexError(hour.number, f"item {place} is not that of {entry.name}")
            return None if item.mark else (place, item)
        if (found := hour.find(entry)) is not None:
            self._remember(entry, found[0])
        return found

    def _find_surely(self, entry: Entry) -> tuple[int, Item] | None:
        """Like ``_find``; returns None only after checking that the table is intact."""
        found = self._find(entry)
        if found is None and (hour := self._hour(entry.due_ms // HOUR_MS)) is not None:
            hour.table()
        return found

    def _remember_all(self, entries: Iterable[tuple[Entry, int | None]]) -> None:
        for entry, item in entries:
            if item is not None:
                self._remember(entry, item)

    def _remember(self, entry: Entry, item: int) -> None:
        self._locations[entry] = item
        self._locations.move_to_end(entry)
        if len(self._locations) > _LOCATIONS:
            self._locations.popitem(last=False)

    # Removal

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Mark each record in the index, then in the data, because opening the store counts by the index."""
        for entry in entries:
            with self._lock:
                self._mended(partial(self._forget, entry))
        return ()

    def _forget(self, entry: Entry) -> None:
        found, hour = self._find_surely(entry), self._hour(entry.due_ms // HOUR_MS)
        if found is None or hour is None:
            return
        place, item = found
        data = self._files.write(data_name(entry.due_ms // DAY_MS))
        if not data_file.begins(data, item.offset, item.size, entry):
            self._content(data, place, item)  # raises unless the index is right and the record is damaged
        if data_file.is_done(data, item.offset):
            raise DamagedIndexError(hour.number, f"item {place} lacks the mark of its record")
        hour.mark(place)
        self._locations.pop(entry, None)
        slot = slot_of(entry.due_ms)
        if self._last_slot is not None:
            self._last_slot.settle(entry)
        if (full := self._full_slot(hour, slot)) is not None:
            full.settle(entry)
            if not full.pending:
                del self._full_slots[hour.number, slot]
        pass_point("slots.marked")
        data_file.set_done(data, item.offset)

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the record to the quarantine, and mark it as settled."""
        name = f"data/{entry.due_ms // DAY_MS}-{entry.name}"
        place = self._quarantine.place_for(name, kind, reason)
        with suppress(FileNotFoundError):
            place.write_bytes(self.read(entry))
        self.forget([entry])

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove the data and indexes of past days without pending messages."""
        today = now_us // US_PER_MS // DAY_MS
        with self._lock:
            for number, day in [*self._days.items()]:
                if day.is_indexed and not day.waiting and (number < today or is_cleared):
                    del self._days[number]
                    self.disk_bytes -= day.disk_bytes
                    for hour in day.hours:
                        self._files.remove_file(index_name(hour))
                    pass_point("slots.removed")
                    self._files.remove_file(data_name(number))


def _is_message(content: bytes, entry: Entry) -> bool:
    """Return whether the content is an intact message of this entry."""
    try:
        return decode(content).header.entry == entry
    except DamagedFileError:
        return False
