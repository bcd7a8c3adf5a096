"""The store of the scheme ``directories``: one file per message, and an index in memory.

The index is built once, from the names of directories and files, when the store is opened, and then updated
with each write and removal; ``adopt`` looks for files that other programs have put into the directory, and
adds them. The lock guards the index and is never held during disk I/O.
"""

import heapq
import itertools
import logging
import threading
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq.clock import US_PER_S
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay import known_parts
from mocketmq_compat.delay.delayed_file import (
    TRY_AGAIN,
    DamagedFileError,
    Entry,
    decode,
    in_order,
    unreadable,
)
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, FoundDirectory, disk_bytes
from mocketmq_compat.delay.known_parts import KnownPart, load_known, save_known

log = logging.getLogger(__name__)

_FIELDS = len(Entry._fields)
_KIND: Final = "directories"
_NUMBERS: Final = 2
"""What is known of a second between runs: the number of its files, and their disk space."""


class SecondIndex:
    """The entries of each second. An unused second takes three numbers per file, in an array.

    A second becomes a set when one of its entries is looked up or removed. Saves must not do that, and must
    not compare many entries either, because thousands of messages may be due in one second.
    """

    def __init__(self) -> None:
        self._packed: dict[int, array[int]] = {}
        self._open: dict[int, set[Entry]] = {}
        self.newest = 0
        self.count = 0

    def __contains__(self, entry: Entry) -> bool:
        packed = self._packed.get(entry.second)
        if packed is not None:
            if entry.number > self.newest or entry.number not in packed:
                return False
            self._unpack(entry.second)
        return entry in self._open.get(entry.second, ())

    def by_second(self) -> dict[int, int]:
        counts = {second: len(packed) // _FIELDS for second, packed in self._packed.items()}
        return counts | {second: len(opened) for second, opened in self._open.items()}

    def seconds(self) -> list[int]:
        """Return the seconds with files, in any order."""
        return [*self._packed, *self._open]

    def count_of(self, second: int) -> int:
        opened = self._open.get(second)
        return len(self._packed.get(second, _EMPTY)) // _FIELDS if opened is None else len(opened)

    def of(self, second: int) -> Iterable[Entry]:
        """Return the entries of a second, in any order."""
        opened = self._open.get(second)
        return _unpacked(self._packed.get(second, _EMPTY)) if opened is None else opened

    def matching(self, second: int, field: int, value: int) -> list[Entry]:
        """Return the entries of a second with this value in a field."""
        packed = self._packed.get(second)
        if packed is not None and value not in packed:
            return []
        return [entry for entry in self.of(second) if entry[field] == value]

    def packed(self, second: int) -> "array[int]":
        """Return the numbers of all entries of a second."""
        opened = self._open.get(second)
        if opened is None:
            return self._packed.get(second, _EMPTY)
        return array("q", itertools.chain.from_iterable(opened))

    def add_packed(self, second: int, numbers: "array[int]") -> None:
        """Add a second that is not there yet."""
        self.count += len(numbers) // _FIELDS
        newest = max(numbers[1::_FIELDS])
        self.newest = max(self.newest, newest)
        self._packed[second] = numbers

    def add(self, entry: Entry) -> None:
        """Add the entry of a new file."""
        self.count += 1
        self.newest = max(self.newest, entry.number)
        opened = self._open.get(entry.second)
        if opened is not None:
            opened.add(entry)
        else:
            self._packed.setdefault(entry.second, array("q")).extend(entry)

    def remove(self, entry: Entry) -> bool:
        """Remove an entry if it is there. Returns whether its second is empty now."""
        second = entry.second
        self._unpack(second)
        opened = self._open.get(second, set())
        if entry not in opened:
            return not opened
        self.count -= 1
        opened.remove(entry)
        if not opened:
            del self._open[second]
        return not opened

    def _unpack(self, second: int) -> None:
        if (packed := self._packed.pop(second, None)) is not None:
            self._open[second] = set(_unpacked(packed))


_EMPTY: "array[int]" = array("q")


def _unpacked(packed: "array[int]") -> Iterator[Entry]:
    numbers = iter(packed)
    return map(Entry, *[numbers] * _FIELDS)


class DirectoryStore:
    """A :class:`~mocketmq_compat.delay.store.DelayStore` over second directories. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.directory = DelayDirectory(root)
        self.disk_bytes = 0
        self.damaged: Counter[str] = Counter()
        self.repeats = 0
        self.recounts = 0
        self.last_number = 0
        self._index = SecondIndex()
        self._lock = threading.Lock()
        self._being_written: set[Entry] = set()
        self._ignored: set[str] = set()
        self._left_over: list[FoundDirectory] = []  # found when opened, for the first ``adopt``
        self._bytes_of: dict[int, int] = {}  # disk space of each second
        self._seen: dict[int, int] = {}  # when each second had last changed before it was read
        self._unlike: set[int] = set()  # seconds among these that did not have just the files of the index
        self._is_closed = False
        self._open()
        self.quarantined = self.directory.quarantined()

    def _open(self) -> None:
        known = load_known(self.directory.root, _KIND, _NUMBERS)
        ends = itertools.accumulate(part.numbers[0] * _FIELDS for part in known.parts.values())
        end_of = dict(zip(known.parts, ends, strict=True))
        now_ns = self._now_ns()
        for found in self.directory.scan(lambda *part: known.get(*part) is not None, is_starting=True):
            if isinstance(found, str):
                self._ignore(found)
            elif isinstance(found, int):
                stamp, (count, size) = known.parts[found]
                end = end_of[found]
                self._index.add_packed(found, known.items[end - count * _FIELDS : end])
                self._count_bytes(found, size)
                self._seen[found] = stamp.changed_ns
            else:
                for entry in found.entries:
                    self._index.add(entry)
                self._count_bytes(found.second, found.disk_bytes)
                if found.strays or not found.entries:
                    self._left_over.append(found._replace(entries=found.entries[:1]))
                else:
                    self._see(found, now_ns)
        self.last_number = self._index.newest

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError):
                self._save_known()
            self.directory.close()

    def _save_known(self) -> None:
        """Write down the index of the seconds that have not changed since they were last read.

        The next start reads all others: other programs may have put files into them, or taken some out. Needs
        no sync, because file systems commit a directory's names together with its ``ctime``.
        """
        parts: dict[int, KnownPart] = {}
        for second in self._index.seconds():
            if second in self._seen and second not in self._unlike:
                with suppress(FileNotFoundError):
                    stamp = self.directory.stamp(second)
                    if stamp.changed_ns == self._seen[second]:
                        size = self._bytes_of.get(second, 0)
                        parts[second] = KnownPart(stamp, (self._index.count_of(second), size))
        save_known(self.directory.root, _KIND, _NUMBERS, parts.items(), map(self._index.packed, parts))

    @property
    def count(self) -> int:
        return self._index.count

    @property
    def parts(self) -> int:
        with self._lock:
            return len(self._index.seconds())

    def by_second(self) -> dict[int, int]:
        with self._lock:
            return self._index.by_second()

    def disk_bytes_of(self, size: int) -> int:
        """Return the size in whole blocks."""
        return disk_bytes(size)

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        with self._lock:
            if entry in self._index:
                return
            self._being_written.add(entry)
        try:
            self.directory.write(entry, content)
            self._add(entry, len(content))
        finally:
            with self._lock:
                self._being_written.discard(entry)

    def _add(self, entry: Entry, size: int) -> None:
        with self._lock:
            self._index.add(entry)
            self._count_bytes(entry.second, disk_bytes(size))

    def _count_bytes(self, second: int, change: int) -> None:
        """Change the disk space of a second. The caller must hold the lock."""
        there = self._bytes_of.get(second, 0)
        change = max(change, -there)  # other programs may have made files longer since they were counted
        self.disk_bytes += change
        if left := there + change:
            self._bytes_of[second] = left
        else:
            self._bytes_of.pop(second, None)

    def sync(self, entries: Iterable[Entry]) -> None:
        """Sync all files with a single ``syncfs`` call where the system has it."""
        self.directory.sync(entries)

    def remove_record(self, entry: Entry) -> None:
        """Remove the file of a refused message."""
        freed = self.directory.remove_file(entry)
        with self._lock:
            self._count_bytes(entry.second, -freed)
            is_last = self._index.remove(entry)
            if is_last:
                self._seen.pop(entry.second, None)
                self._unlike.discard(entry.second)
        if is_last:
            self.directory.remove_second(entry.second)

    # Pending files

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first entries, sorting only the seconds that it needs."""
        found: list[Entry] = []
        seconds = self._seconds()
        # Sorting all entries would hold up the event loop, and only a few seconds are needed.
        while seconds and len(found) < limit:
            some = heapq.nsmallest(limit, seconds)
            seconds = [second for second in seconds if second > some[-1]]
            for second in some:
                others = in_order(entry for entry in self._of(second) if entry not in without)
                found += itertools.islice(others, limit - len(found))
                if len(found) >= limit:
                    return found
        return found

    def holds(self, entry: Entry) -> bool:
        with self._lock:
            return entry in self._index

    def read(self, entry: Entry) -> bytes:
        """Read the file. Raises DamagedFileError when the file, not the system, is at fault."""
        try:
            return self.directory.read(entry)
        except OSError as error:
            raise unreadable(error) from error

    def with_number(self, number: int) -> list[Entry]:
        """Return the entries with this number: one, or several after two directories were merged."""
        return self._with(1, number)

    def with_key(self, key_hash: int) -> list[Entry]:
        return self._with(2, key_hash)

    def _with(self, field: int, value: int) -> list[Entry]:
        found: list[Entry] = []
        for second in self._seconds():
            with self._lock:
                found += self._index.matching(second, field, value)
        return sorted(found)

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        later = (entry for entry in self.all() if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    def all(self) -> Iterator[Entry]:
        for second in self._seconds():
            yield from self._of(second)

    def _seconds(self) -> list[int]:
        with self._lock:
            return self._index.seconds()

    def _of(self, second: int) -> list[Entry]:
        with self._lock:
            return [*self._index.of(second)]

    # Removal

    def forget(self, entries: Iterable[Entry]) -> list[Entry]:
        """Remove the files, and directories that become empty. Returns the files that cannot be removed."""
        kept: list[Entry] = []
        for entry in entries:
            try:
                self.remove_record(entry)
                pass_point("files.removed")
            except OSError as error:
                log.warning(
                    "cannot remove the file of settled message %s, trying again later: %s",
                    entry.name,
                    error.strerror,
                )
                kept.append(entry)
        return kept

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Move the file into the quarantine."""
        with self._lock:
            self._index.remove(entry)
            self._unlike.add(entry.second)  # until it is read again: the file may stay
        freed = self._quarantine(entry.second, entry.name, kind, reason)
        with self._lock:
            self._count_bytes(entry.second, -freed)

    def _quarantine(self, second: int, name: str, kind: str, reason: str) -> int:
        self.damaged[kind] += 1
        try:
            size = self.directory.quarantine(second, name, reason)
        except OSError as error:
            log.warning("cannot quarantine the delayed message %d/%s: %s", second, name, error)
            return 0
        self.quarantined += 1
        return size

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Do nothing, because ``forget`` removes a directory with its last file."""

    # Files from other programs

    def adopt(self, now_us: int) -> list[Entry]:
        """Adopt foreign files in changed directories, and remove empty directories that are due (D-13)."""
        adopted: list[Entry] = []
        now_ns = self._now_ns()
        changed = [*self._changed()]
        everything = [*self._left_over, *changed]
        for found in everything:
            names = [entry.name for entry in self._unknown(found)]
            adopted += self._take_in(found, names, now_us)
        for found in everything:  # last, because strays may be copies of files with valid names
            adopted += self._take_in(found, found.strays, now_us)
        self._left_over = []  # not earlier: after an error, the next call tries again
        for found in changed:
            self._see(found, now_ns)
        return adopted

    def _now_ns(self) -> int:
        """Return the time of the file system's clock; 0 if it cannot be asked, so that nothing is old."""
        try:
            return self.directory.now_ns()
        except OSError:
            return 0

    def _see(self, found: FoundDirectory, now_ns: int) -> None:
        """Remember that a directory was read at or after ``now_ns``, and whether it had the index's files.

        Each of its names must be in the index, or have been tried. A directory that had only just changed
        is not remembered, because its next change may have the same time.
        """
        second, changed_ns = found.second, found.changed_ns
        with self._lock:
            if abs(now_ns - changed_ns) <= known_parts.SETTLING_NS or not self._index.count_of(second):
                self._seen.pop(second, None)
                return
            self._seen[second] = changed_ns
            is_old = changed_ns < now_ns - known_parts.SETTLING_NS
            has_others = found.strays or found.temporary
            if is_old and not has_others and self._index.count_of(second) == len(found.entries):
                self._unlike.discard(second)
            else:
                self._unlike.add(second)

    def _changed(self) -> Iterator[FoundDirectory]:
        for found in [*self.directory.scan(lambda second, stamp: self._seen.get(second) == stamp.changed_ns)]:
            if isinstance(found, FoundDirectory):
                yield found
            elif isinstance(found, str):
                self._ignore(found)

    def _unknown(self, found: FoundDirectory) -> list[Entry]:
        with self._lock:
            known = {*self._index.of(found.second), *self._being_written}
        return [entry for entry in found.entries if entry not in known]

    def _knows(self, entry: Entry) -> bool:
        with self._lock:
            return entry in self._index or entry in self._being_written

    def _take_in(self, found: FoundDirectory, names: Sequence[str], now_us: int) -> Iterator[Entry]:
        for name in names:
            try:
                entry = self._adopt(found.second, name)
            except OSError as error:
                self._leave(f"{found.second}/{name}", error)
            else:
                if entry is not None:
                    yield entry
        if not (found.entries or found.strays) and found.second <= now_us // US_PER_S:
            try:
                self.directory.remove_second(found.second)
            except OSError as error:
                self._leave(str(found.second), error)

    def _leave(self, what: str, error: OSError) -> None:
        """Skip a file that cannot be accessed. Re-raises an error that may be temporary."""
        if error.errno in TRY_AGAIN:
            raise error
        if not isinstance(error, FileNotFoundError):  # delivered meanwhile
            self._ignore(f"{what} ({error.strerror})")

    def _adopt(self, second: int, name: str) -> Entry | None:
        """Rename a foreign file to its valid name, or quarantine it. Returns None if it adds no message."""
        content = self.directory.read_stray(second, name)
        try:
            entry = decode(content).header.entry
        except DamagedFileError as error:
            log.warning("quarantining the delayed message %d/%s: %s", second, name, error)
            self._quarantine(second, name, error.kind, str(error))
            return None
        if self._knows(entry):
            if (second, name) != (entry.second, entry.name):  # equal if a copy got this name meanwhile
                self.repeats += 1
                self.directory.remove_stray(second, name)
            return None
        self.directory.move(second, name, entry)
        self._add(entry, len(content))
        return entry

    def _ignore(self, what: str) -> None:
        """Leave an unknown file alone; it may be a mount point's or the user's. Logs each name once."""
        if what not in self._ignored:
            self._ignored.add(what)
            self.damaged["ignored"] += 1
            log.warning("ignoring %s in the delay directory: not a file of mocketmq", what)
