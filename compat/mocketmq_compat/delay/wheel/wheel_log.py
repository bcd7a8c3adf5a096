"""The wheel's files as records: appended, read by offset, scanned, removed.

All methods block, run in threads, and may raise OSError. One lock keeps appends and removals of a file
apart, so a message never goes into a file that is just being removed.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.wheel.record import (
    HEAD,
    KEY_OFFSET,
    NUMBER_OFFSET,
    Content,
    Damage,
    Record,
    encode_record,
    is_begun,
    record_at,
    records,
    start_of,
    waiting,
)
from mocketmq_compat.delay.wheel.wheel_storage import WheelStorage

log = logging.getLogger(__name__)

_LIKELY_BYTES: Final = 4_096
"""Most records are no longer."""


class WheelLog:
    """The files in a storage; a :class:`~mocketmq_compat.delay.group_saves.SaveDirectory`."""

    def __init__(self, storage: WheelStorage) -> None:
        self.storage = storage
        self.offsets: dict[Entry, int] = {}  # of what was written, until its save is over
        self.refused: set[Entry] = set()  # whose senders were told that nothing was kept
        self.damaged = 0  # pieces that were no record and are put aside now
        self._sizes: dict[int, int] = {}
        self._lock = threading.Lock()

    def open(self) -> list[str]:
        """Learn the sizes of all files; the names of what is not ours."""
        sizes, others = self.storage.sizes()
        self._sizes = dict(sizes)
        return others

    @property
    def starts(self) -> list[int]:
        """The files, in order."""
        return sorted(self._sizes)

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum([*self._sizes.values()])

    def size(self, start: int) -> int:
        """The size of a file; 0 if there is none."""
        return self._sizes.get(start, 0)

    # Saves

    def write(self, entry: Entry, content: bytes) -> None:
        """Append a message; it is durable after ``sync``."""
        self.offsets[entry] = self._append(start_of(entry), encode_record(entry, content))

    def sync(self, entries: Iterable[Entry]) -> None:
        """Make everything written so far durable, including these entries."""
        self.storage.sync({start_of(entry) for entry in entries})

    def remove(self, entry: Entry) -> None:
        """Take back what ``write`` has written: its sync failed."""
        self.refused.add(entry)
        self.offsets.pop(entry, None)
        self.mark([entry])

    def mark(self, entries: Sequence[Entry]) -> None:
        """Mark messages of one file as done with."""
        if entries:
            self._append(start_of(entries[0]), b"".join(map(encode_record, entries)))

    def _append(self, start: int, data: bytes) -> int:
        with self._lock:
            offset = self.size(start)
            self.storage.write(start, offset, data)
            self._sizes[start] = offset + len(data)
            return offset

    def remove_file(self, start: int, size: int) -> bool:
        """Remove a file if it has this size still; False if something was appended."""
        with self._lock:
            if self.size(start) != size:
                return False
            self.storage.remove(start)
            self._sizes.pop(start, None)
        pass_point("wheel.removed")
        return True

    # Reading

    def read(self, entry: Entry, offsets: Sequence[int]) -> bytes:
        """The content of a message that is at one of these offsets; if its head is damaged, all of it.

        Raises FileNotFoundError.
        """
        start = start_of(entry)
        for offset in offsets:
            data = self.storage.read(start, offset, _LIKELY_BYTES)
            if len(data) >= HEAD.size:
                _, _, size, *fields = HEAD.unpack_from(data)
                if Entry(*fields) == entry:
                    content = data[HEAD.size : HEAD.size + size]
                    rest = size - len(content)
                    return content + self.storage.read(start, offset + len(data), rest) if rest else content
        with self.storage.open(start) as whole:
            for each in records(whole):
                if isinstance(each, Damage) and each.begin in offsets:
                    return bytes(whole[each.begin : each.end])
        raise FileNotFoundError(2, "the record is gone", entry.name)

    def scan(self, start: int) -> dict[Entry, int]:
        """The offsets of the messages of a file that wait, in order of arrival; damage is put aside."""
        try:
            with self.storage.open(start) as data:
                found = list(records(data))
                for each in found:
                    # What is begun is being written.
                    if isinstance(each, Damage) and not (each.is_torn and is_begun(data, each.begin)):
                        self._put_aside(start, data, each)
                return waiting(found)
        except FileNotFoundError:
            return {}

    def mend(self, start: int) -> dict[Entry, int]:
        """As ``scan``, before anything is appended: a torn end is cut off, too."""
        torn = None
        with self.storage.open(start) as data:
            found = list(records(data))
            for each in found:
                if isinstance(each, Damage):
                    self._put_aside(start, data, each)
                    torn = each if each.is_torn else torn
        if torn is not None:
            self.storage.cut(start, torn.begin)
            self._sizes[start] = torn.begin
        return waiting(found)

    def _put_aside(self, start: int, data: Content, damage: Damage) -> None:
        damaged = bytes(data[damage.begin : damage.end])
        if damaged.strip(b"\0"):
            name, reason = f"{start}-{damage.begin}", "these bytes are no record"
            if self.storage.put_aside(name, damaged, reason):
                self.damaged += 1
                log.warning(
                    "the file of delayed messages due from %d on is damaged; see .bad/%s", start, name
                )

    def numbered(self, start: int, number: int) -> list[Entry]:
        """The messages of a file that have this number, done with or not."""
        return self._with(start, number, NUMBER_OFFSET, 1)

    def keyed(self, start: int, key_hash: int) -> list[Entry]:
        """The messages of a file whose keys have this hash, done with or not."""
        return self._with(start, key_hash, KEY_OFFSET, 2)

    def _with(self, start: int, value: int, field_offset: int, field: int) -> list[Entry]:
        wanted = value.to_bytes(8, "little", signed=True)
        found: set[Entry] = set()
        with suppress(FileNotFoundError), self.storage.open(start) as data:
            place = data.find(wanted)
            while place >= 0:
                record = record_at(data, place - field_offset)
                if isinstance(record, Record) and record.size and record.entry[field] == value:
                    found.add(record.entry)
                place = data.find(wanted, place + 1)
        return sorted(found)


def by_file(entries: Iterable[Entry]) -> Mapping[int, list[Entry]]:
    """The entries of each file."""
    found: dict[int, list[Entry]] = {}
    for entry in entries:
        found.setdefault(start_of(entry), []).append(entry)
    return found
