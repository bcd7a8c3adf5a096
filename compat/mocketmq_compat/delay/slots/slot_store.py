"""The folder ``slots``: an index per hour with slots of 0.1 s as keys, and a data file per day of delivery.

A record goes to the end of its day's data, and an item in its hour's index leads to it from its slot. Memory
holds a few numbers per hour and day, and where recently used records are. What is done with is marked in
both; both are removed together when their day is over and nothing of it waits any more.

The data is what counts: an index that is damaged, or does not name every record of its day, is made again.
"""

import heapq
import logging
import os
import threading
from array import array
from collections import Counter, OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import Entry, parse_second
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, Damage, Record
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES, HOUR_MS, SLOTS, Item, write_whole
from mocketmq_compat.delay.slots.open_files import OpenFiles, sync

log = logging.getLogger(__name__)

FOLDER: Final = "slots"
QUARANTINE: Final = ".bad"
REASON: Final = ".reason"
DONE: Final = 1
"""The mark of a record whose message is delivered, cancelled or damaged."""
_HOURS: Final = DAY_MS // HOUR_MS
_LAST: Final = 1 << 63
_LOCATIONS: Final = 65_536
"""Records whose items are remembered: more than a scheme has in hand at once."""


@dataclass
class Hour:
    """An index: items, those that wait, the range of their numbers, a slot before which nothing waits."""

    items: int = 0
    waiting: int = 0
    least_number: int = _LAST
    greatest_number: int = 0
    slot: int = 0


@dataclass
class Day:
    """A data file: its length, and the hours that have an index."""

    end: int = HEADER_BYTES
    hours: dict[int, Hour] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """How many of its records wait."""
        return sum(hour.waiting for hour in self.hours.values())


class SlotStore:
    """As :class:`~mocketmq_compat.delay.records.record_store.RecordStore`. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.damaged: Counter[str] = Counter()
        self.count = 0
        self.disk_bytes = 0  # of data and items
        self._days: dict[int, Day] = {}
        self._locations: OrderedDict[Entry, int] = OrderedDict()
        self._lock = threading.RLock()  # never held for long: the event loop takes it, too
        for folder in ("index", "data"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self._files = OpenFiles(root)
        self.quarantined = _count_quarantined(root)
        self._open_days()

    def close(self) -> None:
        """Close all files, and remove those of which nothing waits."""
        with suppress(OSError):
            self.tidy(0, is_cleared=True)
        with self._lock:
            self._files.close()

    @property
    def last_number(self) -> int:
        """The largest number of all records."""
        return max((hour.greatest_number for _, hour in self._hours()), default=0)

    @property
    def parts(self) -> int:
        """How many hours have something waiting."""
        return sum(hour.waiting > 0 for _, hour in self._hours())

    # Open

    def _open_days(self) -> None:
        data, indexes = self._numbers("data"), self._numbers("index")
        for number in sorted(data | {hour // _HOURS for hour in indexes}):
            self._open_day(number, [hour for hour in indexes if hour // _HOURS == number], number in data)
        self.count = sum(day.waiting for day in self._days.values())

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
            totals = index_file.check(self._files.read(_index(hour)), hour)
            if totals is None:
                is_good = False
                continue
            day.hours[hour] = Hour(totals.items, totals.waiting, totals.least_number, totals.greatest_number)
            waiting += totals.waiting
            record_bytes += totals.record_bytes
        if not (has_data and self._is_data(number)):
            self._lose_day(number, hours, waiting)
            return
        day.end = os.fstat(self._files.read(_data(number))).st_size
        if not is_good or HEADER_BYTES + record_bytes != day.end:
            self._rebuild(number, hours)
        self.disk_bytes += day.end + sum(each.items for each in day.hours.values()) * index_file.ITEM_BYTES

    def _is_data(self, number: int) -> bool:
        """Whether the file begins as data of this version does; any other is put aside."""
        name = _data(number)
        found = os.pread(self._files.read(name), HEADER_BYTES, 0)
        if found == index_file.header("data", number):
            return True
        self._files.close_file(name)
        if found.strip(b"\0"):
            reason = "it does not begin as data of this version and day does"
            (self.root / name).rename(self._quarantine(name, "version", reason))
        else:
            self._files.remove(name)  # it was being made when the power failed
        return False

    def _lose_day(self, number: int, hours: Iterable[int], waiting: int) -> None:
        del self._days[number]
        for hour in hours:
            self._files.remove(_index(hour))
        if waiting:
            self.damaged["missing"] += waiting
            log.warning("%d messages are lost: %s is missing", waiting, self.root / _data(number))

    def _rebuild(self, number: int, hours: Iterable[int]) -> None:
        """Make the indexes of a day again from its data, and put aside what of that is no record."""
        log.warning("the indexes of day %d do not name all of its data, and are made again", number)
        for hour in hours:
            self._files.remove(_index(hour))
        day = self._days[number]
        day.hours, day.end = {}, HEADER_BYTES
        name = _data(number)
        if any(isinstance(part, Damage) for part in data_file.records(self._files.read(name))):
            self._drop_damage(name)
        for part in data_file.records(self._files.write(name)):
            if isinstance(part, Record):
                self._add_item(day, part.entry, part.offset, part.size, part.mark)
                day.end = part.offset + part.size

    def _drop_damage(self, name: str) -> None:
        """Write the data again without what is no record."""
        fd = self._files.read(name)
        temporary = self.root / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(os.pread(fd, HEADER_BYTES, 0))
            for part in data_file.records(fd):
                content = os.pread(fd, part.size, part.offset)
                if isinstance(part, Record):
                    file.write(content)
                else:
                    kind = "torn" if content.startswith(data_file.MAGIC) else "stray"
                    reason = f"{part.size} bytes at {part.offset} are no record"
                    self._quarantine(f"{name}-{part.offset}", kind, reason).write_bytes(content)
            file.flush()
            os.fsync(file.fileno())
        self._files.close_file(name)
        temporary.rename(self.root / name)

    # Records that come

    def write(self, entry: Entry, content: bytes) -> None:
        """Append the record to its day, and an item to its hour."""
        with self._lock:
            number = entry.due_ms // DAY_MS
            day = self._days.get(number) or Day()
            name = _data(number)
            record = data_file.encode(entry, content)
            if number not in self._days:
                self._files.create(name, index_file.header("data", number))
                self._days[number] = day
                self.disk_bytes += day.end
            fd = self._files.write(name)
            try:
                write_whole(fd, record, day.end)
                pass_point("slots.recorded")
                self._add_item(day, entry, day.end, len(record))
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, day.end)  # else a restart would find a message that was refused
                raise
            day.end += len(record)
            self.disk_bytes += len(record) + index_file.ITEM_BYTES
            self.count += 1

    def _add_item(self, day: Day, entry: Entry, offset: int, size: int, mark: int = 0) -> None:
        number = entry.due_ms // HOUR_MS
        name = _index(number)
        if number not in day.hours:
            self._files.create(name, index_file.header("index", number))
            os.ftruncate(self._files.write(name), index_file.ITEMS_AT)
            day.hours[number] = Hour()
        hour = day.hours[number]
        index_file.append(self._files.write(name), hour.items, entry, offset, size, mark)
        hour.items += 1
        hour.least_number = min(hour.least_number, entry.number)
        hour.greatest_number = max(hour.greatest_number, entry.number)
        if not mark:
            hour.waiting += 1
            hour.slot = min(hour.slot, index_file.slot_of(entry.due_ms))
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
        found: list[Entry] = []
        for number, hour in self._hours():
            if not hour.waiting:
                continue
            table = self._heads(number, 0, SLOTS - 1)
            for slot in (slot for slot in range(hour.slot, SLOTS) if table[slot]):
                found += self._first_in_slot(number, hour, slot, limit - len(found), without)
                if len(found) >= limit:
                    return found
        return found

    def _first_in_slot(
        self, number: int, hour: Hour, slot: int, limit: int, without: Container[Entry]
    ) -> list[Entry]:
        is_over = True

        def waiting() -> Iterator[tuple[Entry, int]]:
            nonlocal is_over
            for item, each in index_file.chain(partial(self._read_items, number), head):
                if not each.mark:
                    is_over = False
                    if each.entry not in without:
                        yield each.entry, item

        head = self._heads(number, slot, slot)[0]
        found = heapq.nsmallest(limit, waiting())  # in little memory
        with self._lock:
            for entry, item in found:
                self._remember(entry, item)
            if is_over and hour.slot <= slot:
                *before, newest = self._heads(number, hour.slot, slot)
                if newest == head and not any(before):
                    hour.slot = slot + 1
        return [entry for entry, _ in found]

    def _heads(self, hour: int, first: int, last: int) -> "array[int]":
        with self._lock:
            return index_file.heads(self._files.read(_index(hour)), first, last - first + 1)

    def _read_items(self, hour: int, first: int, items: int) -> bytes:
        with self._lock:
            return index_file.read_items(self._files.read(_index(hour)), first, items)

    def _hours(self) -> list[tuple[int, Hour]]:
        with self._lock:
            return sorted(
                (one for day in self._days.values() for one in day.hours.items()), key=lambda one: one[0]
            )

    def holds(self, entry: Entry) -> bool:
        """Whether this record waits."""
        with self._lock:
            return self._find(entry) is not None

    def read(self, entry: Entry) -> bytes:
        """The content of a record, which checks itself."""
        with self._lock:
            found = self._find(entry)
            if found is None:
                raise FileNotFoundError(entry.name)
            fd = self._files.read(_data(entry.due_ms // DAY_MS))
            start = found[1].offset + data_file.PREFIX_BYTES
            return os.pread(fd, found[1].size - data_file.PREFIX_BYTES, start)

    def with_number(self, number: int) -> list[Entry]:
        """Read the indexes in whose range it is."""
        return [entry for entry in self._with(number, number) if entry.number == number]

    def with_key(self, key_hash: int) -> list[Entry]:
        """Read all indexes."""
        return [entry for entry in self.all() if entry.key_hash == key_hash]

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Read the indexes with later numbers."""
        later = (entry for entry in self._with(after + 1, _LAST) if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    def all(self) -> Iterator[Entry]:
        """Read all indexes, piece by piece."""
        return self._with(0, _LAST)

    def _with(self, least: int, greatest: int) -> Iterator[Entry]:
        """All records of the hours in which there are numbers in this range."""
        for number, hour in self._hours():
            if hour.waiting and hour.least_number <= greatest and hour.greatest_number >= least:
                items = index_file.in_order(partial(self._read_items, number), hour.items)
                yield from (item.entry for item in items if not item.mark)

    def _find(self, entry: Entry) -> tuple[int, Item] | None:
        """The item of a record that waits, and its number. Under the lock."""
        hour = entry.due_ms // HOUR_MS
        day = self._days.get(entry.due_ms // DAY_MS)
        if day is None or hour not in day.hours:
            return None
        fd = self._files.read(_index(hour))
        if (place := self._locations.get(entry)) is not None:
            item = index_file.read_item(fd, place)
            return None if item.mark else (place, item)
        head = index_file.heads(fd, index_file.slot_of(entry.due_ms), 1)[0]
        for place, item in index_file.chain(partial(self._read_items, hour), head):
            if item.entry == entry and not item.mark:
                self._remember(entry, place)
                return place, item
        return None

    def _remember(self, entry: Entry, item: int) -> None:
        self._locations[entry] = item
        self._locations.move_to_end(entry)
        if len(self._locations) > _LOCATIONS:
            self._locations.popitem(last=False)

    # Records that leave

    def forget(self, entries: Iterable[Entry]) -> None:
        """Mark each in the data, then in the index."""
        for entry in entries:
            with self._lock:
                found = self._find(entry)
                if found is None:
                    continue
                place, item = found
                data_file.set_mark(self._files.write(_data(entry.due_ms // DAY_MS)), item.offset, DONE)
                pass_point("slots.marked")
                number = entry.due_ms // HOUR_MS
                index_file.set_mark(self._files.write(_index(number)), place, DONE)
                self._days[entry.due_ms // DAY_MS].hours[number].waiting -= 1
                self._locations.pop(entry, None)
                self.count -= 1

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the record into the quarantine, and mark it."""
        target = self._quarantine(f"data/{entry.due_ms // DAY_MS}-{entry.name}", kind, reason)
        with suppress(FileNotFoundError):
            target.write_bytes(self.read(entry))
        self.forget([entry])

    def _quarantine(self, name: str, kind: str, reason: str) -> Path:
        """Where in ``.bad`` a file goes; the reason is written beside it."""
        self.damaged[kind] += 1
        self.quarantined += 1
        bad = self.root / QUARANTINE
        bad.mkdir(exist_ok=True)
        target = bad / Path(name).name
        target.with_name(f"{target.name}{REASON}").write_text(f"{reason}\n", "utf-8")
        log.warning("%s is put aside: %s", self.root / name, reason)
        return target

    def tidy(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove the data and the indexes of days of which nothing waits, if they are over."""
        today = now_us // US_PER_MS // DAY_MS
        with self._lock:
            for number, day in [*self._days.items()]:
                if not day.waiting and (number < today or is_cleared):
                    del self._days[number]
                    items = sum(hour.items for hour in day.hours.values())
                    self.disk_bytes -= day.end + items * index_file.ITEM_BYTES
                    for hour in day.hours:
                        self._files.remove(_index(hour))
                    pass_point("slots.removed")
                    self._files.remove(_data(number))


def _data(day: int) -> str:
    return f"data/{day}"


def _index(hour: int) -> str:
    return f"index/{hour}"


def _count_quarantined(root: Path) -> int:
    with suppress(FileNotFoundError):
        return sum(path.suffix != REASON for path in (root / QUARANTINE).iterdir())
    return 0
