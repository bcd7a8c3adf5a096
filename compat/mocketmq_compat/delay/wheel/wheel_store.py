"""The folder ``wheel`` as a store: a file per ten minutes, loaded ahead into a timing wheel in memory.

The idea is plan 2 of an article (docs/schemes/wheel.md). A new message goes to the end of the file of its
due time, and into the wheel as well if that file is loaded. The wheel holds the places of records, not
bodies; of a file that is not loaded, memory holds only how many messages wait in it. ``adopt`` loads files
ahead of their time, and lets go of those that somebody asked for before.

Two locks, the first taken first. ``_appending`` keeps appends and removals of files apart, so that no message
goes into a file that is just being removed; it is held over access to the disk. ``_lock`` guards the index
and never is. A file is loaded in two steps: all that it holds by now is read without a lock, and what was
appended meanwhile under ``_appending``.
"""

import heapq
import logging
import threading
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mocketmq.clock import US_PER_S
from mocketmq.failpoint import pass_point
from mocketmq.schedule.timer import BATCH
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, unreadable
from mocketmq_compat.delay.store import bound
from mocketmq_compat.delay.wheel.loaded_file import LoadedFile
from mocketmq_compat.delay.wheel.record import (
    HEAD,
    KEY_OFFSET,
    NUMBER_OFFSET,
    SPAN_S,
    Content,
    WheelDamage,
    encode_record,
    record_at,
    records,
    start_of,
    waiting,
)
from mocketmq_compat.delay.wheel.wheel_folder import WheelFolder

log = logging.getLogger(__name__)

AHEAD_S: Final = SPAN_S
"""Seconds before it is due that a file is loaded."""
_LIKELY_BYTES: Final = 4_096
"""Most records are no longer."""


@dataclass(slots=True)
class _File:
    size: int = 0
    waiting: int = 0
    loaded: LoadedFile | None = None


class WheelStore:
    """As :class:`~mocketmq_compat.delay.store.DelayStore`. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.folder = WheelFolder(root)
        self.disk_bytes = 0
        self.damaged: Counter[str] = Counter()
        self.quarantined = self.folder.quarantined()
        self.recounts = 0
        self.repeats = 0
        self.last_number = 0
        self._files: dict[int, _File] = {}
        self._appending = threading.Lock()
        self._lock = threading.Lock()
        self._loaded_to_s = 0
        self._unreadable: set[int] = set()
        self._refused: set[Entry] = set()  # taken back, but their records could not be marked
        self._open()

    def _open(self) -> None:
        sizes, others = self.folder.sizes()
        for name in others:
            self.damaged["ignored"] += 1
            log.warning("the wheel's directory holds %s, which is not ours and is left alone", name)
        for start in sorted(sizes):
            entries, size = self._mend(start, sizes[start])
            if not entries:
                self.folder.remove(start)
                continue
            self._files[start] = _File(size, len(entries))
            self.disk_bytes += size
            self.last_number = max(self.last_number, *(entry.number for entry in entries))

    def _mend(self, start: int, size: int) -> tuple[Sequence[Entry], int]:
        """Cut off a torn end, and put aside what is no record; what waits, and the size that is left."""
        with self.folder.open(start) as data:
            found = [*records(data)]
            damages = [each for each in found if isinstance(each, WheelDamage)]
            for damage in damages:
                self._put_aside(start, data, damage)
        if damages and damages[-1].is_torn:
            size = damages[-1].begin
            self.folder.cut(start, size)
        return [*waiting(found)], size

    def _put_aside(self, start: int, data: Content, damage: WheelDamage) -> None:
        damaged = bytes(data[damage.begin : damage.end])
        name, reason = f"{start}-{damage.begin}", "these bytes are no record"
        if damaged.strip(b"\0") and self.folder.put_aside(name, damaged, reason):
            self.damaged["damaged"] += 1
            self.quarantined += 1
            log.warning("the file of delayed messages due from %d on is damaged; see .bad/%s", start, name)

    def close(self) -> None:
        """Close the folder."""
        self.folder.close()

    @property
    def count(self) -> int:
        """How many messages wait."""
        return sum(file.waiting for file in [*self._files.values()])

    @property
    def parts(self) -> int:
        """How many files hold something that waits."""
        return sum(file.waiting > 0 for file in [*self._files.values()])

    @property
    def loaded(self) -> list[int]:
        """The files that are loaded, in order."""
        return [start for start, file in self._in_order() if file.loaded is not None]

    def by_second(self) -> dict[int, int]:
        """How many messages wait in each second; those of a file that is not loaded count in its last one."""
        counts: dict[int, int] = {}
        with self._lock:
            for start, file in self._files.items():
                if file.loaded is not None:
                    counts |= file.loaded.by_second()
                elif file.waiting:
                    counts[start + SPAN_S - 1] = file.waiting
        return counts

    def disk_bytes_of(self, size: int) -> int:
        """With the head of the record."""
        return HEAD.size + size

    def _in_order(self) -> list[tuple[int, _File]]:
        with self._lock:
            files = [*self._files.items()]
        return sorted(files, key=lambda item: item[0])

    # Messages that come

    def write(self, entry: Entry, content: bytes) -> None:
        """Append the message to its file."""
        start = start_of(entry)
        with self._appending:
            file = self._files.get(start)
            if file is None:
                file = _File(loaded=LoadedFile({}) if start <= self._loaded_to_s else None)
            offset = self._append(start, file, encode_record(entry, content))
            with self._lock:
                self._files[start] = file
                file.waiting += 1
                if file.loaded is not None:
                    file.loaded.add(entry, offset)

    def _append(self, start: int, file: _File, data: bytes) -> int:
        """Append to a file, under ``_appending``; the offset."""
        offset = file.size
        self.folder.write(start, offset, data)
        with self._lock:
            file.size += len(data)
            self.disk_bytes += len(data)
        return offset

    def sync(self, entries: Iterable[Entry]) -> None:
        """One call for the file system where the system has it."""
        self.folder.sync({start_of(entry) for entry in entries})

    def remove(self, entry: Entry) -> None:
        """Mark the record, whose sender is refused; if that fails, hide it until a restart."""
        if self.forget([entry]):
            with self._lock:
                self._refused.add(entry)
                file = self._files[start_of(entry)]
                file.waiting -= 1
                if file.loaded is not None:
                    file.loaded.remove(entry)

    # Load

    def adopt(self, now_us: int) -> Sequence[Entry]:
        """Load what is due soon, and let go of what is not. Nobody else writes here."""
        self._loaded_to_s = now_us // US_PER_S + AHEAD_S
        for start, file in self._in_order():
            is_soon = start <= self._loaded_to_s
            if is_soon or start in self._unreadable:
                self._load_again(start)
            with self._appending:
                if not file.waiting and self._files.get(start) is file:  # all that waited was damaged
                    self._remove_file(start, file)
                elif not is_soon:
                    with self._lock:
                        file.loaded = None
        return ()

    def _load_again(self, start: int) -> None:
        try:
            self._load(start)
        except OSError as error:
            self._pass_over(start, error)
            return
        if start in self._unreadable:
            self._unreadable.discard(start)
            self.recounts += 1

    def _pass_over(self, start: int, error: OSError) -> None:
        """The others go on; this file is tried again by ``adopt``."""
        if start not in self._unreadable:
            self._unreadable.add(start)
            log.error(
                "the delayed messages due from %d on cannot be read: %s; trying until they can",
                start,
                error.strerror,
            )

    def _load(self, start: int) -> LoadedFile | None:
        """What waits in a file, which is loaded unless it is; None if there is none. Raises OSError."""
        file = self._files.get(start)
        if file is None or file.loaded is not None:
            return None if file is None else file.loaded
        size = file.size
        loaded = LoadedFile(self._scan(start, size))
        with self._appending:
            if self._files.get(start) is not file:  # removed meanwhile
                return None
            with suppress(FileNotFoundError), self.folder.open(start, file.size) as data:
                for each in records(data, size):
                    if isinstance(each, WheelDamage):
                        self._put_aside(start, data, each)
                    elif not each.size:
                        loaded.remove(each.entry)
                    elif each.entry not in self._refused:
                        loaded.add(each.entry, each.offset)
            pass_point("wheel.loaded")
            count = sum(loaded.by_second().values())
            with self._lock:
                if file.loaded is None:  # else another thread was quicker
                    file.loaded = loaded
                    self.recounts += count != file.waiting
                    file.waiting = count
            return file.loaded

    def _scan(self, start: int, size: int) -> dict[Entry, int]:
        """The offsets of what waits in this much of a file, in order of arrival; damage is put aside."""
        try:
            with self.folder.open(start, size) as data:
                found = [*records(data)]
                for each in found:
                    if isinstance(each, WheelDamage):
                        self._put_aside(start, data, each)
        except FileNotFoundError:
            return {}
        return {entry: offset for entry, offset in waiting(found).items() if entry not in self._refused}

    # What waits

    def first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """The first messages; with a batch of them, files that are not loaded yet stay so, after a bound."""
        found: list[Entry] = []
        for start, file in self._in_order():
            if not file.waiting:
                continue
            if len(found) >= BATCH and file.loaded is None:
                return [*found, bound(start * US_PER_S)]
            try:
                for some in self._by_second(start, file, without):
                    found += some
                    if len(found) >= limit:
                        return found[:limit]
            except OSError as error:
                self._pass_over(start, error)
        return found

    def _by_second(self, start: int, file: _File, without: Container[Entry] = ()) -> Iterator[list[Entry]]:
        """What waits in a file, in order, in parts; it is read if it is not loaded, and stays so."""
        with self._lock:
            loaded = file.loaded
            seconds = [] if loaded is None else loaded.seconds()
        if loaded is None:
            yield sorted(entry for entry in self._scan(start, file.size) if entry not in without)
        else:
            for second in seconds:
                with self._lock:  # else ``without`` may have lost what was here
                    some = [entry for entry in loaded.of(second) if entry not in without]
                yield some

    def all(self) -> Iterator[Entry]:
        """Every message; files that are not loaded are read, and stay so. Raises OSError."""
        for start, file in self._in_order():
            for some in self._by_second(start, file):
                yield from some

    def holds(self, entry: Entry) -> bool:
        """Whether this message waits. Its file is loaded for that."""
        try:
            return self._offset(entry) is not None
        except OSError as error:
            self._pass_over(start_of(entry), error)
            return False

    def _offset(self, entry: Entry) -> int | None:
        loaded = self._load(start_of(entry))
        with self._lock:
            return None if loaded is None else loaded.offset(entry)

    def read(self, entry: Entry) -> bytes:
        """The content of the message; if the head of its record is damaged, all of that."""
        start = start_of(entry)
        try:
            offset = self._offset(entry)
            if offset is None:
                raise FileNotFoundError(2, "the record is gone", entry.name)
            data = self.folder.read(start, offset, _LIKELY_BYTES)
            if len(data) >= HEAD.size:
                _, _, size, *fields = HEAD.unpack_from(data)
                if Entry(*fields) == entry:
                    content = data[HEAD.size : HEAD.size + size]
                    rest = size - len(content)
                    return content + self.folder.read(start, offset + len(data), rest) if rest else content
            with self.folder.open(start) as whole:
                for each in records(whole, offset):
                    return bytes(whole[offset : each.end])
        except FileNotFoundError:
            raise
        except OSError as error:
            raise unreadable(error) from error
        raise FileNotFoundError(2, "the record is gone", entry.name)

    def with_number(self, number: int) -> list[Entry]:
        """One, or several after two folders were put together."""
        return self._with(1, number, NUMBER_OFFSET)

    def with_key(self, key_hash: int) -> list[Entry]:
        """By the heads of records."""
        return self._with(2, key_hash, KEY_OFFSET)

    def _with(self, field: int, value: int, field_offset: int) -> list[Entry]:
        found: list[Entry] = []
        for start, file in self._in_order():
            with self._lock:
                some = None if file.loaded is None else file.loaded.matching(field, value)
            if some is None:
                mentioned = self._mentioned(start, file.size, field, value, field_offset)
                some = [entry for entry in mentioned if self.holds(entry)]
            found += some
        return sorted(found)

    def _mentioned(self, start: int, size: int, field: int, value: int, field_offset: int) -> set[Entry]:
        """The messages of a file that have this value in their heads, done with or not."""
        wanted = value.to_bytes(8, "little", signed=True)
        found: set[Entry] = set()
        with suppress(FileNotFoundError), self.folder.open(start, size) as data:
            place = data.find(wanted)
            while place >= 0:
                record = record_at(data, place - field_offset)
                if record is not None and record.size and record.entry[field] == value:
                    found.add(record.entry)
                place = data.find(wanted, place + 1)
        return found

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """In order of their numbers."""
        later = (entry for entry in self.all() if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    # Messages that leave

    def forget(self, entries: Iterable[Entry]) -> list[Entry]:
        """Mark the messages in their files, and remove a file with its last; returns those that cannot be."""
        files: dict[int, list[Entry]] = {}
        for entry in entries:
            files.setdefault(start_of(entry), []).append(entry)
        kept: list[Entry] = []
        for start, some in files.items():
            try:
                while not self._forget(start, some):
                    self._load(start)
            except OSError as error:
                log.warning("messages that are done with cannot be marked: %s", error)
                kept += some
        return kept

    def _forget(self, start: int, entries: Sequence[Entry]) -> bool:
        """False if the file is not loaded."""
        with self._appending:
            file = self._files.get(start)
            if file is None:
                return True
            if file.loaded is None:
                return False
            gone = [entry for entry in entries if file.loaded.offset(entry) is not None]
            if len(gone) == file.waiting:
                self._remove_file(start, file)
            elif gone:
                self._append(start, file, b"".join(map(encode_record, gone)))
                with self._lock:
                    file.waiting -= len(gone)
                    for entry in gone:
                        file.loaded.remove(entry)
                pass_point("wheel.marked")
        return True

    def _remove_file(self, start: int, file: _File) -> None:
        self.folder.remove(start)
        with self._lock:
            del self._files[start]
            self.disk_bytes -= file.size
        pass_point("wheel.removed")

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the content into the quarantine, and mark the message."""
        self.damaged[kind] += 1
        try:
            content = self.read(entry)
        except (FileNotFoundError, DamagedFileError):
            pass
        else:
            self.quarantined += self.folder.put_aside(entry.name, content, reason)
        self.forget([entry])

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Files are removed with their last message."""
