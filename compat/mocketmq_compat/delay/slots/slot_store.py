"""The store of the scheme ``slots``: an index per hour with slots of 0.1 s, and a data file per day.

A record is appended to the data file of its due day, and an item in its hour's index points from its slot to
the record (``days.py``). Memory holds a few numbers per hour and day, and the places of recently used items
(``item_places.py``). Settled records are marked in both files. Both files are removed once their day is over
and has no pending message.
"""

import heapq
import os
import threading
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.properties import TIMER_DEL_UNIQKEY, decode_properties
from mocketmq.schedule.scheme_set import not_pending
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.slots import data_file
from mocketmq_compat.delay.slots.data_file import DAY_MS, PREFIX_BYTES, data_name
from mocketmq_compat.delay.slots.days import Days
from mocketmq_compat.delay.slots.hour_index import NO_NUMBER
from mocketmq_compat.delay.slots.index_file import HOUR_MS, DamagedIndexError, Item, write_whole
from mocketmq_compat.delay.slots.item_places import RECENT
from mocketmq_compat.delay.slots.open_files import sync
from mocketmq_compat.delay.store import BaseStore
from mocketmq_compat.delay.stored_scheme import StoredScheme

FOLDER: Final = "slots"
_FORGOTTEN_AT_ONCE: Final = 16
"""Number of records marked under one lock. With a lock for each, threads would mostly wait for each other."""
_WRITTEN_AGAIN_BYTES: Final = 1 << 20
"""Number of bytes written again under one lock."""


class SlotStore(BaseStore):
    """A :class:`~mocketmq_compat.delay.store.DelayStore` in the folder ``slots``. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repeats = 0
        self._first_reads = threading.Lock()  # taken before ``_lock``, for calls of ``first_records``
        self._syncs = threading.Lock()  # taken before ``_lock``; a sync waits for files that another syncs
        self._doubtful: set[str] = set()  # files and folders whose last sync failed; guarded by ``_syncs``
        self._lock = (
            threading.RLock()
        )  # held for a few records at most, because the event loop also acquires it
        self._days = Days(root, self._lock)
        self._files = self._days.files
        self._places = self._days.places
        self._is_closed = False

    def close(self) -> None:
        """Remove files without pending messages, and close all other files."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(OSError):
            self.remove_over(0, is_cleared=True)
            self.sync(())
            self._days.save_known()
        with self._lock:
            self._files.close()

    @property
    def count(self) -> int:
        with self._lock:
            return self._days.waiting

    @property
    def recounts(self) -> int:
        return self._days.recounts

    @property
    def disk_bytes(self) -> int:
        """Bytes of data and items."""
        return self._days.disk_bytes

    @property
    def damaged(self) -> Counter[str]:
        """Damaged pieces found since the start, by kind."""
        return self._days.quarantine.met

    @property
    def quarantined(self) -> int:
        return self._days.quarantine.pieces

    @property
    def last_number(self) -> int:
        return max((hour.greatest_number for hour in self._days.all_hours()), default=0)

    @property
    def parts(self) -> int:
        """The number of hours with pending messages."""
        return sum(hour.waiting > 0 for hour in self._days.all_hours())

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        """Append the record to its day, and an item to its hour."""
        with self._lock:
            self._days.mended(partial(self._days.append, entry, content))

    def sync(self, entries: Iterable[Entry]) -> None:  # noqa: ARG002 - syncs all writes
        """Sync all data files and indexes that have changed.

        After a failed sync, the system may take pages for written that it could not write. So the next sync
        writes the files again.
        """
        with self._syncs:
            with self._lock:
                names = self._files.take_unsynced()
            try:
                for name in self._doubtful & names:
                    with suppress(FileNotFoundError, IsADirectoryError):
                        self._write_again(name)
                sync(self.root, names)
            except OSError:
                with self._lock:
                    self._files.unsynced |= names
                self._doubtful |= names
                raise
            self._doubtful.clear()

    def _write_again(self, name: str) -> None:
        offset, size = 0, 1
        while size:
            with self._lock:
                fd = self._files.read(name)
                content = os.pread(fd, _WRITTEN_AGAIN_BYTES, offset)
                write_whole(fd, content, offset)
            size = len(content)
            offset += size

    # Pending records

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first entries slot by slot, sorting only the slots that it needs."""
        with self._first_reads:
            return self._days.mended(partial(self._first, limit, without))

    def _first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        found: list[Entry] = []
        for hour in self._days.hours_in_order():
            for slot, head in hour.waiting_slots() if hour.waiting else ():
                found += self._places.first_in_slot(hour, slot, head, limit - len(found), without)
                if len(found) >= limit:
                    return found
        return found

    def holds(self, entry: Entry) -> bool:
        with self._lock:
            return self._days.mended(partial(self._find, entry)) is not None

    def read(self, entry: Entry) -> bytes:
        """Read the content of a record, whose own checksum the caller verifies."""
        with self._lock:
            return self._days.mended(partial(self._read, entry))

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
            reason = f"item {place} does not point to a record of {item.entry.name}"
            raise DamagedIndexError(item.entry.due_ms // HOUR_MS, reason)
        return content

    def with_number(self, number: int) -> list[Entry]:
        """Return the entries with this number. Scans the indexes whose range includes it."""
        return self._days.mended(partial(self._matching, 1, number, number, number))

    def with_key(self, key_hash: int) -> list[Entry]:
        """Return the entries with this key hash. Scans all indexes."""
        return self._days.mended(partial(self._matching, 2, key_hash, 0, NO_NUMBER))

    def _matching(self, field: int, value: int, least: int, greatest: int) -> list[Entry]:
        found = [(entry, place) for entry, place in self._with(least, greatest) if entry[field] == value]
        with self._lock:
            self._places.remember_all(found)
        return [entry for entry, _ in found]

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Return entries in order of arrival. Scans the indexes with later numbers."""

        def found() -> list[Entry]:
            later = (each for each in self._with(after + 1, NO_NUMBER) if each[0].number > after)
            first = heapq.nsmallest(limit, later, key=lambda each: each[0].number)
            with self._lock:
                self._places.remember_all(first[:RECENT])
            return [entry for entry, _ in first]

        return self._days.mended(found)

    def all(self) -> Iterator[Entry]:
        """Yield every entry. Scans all indexes, hour by hour."""
        return iter(self._days.mended(lambda: [entry for entry, _ in self._with(0, NO_NUMBER)]))

    def _with(self, least: int, greatest: int) -> Iterator[tuple[Entry, int]]:
        """Yield all entries of the hours that have numbers in this range, and the places of their items."""
        for hour in self._days.hours_in_order():
            if hour.waiting and hour.least_number <= greatest and hour.greatest_number >= least:
                for place, item in enumerate(hour.in_order(), 1):
                    if not item.mark:
                        yield item.entry, place

    def _find(self, entry: Entry) -> tuple[int, Item] | None:
        """Find the place and the item of a pending record. The caller must hold the lock."""
        hour = self._days.hour(entry.due_ms // HOUR_MS)
        if hour is None:
            return None
        place = self._places.find(hour, entry)
        if place is not None:
            item = hour.item(place)
            if item.entry != entry:
                raise DamagedIndexError(hour.number, f"item {place} does not belong to {entry.name}")
            return None if item.mark else (place, item)
        if (found := hour.find(entry)) is not None:
            self._places.remember(entry, found[0])
        return found

    def _find_surely(self, entry: Entry) -> tuple[int, Item] | None:
        """Like ``_find``, but returns None only after a check that the table is intact."""
        found = self._find(entry)
        if found is None and (hour := self._days.hour(entry.due_ms // HOUR_MS)) is not None:
            hour.table()
        return found

    # Removal

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Mark each record in the index before the data, because a start takes its counts from the index."""
        waiting = iter(entries)
        while some := [*islice(waiting, _FORGOTTEN_AT_ONCE)]:
            with self._lock:
                for entry in some:
                    self._days.mended(partial(self._forget, entry))
        return ()

    def _forget(self, entry: Entry) -> None:
        found, hour = self._find_surely(entry), self._days.hour(entry.due_ms // HOUR_MS)
        if found is None or hour is None:
            return
        place, item = found
        data = self._files.write(data_name(entry.due_ms // DAY_MS))
        if not data_file.begins(data, item.offset, item.size, entry):
            self._content(data, place, item)  # raises unless the index is right and the record is damaged
        if data_file.is_done(data, item.offset):
            raise DamagedIndexError(hour.number, f"item {place} lacks the mark of its record")
        hour.mark(place)
        self._places.settle(hour, entry)
        pass_point("slots.marked")
        data_file.set_done(data, item.offset)

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the record to the quarantine, and mark it as settled."""
        name = f"data/{entry.due_ms // DAY_MS}-{entry.name}"
        place = self._days.quarantine.place_for(name, kind, reason)
        with suppress(FileNotFoundError):
            place.write_bytes(self.read(entry))
        self.forget([entry])

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove the data and indexes of past days without pending messages."""
        self._days.remove_over(now_us // US_PER_MS // DAY_MS, is_cleared=is_cleared)


def _is_message(content: bytes, entry: Entry) -> bool:
    """Return whether the content is an intact message of this entry."""
    try:
        return decode(content).header.entry == entry
    except DamagedFileError:
        return False


class Slots(StoredScheme):
    """The scheme ``slots``, in which a message can cancel another.

    The cancelling message carries the other's unique key in ``TIMER_DEL_UNIQKEY``, alone or as
    ``<topic>+<key>`` (docs/protocol/remoting.md §5.6), and is sent to the same topic. Unlike RocketMQ, it
    takes effect at once, so the response shows whether the other message was still pending.
    """

    due_properties = StoredScheme.due_properties | {TIMER_DEL_UNIQKEY}

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """Like the base class, but a cancelling message is due now."""
        if level or TIMER_DEL_UNIQKEY not in properties:
            return super().due_us(properties, level)
        others = {name: value for name, value in properties.items() if name != TIMER_DEL_UNIQKEY}
        super().due_us(others, level)  # to refuse a malformed time, although it has no effect
        return self.context.store.clock.now_us()

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Like the base class. Raises NotPendingError when the message to cancel is not pending."""
        name = decode_properties(draft.properties).get(TIMER_DEL_UNIQKEY)
        if name is None:
            return await super().keep(draft, queue, due_us, number)
        unique_key = name.removeprefix(f"{queue.topic}+")
        keys = {each.key for each in self.context.topics.get(queue.topic).queues}
        async with self.context.intervention():
            found = [one for one in await self.find_by_key(unique_key) if one.real_queue_key in keys]
            cancelled = await self.context.cancel_all(found)
            # With a number, this is perhaps a repeated commit of a half message.
            if not cancelled and number is None:
                raise not_pending(unique_key)
        number = self.context.numbers.next() if number is None else number
        now_us = self.context.store.clock.now_us()
        return self.kept(draft, queue, due_us, number, now_us, self.context.store.writer.store_host)
