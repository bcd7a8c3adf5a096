"""The store of the scheme ``directories``: one file per message, and an index in memory.

The index is built once, from the names of directories and files, when the store is opened, and then updated
with each write and removal; ``adopt`` looks for files that other programs have put into the directory, and
adds them. The lock guards the index. The event loop acquires the lock, too, so no thread holds it during disk
I/O or for long.
"""

import itertools
import logging
import threading
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
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
    unreadable,
)
from mocketmq_compat.delay.directories.change_times import ChangeTimes
from mocketmq_compat.delay.directories.delay_directory import (
    BLOCK_BYTES,
    DelayDirectory,
    FoundDirectory,
    disk_bytes,
)
from mocketmq_compat.delay.entry_table import Columns, EntryTable
from mocketmq_compat.delay.known_parts import KnownPart, load_known, save_known
from mocketmq_compat.delay.quarantine import pieces_in
from mocketmq_compat.delay.store import BaseStore

log = logging.getLogger(__name__)

_FIELDS: Final = len(Entry._fields)
_KIND: Final = "directories"
_NUMBERS: Final = 2
"""Values kept for a second between runs: the number of its files, and their disk space."""
COPYING_NS: Final = 10_000_000_000
"""Time since the last write to a damaged foreign file from which it counts as complete. Until then, a program
may still be copying it."""
_ROWS_AT_ONCE: Final = 128
"""Number of files from which an opening adds them to the index, because most seconds have only a few."""


class DirectoryStore(BaseStore):
    """A :class:`~mocketmq_compat.delay.store.DelayStore` over second directories. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.directory = DelayDirectory(root)
        self.damaged: Counter[str] = Counter()
        self.repeats = 0
        self.recounts = 0
        self.last_number = 0
        self._index = EntryTable()
        self._lock = threading.Lock()
        self._moving: set[Entry] = set()  # their files are appearing, or going into the quarantine
        self._ignored: set[str] = set()
        self._left_over: list[FoundDirectory] = []  # for the next ``adopt``: found at opening, or incomplete
        # By second, unless it is 0: the disk space of its files minus a block for each.
        self._excess_of: dict[int, int] = {}
        self._excess_bytes = 0  # their total
        self._seen = ChangeTimes()
        self._unlike: set[int] = set()  # the seconds whose files differed from the index
        self._is_closed = False
        self._open()
        self.quarantined = pieces_in(root)

    def _open(self) -> None:
        known = load_known(self.directory.root, _KIND, _NUMBERS)
        ends = array("q", itertools.accumulate(part.numbers[0] * _FIELDS for part in known))
        now_ns = self._now_ns()
        entries: list[Entry] = []  # of files that were read, for a few seconds at once
        by_second: dict[int, int] = {}
        for found in self.directory.scan(lambda *part: known.get(*part) is not None, is_starting=True):
            if isinstance(found, str):
                self._ignore(found)
            elif isinstance(found, int):
                self._append_all(entries, by_second)
                place = known.place_of(found)
                end, (stamp, (count, size)) = ends[place], known[place]
                begins = range(end - count * _FIELDS, end, count)
                self._append([known.items[begin : begin + count] for begin in begins], {found: count})
                self._count_excess(found, size - count * BLOCK_BYTES)
                self._seen.note(found, stamp.changed_ns)
            else:
                count = len(found.entries)
                if count:
                    entries += sorted(found.entries)
                    by_second[found.second] = count
                    excess = found.disk_bytes - count * BLOCK_BYTES
                    if excess or len(entries) >= _ROWS_AT_ONCE:
                        self._append_all(entries, by_second)
                    if excess:
                        self._count_excess(found.second, excess)
                if found.strays or not found.entries:
                    self._left_over.append(found._replace(entries=found.entries[:1]))
                else:
                    self._see(found, count, now_ns)
        self._append_all(entries, by_second)

    def _append_all(self, entries: list[Entry], by_second: dict[int, int]) -> None:
        """Append the entries to the index, and clear both."""
        if entries:
            self._append([array("q", column) for column in zip(*entries, strict=True)], by_second)
            entries.clear()
            by_second.clear()

    def _append(self, columns: Columns, by_second: Mapping[int, int]) -> None:
        self._index.append(columns, by_second)
        self.last_number = max(self.last_number, max(columns[1]))  # noqa: PLW3301 - a second may have millions

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError):
                self._save_known()
            self.directory.close()

    def _save_known(self) -> None:
        """Save the index of the seconds that have not changed since they were last read.

        The next start reads all other seconds, because other programs may have added or removed files there.
        No sync is needed, because file systems commit a directory's names together with its ``ctime``.
        """
        parts: dict[int, KnownPart] = {}
        for second, count in sorted(self._index.by_second.items()):
            seen_ns = self._seen.get(second)
            if seen_ns is not None and second not in self._unlike:
                with suppress(FileNotFoundError):
                    stamp = self.directory.stamp(second)
                    if stamp.changed_ns == seen_ns:
                        size = count * BLOCK_BYTES + self._excess_of.get(second, 0)
                        parts[second] = KnownPart(stamp, (count, size))
        items = (column for second in parts for column in self._index.of_second(second))
        save_known(self.directory.root, _KIND, _NUMBERS, parts.items(), items)

    @property
    def count(self) -> int:
        return len(self._index)

    @property
    def parts(self) -> int:
        with self._lock:
            return len(self._index.by_second)

    def by_second(self) -> dict[int, int]:
        with self._lock:
            return self._index.due_seconds()

    @property
    def disk_bytes(self) -> int:
        """Disk space of all files, in whole blocks."""
        return len(self._index) * BLOCK_BYTES + self._excess_bytes

    def disk_bytes_of(self, size: int) -> int:
        """Return the size in whole blocks."""
        return disk_bytes(size)

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        with self._lock:
            if entry in self._index:
                return
            self._moving.add(entry)
        try:
            self.directory.write(entry, content)
            self._add(entry, len(content))
        finally:
            with self._lock:
                self._moving.discard(entry)

    def _add(self, entry: Entry, size: int) -> None:
        with self._lock:
            is_new = self._index.add(entry)
            self._count_excess(entry.second, disk_bytes(size) - is_new * BLOCK_BYTES)

    def _count_excess(self, second: int, change: int) -> None:
        """Change the disk space of a second's files minus a block for each. The caller must hold the lock.

        The difference is negative if files are empty.
        """
        there = self._excess_of.get(second, 0)
        # Other programs may have lengthened files since they were counted.
        left = max(there + change, -BLOCK_BYTES * self._index.by_second.get(second, 0))
        self._excess_bytes += left - there
        if left:
            self._excess_of[second] = left
        else:
            self._excess_of.pop(second, None)

    def sync(self, entries: Iterable[Entry]) -> None:
        """Sync all files with a single ``syncfs`` call where the system has it."""
        self.directory.sync(entries)

    # Pending files

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        return self._index.first(limit, without, self._lock)

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
        return self._index.matching(1, number, self._lock)

    def with_key(self, key_hash: int) -> list[Entry]:
        return self._index.matching(2, key_hash, self._lock)

    def all(self) -> Iterator[Entry]:
        return itertools.chain.from_iterable(self._index.pages(self._lock))

    # Removal

    def forget(self, entries: Iterable[Entry]) -> list[Entry]:
        """Remove the files, and directories that become empty. Returns the files that cannot be removed."""
        kept: list[Entry] = []
        for entry in entries:
            try:
                self._remove(entry)
                pass_point("files.removed")
            except OSError as error:
                log.warning(
                    "cannot remove the file of settled message %s, trying again later: %s",
                    entry.name,
                    error.strerror,
                )
                kept.append(entry)
        return kept

    def _remove(self, entry: Entry) -> None:
        freed = self.directory.remove_file(entry)
        with self._lock:
            was_there = self._index.remove(entry)
            self._count_excess(entry.second, was_there * BLOCK_BYTES - freed)
            is_last = entry.second not in self._index.by_second
            if is_last:
                self._seen.forget(entry.second)
                self._unlike.discard(entry.second)
        if is_last:
            self.directory.remove_second(entry.second)

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Move the file into the quarantine."""
        with self._lock:
            was_there = self._index.remove(entry)
            self._moving.add(entry)
            self._unlike.add(entry.second)  # if moving the file fails, it must be found again
        freed = self._quarantine(entry.second, entry.name, kind, reason)
        with self._lock:
            self._moving.discard(entry)
            self._count_excess(entry.second, was_there * BLOCK_BYTES - freed)

    def _quarantine(self, second: int, name: str, kind: str, reason: str) -> int:
        self.damaged[kind] += 1
        try:
            size = self.directory.quarantine(second, name, reason)
        except OSError as error:
            log.warning("cannot quarantine the delayed message %d/%s: %s", second, name, error)
            return 0
        self.quarantined += 1
        return size

    # Files from other programs

    def adopt(self, now_us: int) -> None:
        """Adopt foreign files in changed directories, and remove empty directories that are due (D-13)."""
        now_ns = self._now_ns()
        changed = [*self._changed()]
        everything = [*self._left_over, *changed]
        incomplete: list[FoundDirectory] = []
        for found in everything:
            names = [entry.name for entry in found.entries if not self._knows(entry)]
            incomplete += self._take_in(found, names, now_us)
        for found in everything:  # last, because a stray may be a copy of a file with a valid name
            incomplete += self._take_in(found, found.strays, now_us)
        self._left_over = incomplete  # only now: after an error, the next call tries again
        for found in changed:
            with self._lock:
                self._see(found, self._index.by_second.get(found.second, 0), now_ns)

    def _now_ns(self) -> int:
        """Return the time of the file system's clock; 0 if it cannot be read, so that no stamp is old."""
        try:
            return self.directory.now_ns()
        except OSError:
            return 0

    def _see(self, found: FoundDirectory, indexed: int, now_ns: int) -> None:
        """Remember that a directory was read at or after ``now_ns``, and whether its files match the index.

        The index has ``indexed`` messages of the second. Each name in the directory must be in the index, or
        must have been tried for adoption. A directory that changed just before is not remembered, because its
        next change may have the same time. The caller must hold the lock, unless the store is being opened.
        """
        second, changed_ns = found.second, found.changed_ns
        if abs(now_ns - changed_ns) <= known_parts.SETTLING_NS or not indexed:
            self._seen.forget(second)
            return
        self._seen.note(second, changed_ns)
        is_old = changed_ns < now_ns - known_parts.SETTLING_NS
        has_others = found.strays or found.temporary
        if is_old and not has_others and indexed == len(found.entries):
            self._unlike.discard(second)
        else:
            self._unlike.add(second)

    def _changed(self) -> Iterator[FoundDirectory]:
        for found in [*self.directory.scan(lambda second, stamp: self._seen.get(second) == stamp.changed_ns)]:
            if isinstance(found, FoundDirectory):
                yield found
            elif isinstance(found, str):
                self._ignore(found)

    def _knows(self, entry: Entry) -> bool:
        with self._lock:
            return entry in self._index or entry in self._moving

    def _take_in(self, found: FoundDirectory, names: Sequence[str], now_us: int) -> Iterator[FoundDirectory]:
        """Adopt the files with these names. Yields the directory once more for each incomplete file."""
        for name in names:
            try:
                if not self._adopt(found.second, name):
                    yield found._replace(entries=[], strays=[name])
            except OSError as error:
                self._leave(f"{found.second}/{name}", error)
        if not (found.entries or found.strays) and found.second <= now_us // US_PER_S:
            try:
                self.directory.remove_second(found.second)
            except OSError as error:
                self._leave(str(found.second), error)

    def _leave(self, what: str, error: OSError) -> None:
        """Skip a file that cannot be accessed. Re-raises an error that may be temporary."""
        if error.errno in TRY_AGAIN:
            raise error
        if not isinstance(error, FileNotFoundError):  # delivered in the meantime
            self._ignore(f"{what} ({error.strerror})")

    def _adopt(self, second: int, name: str) -> bool:
        """Rename a foreign file to its valid name, or quarantine it. Returns False if it is incomplete."""
        content = self.directory.read_stray(second, name)
        try:
            entry = decode(content).header.entry
        except DamagedFileError as error:
            # Asked only now, so that the answer includes a write after the file was read.
            if abs(self._now_ns() - self.directory.written_ns(second, name)) < COPYING_NS:
                return False
            log.warning("quarantining the delayed message %d/%s: %s", second, name, error)
            self._quarantine(second, name, error.kind, str(error))
            return True
        if self._knows(entry):
            if (second, name) != (entry.second, entry.name):  # otherwise a copy got this name in the meantime
                self.repeats += 1
                self.directory.remove_stray(second, name)
            return True
        self.directory.move(second, name, entry)
        self.adopted.add(entry)
        self._add(entry, len(content))
        return True

    def _ignore(self, what: str) -> None:
        """Leave an unknown file alone: a mount point or the user may own it. Logs each name once."""
        if what not in self._ignored:
            self._ignored.add(what)
            self.damaged["ignored"] += 1
            log.warning("ignoring %s in the delay directory: not a file of mocketmq", what)
