"""The folder ``slots``: an index per hour with slots of 0.1 s as keys, and a data file per day of delivery.

A record goes to the end of its day's data, and an item in its hour's index leads to it from its slot. Memory
holds a few numbers per hour and day, and where recently used records are. What is done with is marked in
both; both are removed together when their day is over and nothing of it waits any more.

The data is what counts: an index that is damaged, or does not name every record of its day, is made again.
All are checked at the start, and from then on what is read of them.
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
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, PREFIX_BYTES, SlotDamage, SlotRecord
from mocketmq_compat.delay.slots.hour_index import NO_NUMBER, HourIndex, index_name
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES, HOUR_MS, DamagedIndexError, Item, write_whole
from mocketmq_compat.delay.slots.open_files import OpenFiles, sync
from mocketmq_compat.delay.slots.quarantine import Quarantine

log = logging.getLogger(__name__)

FOLDER: Final = "slots"
_HOURS: Final = DAY_MS // HOUR_MS
_LOCATIONS: Final = 65_536
"""Records whose items are remembered: more than a scheme has in hand at once."""
_TRIES: Final = 3

T = TypeVar("T")


@dataclass
class Day:
    """A data file: its length, and the hours that have an index."""

    end: int = HEADER_BYTES
    hours: dict[int, HourIndex] = field(default_factory=dict)
    is_indexed: bool = True  # else its indexes could not be made again so far

    @property
    def waiting(self) -> int:
        """How many of its records wait."""
        return sum(hour.waiting for hour in self.hours.values())

    @property
    def disk_bytes(self) -> int:
        """What its data and items take."""
        return self.end + sum(hour.items for hour in self.hours.values()) * index_file.ITEM_BYTES


class SlotStore:
    """As :class:`~mocketmq_compat.delay.store.DelayStore`. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk_bytes = 0  # of data and items
        self.recounts = 0
        self.repeats = 0
        self._days: dict[int, Day] = {}
        self._locations: OrderedDict[Entry, int] = OrderedDict()
        self._lock = threading.RLock()  # never held for long: the event loop takes it, too
        for folder in ("index", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self._files = OpenFiles(root)
        self._quarantine = Quarantine(root)
        self._open_days()

    def by_second(self) -> Mapping[int, int]:
        """Not known."""
        return {}

    def disk_bytes_of(self, size: int) -> int:
        """About that of the content."""
        return size

    def adopt(self, now_us: int) -> Sequence[Entry]:  # noqa: ARG002 - see DelayStore
        """Nobody else writes here."""
        return ()

    def close(self) -> None:
        """Close all files, and remove those of which nothing waits."""
        with suppress(OSError):
            self.remove_over(0, is_cleared=True)
        with self._lock:
            self._files.close()

    @property
    def count(self) -> int:
        """How many records wait."""
        with self._lock:
            return sum(day.waiting for day in self._days.values())

    @property
    def damaged(self) -> Counter[str]:
        """What was found damaged since the start, by kind."""
        return self._quarantine.met

    @property
    def quarantined(self) -> int:
        """How many pieces lie in the quarantine."""
        return self._quarantine.pieces

    @property
    def last_number(self) -> int:
        """The largest number of all records."""
        return max((hour.greatest_number for hour in self._all_hours()), default=0)

    @property
    def parts(self) -> int:
        """How many hours have something waiting."""
        return sum(hour.waiting > 0 for hour in self._all_hours())

    # Open

    def _open_days(self) -> None:
        data, indexes = self._numbers("data"), self._numbers("index")
        for number in sorted(data | {hour // _HOURS for hour in indexes}):
            self._open_day(number, [hour for hour in indexes if hour // _HOURS == number], number in data)

    def _numbers(self, folder: str) -> set[int]:
        """The numbers that name files; whatever else is there is left alone."""
        found = set()
        for path in (self.root / folder).iterdir():
            number = parse_second(path.name)
            if number is not None and path.is_file():
                found.add(number)
            elif path.suffix == ".tmp":
                path.unlink()
            else:
                self.damaged["ignored"] += 1
                log.warning("%s is no file of the scheme slots and is left alone", path)
        return found

    def _open_day(self, number: int, hours: Sequence[int], has_data: bool) -> None:
        day = self._days[number] = Day()
        waiting = record_bytes = 0
        is_good = True
        for hour in hours:
            index = HourIndex(hour, self._files, self._lock)
            size = index.check()
            if size is None:
                is_good = False
                continue
            day.hours[hour] = index
            waiting += index.waiting
            record_bytes += size
        if not (has_data and self._is_data(number)):
            self._lose_day(number, hours, waiting)
            return
        day.end = os.fstat(self._files.read(_data(number))).st_size
        if not is_good or HEADER_BYTES + record_bytes != day.end:
            log.warning("the indexes of day %d do not name all of its data, and are made again", number)
            self._rebuild(number)
        self.disk_bytes += day.disk_bytes

    def _is_data(self, number: int) -> bool:
        """Whether the file begins as data of this version does; any other is put aside."""
        name = _data(number)
        found = os.pread(self._files.read(name), HEADER_BYTES, 0)
        if found == index_file.header("data", number):
            return True
        self._files.close_file(name)
        if found.strip(b"\0"):
            reason = "it does not begin as data of this version and day does"
            (self.root / name).rename(self._quarantine.place_for(name, "version", reason))
        else:
            self._files.remove(name)  # it was being made when the power failed
        return False

    def _lose_day(self, number: int, hours: Iterable[int], waiting: int) -> None:
        del self._days[number]
        for hour in hours:
            self._files.remove(index_name(hour))
        if waiting:
            self.damaged["missing"] += waiting
            log.warning("%d messages are lost: %s is missing", waiting, self.root / _data(number))

    def _rebuild(self, number: int) -> None:
        """Make the indexes of a day again from its data, and put aside what of that is no record."""
        day = self._days[number]
        day.is_indexed = False
        day.hours, day.end = {}, HEADER_BYTES
        self._locations.clear()
        for hour in range(number * _HOURS, (number + 1) * _HOURS):
            self._files.remove(index_name(hour))
        name = _data(number)
        if any(isinstance(part, SlotDamage) for part in data_file.records(self._files.read(name))):
            self._drop_damage(name)
        for part in data_file.records(self._files.write(name)):
            if isinstance(part, SlotRecord):
                self._add_item(day, part.entry, part.offset, part.size, is_done=part.is_done)
                day.end = part.offset + part.size
        day.is_indexed = True

    def _drop_damage(self, name: str) -> None:
        """Write the data again without what is no record."""
        fd = self._files.read(name)
        temporary = self.root / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(os.pread(fd, HEADER_BYTES, 0))
            for part in data_file.records(fd):
                content = os.pread(fd, part.size, part.offset)
                if isinstance(part, SlotRecord):
                    file.write(content)
                else:
                    kind = "torn" if content.startswith(data_file.MAGIC) else "stray"
                    reason = f"{part.size} bytes at {part.offset} are no record"
                    place = self._quarantine.place_for(f"{name}-{part.offset}", kind, reason)
                    place.write_bytes(content)
            file.flush()
            os.fsync(file.fileno())
        self._files.replace(name, temporary)

    # Indexes that are damaged meanwhile

    def _mended(self, act: Callable[[], T]) -> T:
        """Do it; once more when a damaged index has been made again, be it for this or for another thread.

        Raises DamagedIndexError when that does not help.
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
        """Make the indexes of its day again, unless that has been done since."""
        with self._lock:
            day = self._days.get(error.hour // _HOURS)
            if self.recounts != recounts or day is None:
                return
            if day.is_indexed:
                log.warning(
                    "%s is damaged, %s: the indexes of its day are made again from the data",
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
        """The index of an hour, if there is one. Under the lock."""
        day = self._days.get(number // _HOURS)
        if day is None:
            return None
        if not day.is_indexed:
            raise DamagedIndexError(number, "it could not be made again so far")
        return day.hours.get(number)

    # Records that come

    def write(self, entry: Entry, content: bytes) -> None:
        """Append the record to its day, and an item to its hour."""
        with self._lock:
            self._mended(partial(self._write, entry, content))

    def _write(self, entry: Entry, content: bytes) -> None:
        number = entry.due_ms // DAY_MS
        day = self._days.get(number) or Day()
        name = _data(number)
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
                os.ftruncate(fd, day.end)  # else a restart would find a message that was refused
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

    def sync(self, entries: Iterable[Entry]) -> None:  # noqa: ARG002 - all that was written
        """Make all data and indexes durable that have changed."""
        with self._lock:
            names = self._files.take_unsynced()
        sync(self.root, names)

    def remove(self, entry: Entry) -> None:
        """Mark the record, whose sender is refused."""
        self.forget([entry])

    # What waits

    def first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """The first records, slot by slot: only a slot that is about to be due is put in order."""
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
        is_over = True

        def waiting() -> Iterator[tuple[Entry, int]]:
            nonlocal is_over
            for item, each in hour.in_slot(slot, head):
                if not each.mark:
                    is_over = False
                    if each.entry not in without:
                        yield each.entry, item

        found = heapq.nsmallest(limit, waiting())  # in little memory
        with self._lock:
            for entry, item in found:
                self._remember(entry, item)
        if is_over:
            hour.pass_over(slot, head)
        return [entry for entry, _ in found]

    def _all_hours(self) -> list[HourIndex]:
        with self._lock:
            return [hour for day in self._days.values() for hour in day.hours.values()]

    def _hours(self) -> list[HourIndex]:
        """All indexes, in order of their hours."""
        with self._lock:
            for number in self._days:
                self._hour(number * _HOURS)
        return sorted(self._all_hours(), key=lambda hour: hour.number)

    def holds(self, entry: Entry) -> bool:
        """Whether this record waits."""
        with self._lock:
            return self._mended(partial(self._find, entry)) is not None

    def read(self, entry: Entry) -> bytes:
        """The content of a record, which checks itself."""
        with self._lock:
            return self._mended(partial(self._read, entry))

    def _read(self, entry: Entry) -> bytes:
        found = self._find_surely(entry)
        if found is None:
            raise FileNotFoundError(entry.name)
        return self._content(self._files.read(_data(entry.due_ms // DAY_MS)), *found)

    def _content(self, data: int, place: int, item: Item) -> bytes:
        """What is behind the head of the item's record. Without that head, it has to be its message."""
        content = os.pread(data, item.size - PREFIX_BYTES, item.offset + PREFIX_BYTES)
        is_there = data_file.begins(data, item.offset, item.size, item.entry)
        if not is_there and not _is_message(content, item.entry):
            reason = f"item {place} leads to no record of {item.entry.name}"
            raise DamagedIndexError(item.entry.due_ms // HOUR_MS, reason)
        return content

    def with_number(self, number: int) -> list[Entry]:
        """Read the indexes in whose range it is."""
        return self._mended(lambda: [entry for entry in self._with(number, number) if entry.number == number])

    def with_key(self, key_hash: int) -> list[Entry]:
        """Read all indexes."""
        return self._mended(
            lambda: [entry for entry in self._with(0, NO_NUMBER) if entry.key_hash == key_hash]
        )

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Read the indexes with later numbers."""

        def found() -> list[Entry]:
            later = (entry for entry in self._with(after + 1, NO_NUMBER) if entry.number > after)
            return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

        return self._mended(found)

    def all(self) -> Iterator[Entry]:
        """Read all indexes, piece by piece."""
        return iter(self._mended(lambda: [*self._with(0, NO_NUMBER)]))

    def _with(self, least: int, greatest: int) -> Iterator[Entry]:
        """All records of the hours in which there are numbers in this range."""
        for hour in self._hours():
            if hour.waiting and hour.least_number <= greatest and hour.greatest_number >= least:
                yield from (item.entry for item in hour.in_order() if not item.mark)

    def _find(self, entry: Entry) -> tuple[int, Item] | None:
        """The item of a record that waits, and its number. Under the lock."""
        hour = self._hour(entry.due_ms // HOUR_MS)
        if hour is None:
            return None
        if (place := self._locations.get(entry)) is not None:
            item = hour.item(place)
            if item.entry != entry:
                raise DamagedIndexError(hour.number, f"item {place} is not that of {entry.name}")
            return None if item.mark else (place, item)
        if (found := hour.find(entry)) is not None:
            self._remember(entry, found[0])
        return found

    def _find_surely(self, entry: Entry) -> tuple[int, Item] | None:
        """The same; None only if the table is whole as well."""
        found = self._find(entry)
        if found is None and (hour := self._hour(entry.due_ms // HOUR_MS)) is not None:
            hour.table()
        return found

    def _remember(self, entry: Entry, item: int) -> None:
        self._locations[entry] = item
        self._locations.move_to_end(entry)
        if len(self._locations) > _LOCATIONS:
            self._locations.popitem(last=False)

    # Records that leave

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Mark each in the index, then in the data: a start counts by the index."""
        for entry in entries:
            with self._lock:
                self._mended(partial(self._forget, entry))
        return ()

    def _forget(self, entry: Entry) -> None:
        found, hour = self._find_surely(entry), self._hour(entry.due_ms // HOUR_MS)
        if found is None or hour is None:
            return
        place, item = found
        data = self._files.write(_data(entry.due_ms // DAY_MS))
        if not data_file.begins(data, item.offset, item.size, entry):
            self._content(data, place, item)  # or it is damaged, and the item that leads to it is not
        if data_file.is_done(data, item.offset):
            raise DamagedIndexError(hour.number, f"item {place} lacks the mark of its record")
        hour.mark(place)
        self._locations.pop(entry, None)
        pass_point("slots.marked")
        data_file.set_done(data, item.offset)

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the record into the quarantine, and mark it."""
        name = f"data/{entry.due_ms // DAY_MS}-{entry.name}"
        place = self._quarantine.place_for(name, kind, reason)
        with suppress(FileNotFoundError):
            place.write_bytes(self.read(entry))
        self.forget([entry])

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove the data and the indexes of days of which nothing waits, if they are over."""
        today = now_us // US_PER_MS // DAY_MS
        with self._lock:
            for number, day in [*self._days.items()]:
                if day.is_indexed and not day.waiting and (number < today or is_cleared):
                    del self._days[number]
                    self.disk_bytes -= day.disk_bytes
                    for hour in day.hours:
                        self._files.remove(index_name(hour))
                    pass_point("slots.removed")
                    self._files.remove(_data(number))


def _data(day: int) -> str:
    return f"data/{day}"


def _is_message(content: bytes, entry: Entry) -> bool:
    """Whether this is the whole message of the entry, whatever is before it."""
    try:
        return decode(content).header.entry == entry
    except DamagedFileError:
        return False
