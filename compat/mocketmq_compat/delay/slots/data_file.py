"""A day's data file in ``slots``: the records of messages due on that day, in order of arrival.

The file is ``data/<day>``; days count from the epoch. Numbers are little-endian::

    0   64 bytes  ``mocketmq-slots-data 1 <day>``, filled up with zeros
    64  records: ``MQSD`` · mark 4 · due_ms 8 · number 8 · key_hash 8 · size 4 · check 4 · content

``size`` is the length of the content in bytes, ``check`` the CRC-32 of the 28 bytes before it, and ``mark``
is ``DONE`` once the message is settled. The content is the same as in a delayed message's file
(``delayed_file.py``), which has a checksum too.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.quarantine import Quarantine
from mocketmq_compat.delay.slots import index_file
from mocketmq_compat.delay.slots.index_file import DONE, HEADER_BYTES, write_whole
from mocketmq_compat.delay.slots.open_files import OpenFiles

DAY_MS: Final = 86_400_000
MAGIC: Final = b"MQSD"
_RECORD: Final = struct.Struct("<4sIqqqII")
PREFIX_BYTES: Final = _RECORD.size
_MARK: Final = struct.Struct("<I")
_CHUNK_BYTES: Final = 1 << 20


class SlotRecord(NamedTuple):
    """A record's location; ``size`` is the length of the whole record in bytes."""

    offset: int
    size: int
    entry: Entry
    is_done: bool


class SlotDamage(NamedTuple):
    """A range of bytes that is not a record; ``is_last`` if the file ends with the range."""

    offset: int
    size: int
    is_last: bool


def encode(entry: Entry, content: bytes) -> bytes:
    """Encode the record of a pending message."""
    plain = _RECORD.pack(MAGIC, 0, *entry, len(content), 0)
    return _RECORD.pack(MAGIC, 0, *entry, len(content), zlib.crc32(plain[8:-4])) + content


def set_done(fd: int, offset: int) -> None:
    """Mark the record at this offset as settled."""
    write_whole(fd, _MARK.pack(DONE), offset + len(MAGIC))


def is_done(fd: int, offset: int) -> bool:
    """Return whether the record at this offset is marked as settled."""
    return os.pread(fd, _MARK.size, offset + len(MAGIC)) == _MARK.pack(DONE)


def begins(fd: int, offset: int, size: int, entry: Entry) -> bool:
    """Return whether this entry's record begins at the offset; ``size`` is the length of the whole record."""
    found = os.pread(fd, PREFIX_BYTES, offset)
    expected = _RECORD.pack(MAGIC, 0, *entry, size - PREFIX_BYTES, 0)
    return found.startswith(MAGIC) and found[8:-4] == expected[8:-4]


def records(fd: int) -> Iterator[SlotRecord | SlotDamage]:
    """Yield all records and damage after the header, in order."""
    end = os.fstat(fd).st_size
    offset = HEADER_BYTES
    while offset < end:
        record = _record_at(fd, offset, end)
        if record is not None:
            yield record
            offset += record.size
        else:
            following = _next_record(fd, offset + 1, end)
            yield SlotDamage(offset, following - offset, following == end)
            offset = following


def is_begun(fd: int, damage: SlotDamage) -> bool:
    """Return whether an interrupted save could have left these bytes: the beginning of a record, or zeros."""
    if not damage.is_last:
        return False
    prefix = os.pread(fd, PREFIX_BYTES, damage.offset)
    if len(prefix) == PREFIX_BYTES and prefix.startswith(MAGIC):
        return _is_checked(prefix)
    is_empty = not os.pread(fd, damage.size, damage.offset).strip(b"\0")
    return MAGIC.startswith(prefix[: len(MAGIC)]) or is_empty


def _is_checked(prefix: bytes) -> bool:
    return zlib.crc32(prefix[8:-4]) == int.from_bytes(prefix[-4:], "little")


def _record_at(fd: int, offset: int, end: int) -> SlotRecord | None:
    prefix = os.pread(fd, PREFIX_BYTES, offset)
    if len(prefix) < PREFIX_BYTES or not prefix.startswith(MAGIC):
        return None
    _, mark, due_ms, number, digest, size, _ = _RECORD.unpack(prefix)
    whole = PREFIX_BYTES + size
    if not _is_checked(prefix) or offset + whole > end:
        return None
    return SlotRecord(offset, whole, Entry(due_ms, number, digest), mark == DONE)


def _next_record(fd: int, offset: int, end: int) -> int:
    """Find the offset of the next intact record; ``end`` if there is none."""
    while offset < end:
        chunk = os.pread(fd, _CHUNK_BYTES, offset)
        place = chunk.find(MAGIC)
        while place >= 0:
            if _record_at(fd, offset + place, end) is not None:
                return offset + place
            place = chunk.find(MAGIC, place + 1)
        offset += max(len(chunk) - len(MAGIC) + 1, 1)
    return end


def data_name(day: int) -> str:
    """Return the path of a day's data file in the folder of the scheme."""
    return f"data/{day}"


class DayData:
    """The data files of the store in ``root``. Damaged parts move to the quarantine."""

    def __init__(self, root: Path, files: OpenFiles, quarantine: Quarantine) -> None:
        self._root = root
        self._files = files
        self._quarantine = quarantine

    def is_ours(self, day: int) -> bool:
        """Return whether the file has the header of this version and day. Quarantines any other file."""
        name = data_name(day)
        found = os.pread(self._files.read(name), HEADER_BYTES, 0)
        if found == index_file.header("data", day):
            return True
        self._files.close_file(name)
        if found.strip(b"\0"):
            reason = "its header does not match this version and day"
            (self._root / name).rename(self._quarantine.place_for(name, "version", reason))
        else:
            self._files.remove_file(name)  # a power failure interrupted its creation
        return False

    def drop_damage(self, day: int) -> None:
        """Rewrite the file without its damaged parts, if it has any."""
        name = data_name(day)
        fd = self._files.read(name)
        if not any(isinstance(part, SlotDamage) for part in records(fd)):
            return
        temporary = self._root / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(os.pread(fd, HEADER_BYTES, 0))
            for part in records(fd):
                content = os.pread(fd, part.size, part.offset)
                if isinstance(part, SlotRecord):
                    file.write(content)
                else:
                    kind = "torn" if content.startswith(MAGIC) else "stray"
                    reason = f"{part.size} bytes at {part.offset} are not a record"
                    place = self._quarantine.place_for(f"{name}-{part.offset}", kind, reason)
                    place.write_bytes(content)
            file.flush()
            os.fsync(file.fileno())
        self._files.replace(name, temporary)
