"""The store of the scheme ``wheel``: a file per ten minutes, loaded ahead into a timing wheel in memory.

The design is plan 2 of an article (docs/schemes/wheel.md). A new message is appended to the file of its due
time, and also added to the wheel if that file is loaded. The wheel holds the offsets of records, not bodies;
for a file that is not loaded, memory holds only the number of its pending messages. ``adopt`` loads files
that are due soon. It unloads files that a look-up has loaded too early, unless they were used since its last
call: the event loop may be about to cancel a message that was just looked up, and must not load its file.

There are two locks; ``_appending`` is acquired before ``_lock``. ``_appending`` separates appends from
removals of files, so that no message is written to a file that is being removed; it is held during disk I/O.
``_lock`` guards the index. The event loop also acquires the lock, so no thread holds it during I/O or for
long. A file is loaded in two steps: first its current content, without a lock, and then the records appended
in the meantime, under ``_appending``.
"""

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
from mocketmq_compat.delay.entry_table import EntryTable
from mocketmq_compat.delay.known_parts import KnownPart, load_known, save_known
from mocketmq_compat.delay.quarantine import pieces_in
from mocketmq_compat.delay.store import BaseStore, bound
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
"""Number of seconds before a file's first due second at which the file is loaded."""
_LIKELY_BYTES: Final = 4_096
"""Number of bytes in the first read of a record, which suffices for most records."""
_SEARCHED_BYTES: Final = 1 << 20
"""Number of bytes searched in one step, which takes a millisecond."""


_KIND: Final = "wheel"
_NUMBERS: Final = 2
"""Values kept for a file between runs: the number of pending messages, and the largest of their numbers."""


@dataclass(slots=True)
class _File:
    size: int = 0
    waiting: int = 0
    last_number: int = 0
    loaded: EntryTable | None = None  # the wheel's slots: pending messages with the offsets of their records
    is_used: bool = False  # whether a message was looked up since the last call of ``adopt``


class WheelStore(BaseStore):
    """A :class:`~mocketmq_compat.delay.store.DelayStore` with a timing wheel. Opening raises OSError."""

    def __init__(self, root: Path) -> None:
        self.folder = WheelFolder(root)
        self.disk_bytes = 0
        self.damaged: Counter[str] = Counter()
        self.quarantined = pieces_in(root)
        self.recounts = 0
        self.repeats = 0
        self.last_number = 0
        self._files: dict[int, _File] = {}
        self._appending = threading.Lock()
        self._lock = threading.Lock()
        self._loaded_to_s = 0
        self._unreadable: set[int] = set()
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        stamps, others = self.folder.stamps()
        for name in others:
            self.damaged["ignored"] += 1
            log.warning("ignoring %s in the wheel's folder: not a file of mocketmq", name)
        known = load_known(self.folder.root, _KIND, _NUMBERS)
        for start, stamp in sorted(stamps.items()):
            if (part := known.get(start, stamp)) is not None:
                count, last_number = part.numbers
                file = _File(stamp.size, count, last_number)
            else:
                entries, size = self._mend(start, stamp.size)
                file = _File(size, len(entries), max((entry.number for entry in entries), default=0))
            if not file.waiting:
                self.folder.remove_file(start)
                continue
            self._files[start] = file
            self.disk_bytes += file.size
            self.last_number = max(self.last_number, file.last_number)

    def _mend(self, start: int, size: int) -> tuple[Sequence[Entry], int]:
        """Truncate a torn end, and quarantine damage. Returns the pending messages and the remaining size."""
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
        name, reason = f"{start}-{damage.begin}", "these bytes are not a record"
        if damaged.strip(b"\0") and self.folder.put_aside(name, damaged, reason):
            self.damaged["damaged"] += 1
            self.quarantined += 1
            log.warning("quarantining damage in the file of messages due from %d on: .bad/%s", start, name)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError):
                self._save_known()
        self.folder.close()

    def _save_known(self) -> None:
        """Save the known values of each file for the next start."""
        self.folder.sync(self._files)
        stamps, _ = self.folder.stamps()
        save_known(
            self.folder.root,
            _KIND,
            _NUMBERS,
            (
                (start, KnownPart(stamps[start], (file.waiting, file.last_number)))
                for start, file in self._files.items()
                if start in stamps and stamps[start].size == file.size
            ),
        )

    @property
    def count(self) -> int:
        return sum(file.waiting for file in [*self._files.values()])

    @property
    def parts(self) -> int:
        """The number of files with pending messages."""
        return sum(file.waiting > 0 for file in [*self._files.values()])

    @property
    def loaded(self) -> list[int]:
        """Return the loaded files, in order."""
        return [start for start, file in self._in_order() if file.loaded is not None]

    def by_second(self) -> dict[int, int]:
        """Return the number of messages due in each second; an unloaded file counts for its last second."""
        counts: dict[int, int] = {}
        with self._lock:
            for start, file in self._files.items():
                if file.loaded is not None:
                    counts |= file.loaded.by_second
                elif file.waiting:
                    counts[start + SPAN_S - 1] = file.waiting
        return counts

    def disk_bytes_of(self, size: int) -> int:
        """Return the size of the record, including its head."""
        return HEAD.size + size

    def _in_order(self) -> list[tuple[int, _File]]:
        with self._lock:
            files = [*self._files.items()]
        return sorted(files, key=lambda item: item[0])

    # Saving

    def write(self, entry: Entry, content: bytes) -> None:
        start = start_of(entry)
        with self._appending:
            file = self._files.get(start)
            if file is None:
                file = _File(loaded=EntryTable(1) if start <= self._loaded_to_s else None)
            offset = self._append(start, file, encode_record(entry, content))
            with self._lock:
                self._files[start] = file
                file.waiting += 1
                file.last_number = max(file.last_number, entry.number)
                if file.loaded is not None:
                    file.loaded.add(entry, offset)

    def _append(self, start: int, file: _File, data: bytes) -> int:
        """Append to a file and return the offset. The caller must hold ``_appending``."""
        offset = file.size
        self.folder.write(start, offset, data)
        with self._lock:
            file.size += len(data)
            self.disk_bytes += len(data)
        return offset

    def sync(self, entries: Iterable[Entry]) -> None:
        """Sync all files with a single ``syncfs`` call where the system has it."""
        self.folder.sync({start_of(entry) for entry in entries})

    # Loading

    def adopt(self, now_us: int) -> None:
        """Load files that are due soon, and unload others. Adopts nothing: no other program adds records."""
        self._loaded_to_s = now_us // US_PER_S + AHEAD_S
        for start, file in self._in_order():
            is_soon = start <= self._loaded_to_s
            if is_soon or start in self._unreadable:
                self._load_again(start)
            with self._appending:
                if not file.waiting and self._files.get(start) is file:  # all pending messages were damaged
                    self._remove_file(start, file)
                elif not is_soon:
                    with self._lock:
                        if not file.is_used:
                            file.loaded = None
                        file.is_used = False

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
        """Skip an unreadable file; ``adopt`` will try to read it again."""
        if start not in self._unreadable:
            self._unreadable.add(start)
            log.error(
                "cannot read the file of delayed messages due from %d on, trying again later: %s",
                start,
                error.strerror,
            )

    def _load(self, start: int) -> EntryTable | None:
        """Return a file's pending messages, loading it if needed; None if it is gone. Raises OSError."""
        file = self._files.get(start)
        if file is None:
            return None
        file.is_used = True
        if file.loaded is not None:
            return file.loaded
        size = file.size
        loaded = self._scan(start, size)
        with self._appending:
            if self._files.get(start) is not file:  # removed in the meantime
                return None
            with suppress(FileNotFoundError), self.folder.open(start, file.size) as data:
                self._read_on(start, data, size, loaded)
            pass_point("wheel.loaded")
            with self._lock:
                if file.loaded is None:  # otherwise another thread has loaded the file
                    file.loaded = loaded
                    self.recounts += len(loaded) != file.waiting
                    file.waiting = len(loaded)
            return file.loaded

    def _scan(self, start: int, size: int) -> EntryTable:
        """Read the pending messages in a file's first ``size`` bytes, and quarantine damage."""
        found = EntryTable(1)
        with suppress(FileNotFoundError), self.folder.open(start, size) as data:
            self._read_on(start, data, 0, found)
        return found

    def _read_on(self, start: int, data: Content, offset: int, found: EntryTable) -> None:
        """Add pending messages from ``offset`` on, remove settled messages, and quarantine damage."""
        for each in records(data, offset):
            if isinstance(each, WheelDamage):
                self._put_aside(start, data, each)
            elif not each.size:
                found.remove(each.entry)
            else:
                found.add(each.entry, each.offset)

    # Pending messages

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first entries; after a batch, end with a bound instead of reading another file."""
        found: list[Entry] = []
        for start, file in self._in_order():
            if not file.waiting:
                continue
            if len(found) >= BATCH and file.loaded is None:
                return [*found, bound(start * US_PER_S)]
            try:
                pending = self._pending_of(start, file)
            except OSError as error:
                self._pass_over(start, error)
            else:
                # Under the lock, so that no message read here leaves ``without`` before the check.
                found += pending.first(limit - len(found), without, self._lock)
                if len(found) >= limit:
                    break
        return found

    def _pending_of(self, start: int, file: _File) -> EntryTable:
        """Return a file's pending messages. Reads an unloaded file without loading it. Raises OSError."""
        with self._lock:
            loaded = file.loaded
        return self._scan(start, file.size) if loaded is None else loaded

    def all(self) -> Iterator[Entry]:
        """Yield every message. Raises OSError."""
        for start, file in self._in_order():
            for some in self._pending_of(start, file).pages(self._lock):
                yield from some

    def holds(self, entry: Entry) -> bool:
        """Return whether this message is pending. Loads the message's file to find out."""
        try:
            return self._offset(entry) is not None
        except OSError as error:
            self._pass_over(start_of(entry), error)
            return False

    def _offset(self, entry: Entry) -> int | None:
        loaded = self._load(start_of(entry))
        with self._lock:
            return None if loaded is None else loaded.number_of(entry)

    def read(self, entry: Entry) -> bytes:
        """Read the message's content; if the record's head is damaged, return the whole record."""
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
        """Return the entries with this number: one, or several after two folders were merged."""
        return self._with(1, number, NUMBER_OFFSET)

    def with_key(self, key_hash: int) -> list[Entry]:
        """Return the entries with this key hash. Scans the record heads of unloaded files."""
        return self._with(2, key_hash, KEY_OFFSET)

    def _with(self, field: int, value: int, field_offset: int) -> list[Entry]:
        found: list[Entry] = []
        for start, file in self._in_order():
            with self._lock:
                loaded = file.loaded
            if loaded is not None:
                found += loaded.matching(field, value, self._lock)
            else:
                mentioned = self._mentioned(start, file.size, field, value, field_offset)
                found += (entry for entry in mentioned if self.holds(entry))
        return sorted(found)

    def _mentioned(self, start: int, size: int, field: int, value: int, field_offset: int) -> set[Entry]:
        """Find pending and settled messages of a file by a value in their records' heads."""
        wanted = value.to_bytes(8, "little", signed=True)
        found: set[Entry] = set()
        with suppress(FileNotFoundError), self.folder.open(start, size) as data:
            for place in _places_of(wanted, data):
                record = record_at(data, place - field_offset)
                if record is not None and record.size and record.entry[field] == value:
                    found.add(record.entry)
        return found

    # Removal

    def forget(self, entries: Iterable[Entry]) -> list[Entry]:
        """Mark messages as settled, and remove finished files. Returns messages that could not be marked."""
        files: dict[int, list[Entry]] = {}
        for entry in entries:
            files.setdefault(start_of(entry), []).append(entry)
        kept: list[Entry] = []
        for start, some in files.items():
            try:
                while not self._forget(start, some):
                    self._load(start)
            except OSError as error:
                log.warning("cannot mark settled messages, trying again later: %s", error)
                kept += some
        return kept

    def _forget(self, start: int, entries: Sequence[Entry]) -> bool:
        """Mark messages of one file as settled. Returns False if the file is not loaded."""
        with self._appending:
            file = self._files.get(start)
            if file is None:
                return True
            if file.loaded is None:
                return False
            gone = [entry for entry in entries if entry in file.loaded]
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
        self.folder.remove_file(start)
        with self._lock:
            del self._files[start]
            self.disk_bytes -= file.size
        pass_point("wheel.removed")

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Copy the content to the quarantine, and mark the message as settled."""
        self.damaged[kind] += 1
        try:
            content = self.read(entry)
        except (FileNotFoundError, DamagedFileError):
            pass
        else:
            self.quarantined += self.folder.put_aside(entry.name, content, reason)
        self.forget([entry])


def _places_of(wanted: bytes, data: Content) -> Iterator[int]:
    """Yield each place of ``wanted``. Searches in steps, because a step blocks all threads."""
    for begin in range(0, len(data), _SEARCHED_BYTES):
        end = begin + _SEARCHED_BYTES + len(wanted) - 1
        place = data.find(wanted, begin, end)
        while place >= 0:
            yield place
            place = data.find(wanted, place + 1, end)
