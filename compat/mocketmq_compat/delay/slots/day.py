"""A day of the scheme ``slots``: one data file, and an index for each hour that has records."""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.known_parts import KnownParts
from mocketmq_compat.delay.slots.data_file import DAY_MS
from mocketmq_compat.delay.slots.day_data import data_name
from mocketmq_compat.delay.slots.hour_index import HourIndex, index_name
from mocketmq_compat.delay.slots.index_file import HEADER_BYTES, HOUR_MS, ITEM_BYTES, DamagedIndexError
from mocketmq_compat.delay.slots.open_files import OpenFiles

HOURS: Final = DAY_MS // HOUR_MS
"""Number of hours in a day."""


@dataclass(eq=False)
class Day:
    """A day: the length of its data file, and the hours that have an index. ``lock`` guards the files."""

    number: int
    files: OpenFiles
    lock: threading.RLock
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
