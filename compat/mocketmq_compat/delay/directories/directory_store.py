"""The delay directory as a store: an index in memory over one file per message.

The index is built once, from the names of directories and files, when the store is opened. From then on it
follows what this store writes and removes; ``adopt`` looks for files that others have put into the directory,
and adopts them. The lock guards the index and is never held over access to the disk.
"""

import heapq
import logging
import threading
from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from mocketmq.clock import US_PER_S
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import TRY_AGAIN, DamagedFileError, Entry, decode, unreadable
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, FoundDirectory, disk_bytes

log = logging.getLogger(__name__)

_FIELDS = len(Entry._fields)


class SecondIndex:
    """The entries of each second. An untouched second takes three numbers per file in an array."""

    def __init__(self) -> None:
        self._packed: dict[int, array[int]] = {}
        self._open: dict[int, set[Entry]] = {}
        self.count = 0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self.of(entry.second)

    def by_second(self) -> dict[int, int]:
        """How many files wait in each second."""
        counts = {second: len(packed) // _FIELDS for second, packed in self._packed.items()}
        return counts | {second: len(opened) for second, opened in self._open.items()}

    def seconds(self) -> list[int]:
        """The seconds with files, in any order."""
        return [*self._packed, *self._open]

    def of(self, second: int) -> Iterable[Entry]:
        """The entries of a second, in any order."""
        opened = self._open.get(second)
        return _unpacked(self._packed.get(second, _EMPTY)) if opened is None else opened

    def matching(self, second: int, field: int, value: int) -> list[Entry]:
        """The entries of a second that have this value in a field."""
        packed = self._packed.get(second)
        if packed is not None and value not in packed:
            return []
        return [entry for entry in self.of(second) if entry[field] == value]

    def add(self, entry: Entry) -> None:
        """Add a file that is not there yet."""
        self.count += 1
        opened = self._open.get(entry.second)
        if opened is not None:
            opened.add(entry)
        else:
            self._packed.setdefault(entry.second, array("q")).extend(entry)

    def remove(self, entry: Entry) -> bool:
        """Remove a file, if it is there; whether its second is empty now."""
        second = entry.second
        if (packed := self._packed.pop(second, None)) is not None:
            self._open[second] = set(_unpacked(packed))
        opened = self._open.get(second, set())
        if entry not in opened:
            return not opened
        self.count -= 1
        opened.remove(entry)
        if not opened:
            del self._open[second]
        return not opened


_EMPTY: "array[int]" = array("q")


def _unpacked(packed: "array[int]") -> Iterator[Entry]:
    numbers = iter(packed)
    return map(Entry, *[numbers] * _FIELDS)


class DirectoryStore:
    """As :class:`~mocketmq_compat.delay.store.DelayStore`. Opening raises OSError."""

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
        self._seen_ns = 0
        self._left_over: list[
            FoundDirectory
        ] = []  # found at the start, and to be looked at by the first tidying
        self._open()
        self.quarantined = self.directory.quarantined()

    def _open(self) -> None:
        changed_ns = 0
        for found in self.directory.scan():
            if isinstance(found, str):
                self._ignore(found)
                continue
            for entry in found.entries:
                self._index.add(entry)
                self.last_number = max(self.last_number, entry.number)
            self.disk_bytes += found.disk_bytes
            changed_ns = max(changed_ns, found.changed_ns)
            if found.strays or not found.entries:
                self._left_over.append(found._replace(entries=found.entries[:1]))
        self._seen_ns = max(1, changed_ns)  # 0: never

    def close(self) -> None:
        """Close the directory."""
        self.directory.close()

    @property
    def count(self) -> int:
        """How many files wait."""
        return self._index.count

    @property
    def parts(self) -> int:
        """How many seconds hold files."""
        with self._lock:
            return len(self._index.seconds())

    def by_second(self) -> dict[int, int]:
        """How many files wait in each second."""
        with self._lock:
            return self._index.by_second()

    def disk_bytes_of(self, size: int) -> int:
        """Whole blocks."""
        return disk_bytes(size)

    # Files that come

    def write(self, entry: Entry, content: bytes) -> None:
        """Write the entry's file."""
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
            self.disk_bytes += disk_bytes(size)

    def sync(self, entries: Iterable[Entry]) -> None:
        """One call for the file system where the system has it."""
        self.directory.sync(entries)

    def remove(self, entry: Entry) -> None:
        """Remove the file, whose sender is refused."""
        freed = self.directory.remove(entry)
        with self._lock:
            self.disk_bytes -= freed
            is_last = self._index.remove(entry)
        if is_last:
            self.directory.remove_second(entry.second)

    # What waits

    def first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """The first files: only the seconds that come first are put in order."""
        found: list[Entry] = []
        seconds = self._seconds()
        # Not sorted as a whole: that would hold up the event loop, and most seconds are not needed.
        while seconds and len(found) < limit:
            some = heapq.nsmallest(limit, seconds)
            seconds = [second for second in seconds if second > some[-1]]
            for second in some:
                found += sorted(entry for entry in self._of(second) if entry not in without)
                if len(found) >= limit:
                    break
        return found[:limit]

    def holds(self, entry: Entry) -> bool:
        """Whether this file waits."""
        with self._lock:
            return entry in self._index

    def read(self, entry: Entry) -> bytes:
        """The content of the file. Raises DamagedFileError when it is the file that cannot be read."""
        try:
            return self.directory.read(entry)
        except OSError as error:
            raise unreadable(error) from error

    def with_number(self, number: int) -> list[Entry]:
        """One, or several after two directories were put together."""
        return self._with(1, number)

    def with_key(self, key_hash: int) -> list[Entry]:
        """By the names of the files."""
        return self._with(2, key_hash)

    def _with(self, field: int, value: int) -> list[Entry]:
        found: list[Entry] = []
        for second in self._seconds():
            with self._lock:
                found += self._index.matching(second, field, value)
        return sorted(found)

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """In order of their numbers."""
        later = (entry for entry in self.all() if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    def all(self) -> Iterator[Entry]:
        """Every file, second by second."""
        for second in self._seconds():
            yield from self._of(second)

    def _seconds(self) -> list[int]:
        with self._lock:
            return self._index.seconds()

    def _of(self, second: int) -> list[Entry]:
        with self._lock:
            return [*self._index.of(second)]

    # Files that leave

    def forget(self, entries: Iterable[Entry]) -> list[Entry]:
        """Remove the files, and directories that become empty; returns those that cannot be removed."""
        kept: list[Entry] = []
        for entry in entries:
            try:
                self.remove(entry)
                pass_point("files.removed")
            except OSError as error:
                log.warning("%s is no longer needed, but cannot be removed: %s", entry.name, error.strerror)
                kept.append(entry)
        return kept

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Move the file into the quarantine."""
        with self._lock:
            self._index.remove(entry)
        freed = self._quarantine(entry.second, entry.name, kind, reason)
        with self._lock:
            self.disk_bytes -= freed

    def _quarantine(self, second: int, name: str, kind: str, reason: str) -> int:
        self.damaged[kind] += 1
        try:
            size = self.directory.quarantine(second, name, reason)
        except OSError as error:
            log.warning("%d/%s cannot be moved into the quarantine: %s", second, name, error)
            return 0
        self.quarantined += 1
        return size

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Directories are removed with their last file."""

    # Files that others put there

    def adopt(self, now_us: int) -> list[Entry]:
        """Adopt foreign files in directories that have changed, and remove empty ones that are due (D-13)."""
        adopted: list[Entry] = []
        everything, self._left_over = [*self._left_over, *self._changed()], []
        for found in everything:
            names = [entry.name for entry in found.entries if not self._knows(entry)]
            adopted += self._take_in(found, names, now_us)
        for found in everything:  # after the files in their places, of which these may be copies
            adopted += self._take_in(found, found.strays, now_us)
        self._seen_ns = max([self._seen_ns, *(found.changed_ns for found in everything)])
        return adopted

    def _changed(self) -> Iterator[FoundDirectory]:
        for found in [*self.directory.scan(self._seen_ns)]:
            if isinstance(found, FoundDirectory):
                yield found
            else:
                self._ignore(found)

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
        """Skip a file that cannot be accessed. Raises the error again if it may be temporary."""
        if error.errno in TRY_AGAIN:
            raise error
        if not isinstance(error, FileNotFoundError):  # delivered meanwhile
            self._ignore(f"{what} ({error.strerror})")

    def _adopt(self, second: int, name: str) -> Entry | None:
        """Give a foreign file its right name, or quarantine it; None if it brings no message."""
        content = self.directory.read_stray(second, name)
        try:
            entry = decode(content).header.entry
        except DamagedFileError as error:
            log.warning("the delayed message %d/%s is put aside: %s", second, name, error)
            self._quarantine(second, name, error.kind, str(error))
            return None
        if self._knows(entry):
            if (second, name) != (entry.second, entry.name):  # else a copy got this name meanwhile
                self.repeats += 1
                self.directory.remove_stray(second, name)
            return None
        self.directory.move(second, name, entry)
        self._add(entry, len(content))
        return entry

    def _ignore(self, what: str) -> None:
        """Leave it, and log that once per name: it may belong to a mount point or to the user."""
        if what not in self._ignored:
            self._ignored.add(what)
            self.damaged["ignored"] += 1
            log.warning("the delay directory holds %s, which is not ours and is left alone", what)
