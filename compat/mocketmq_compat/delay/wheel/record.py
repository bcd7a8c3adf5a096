"""The file format of the scheme ``wheel``. Does no I/O.

A file ``<epoch second>.log`` holds the messages that are due in the ten minutes from this second on, in
order of arrival. Each of its records is a head of 36 bytes, in little-endian numbers, and a content::

    offset  bytes  field
         0      4  "MMW1"
         4      4  CRC-32 of the rest of the head
         8      4  size of the content
        12      8  due time, epoch milliseconds
        20      8  the message's number: its place in the order of arrival
        28      8  hash of its unique key
        36   size  the content of a delayed message's file (``delayed_file.py``), with its own checksum

A record of size 0 is a mark: the message with the same due time, number and hash is settled. A file is
removed once all its messages are settled.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from mocketmq_compat.delay.delayed_file import Entry

SPAN_S: Final = 600
"""Number of seconds of due time that one file covers."""
MAGIC: Final = b"MMW1"
_CHECKED: Final = struct.Struct("<Iqqq")
HEAD: Final = struct.Struct("<4sIIqqq")
NUMBER_OFFSET: Final = 20
KEY_OFFSET: Final = 28


class Content(Protocol):
    """The content of a file: bytes, or a memory map."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> bytes | bytearray: ...
    def find(self, wanted: bytes, begin: int = ..., end: int = ..., /) -> int:
        """Like :meth:`bytes.find`."""


def start_of(entry: Entry) -> int:
    """Return the epoch second that names the entry's file."""
    return entry.second // SPAN_S * SPAN_S


class WheelDamage(NamedTuple):
    """A range of a file, from ``begin`` to ``end``, that is not a record; torn if the file ends with it."""

    begin: int
    end: int
    is_torn: bool


class WheelRecord(NamedTuple):
    """A record without its content; ``size`` is the content's length, 0 for a mark."""

    offset: int
    entry: Entry
    size: int

    @property
    def end(self) -> int:
        return self.offset + HEAD.size + self.size


def encode_record(entry: Entry, content: bytes = b"") -> bytes:
    """Encode the record of a message, or a mark if ``content`` is empty."""
    checked = _CHECKED.pack(len(content), *entry)
    return b"%s%s%s%s" % (MAGIC, zlib.crc32(checked).to_bytes(4, "little"), checked, content)


def record_at(data: Content, offset: int) -> WheelRecord | None:
    """Decode the record at this offset; None if there is no complete record."""
    if offset < 0 or offset + HEAD.size > len(data):
        return None
    magic, crc, size, due_ms, number, digest = HEAD.unpack(data[offset : offset + HEAD.size])
    if magic != MAGIC or crc != zlib.crc32(data[offset + 8 : offset + HEAD.size]):
        return None
    record = WheelRecord(offset, Entry(due_ms, number, digest), size)
    return None if record.end > len(data) or min(record.entry) < 0 else record


def is_begun(data: Content, offset: int) -> bool:
    """Return whether the file's end may be left by an interrupted save: part of a record, or zeros."""
    head = data[offset : offset + HEAD.size]
    if len(head) == HEAD.size and head.startswith(MAGIC):
        return int.from_bytes(head[4:8], "little") == zlib.crc32(head[8:])
    return MAGIC.startswith(head[: len(MAGIC)]) or not data[offset : len(data)].strip(b"\0")


def records(data: Content, offset: int = 0) -> Iterator[WheelRecord | WheelDamage]:
    """Yield all records of a file from an offset on, and the damage between them."""
    while offset < len(data):
        record = record_at(data, offset)
        if record is not None:
            yield record
            offset = record.end
            continue
        begin, offset = offset, data.find(MAGIC, offset + 1)
        while offset >= 0 and record_at(data, offset) is None:
            offset = data.find(MAGIC, offset + 1)
        if offset < 0:
            yield WheelDamage(begin, len(data), is_torn=True)
            return
        yield WheelDamage(begin, offset, is_torn=False)


def waiting(found: Iterable[WheelRecord | WheelDamage]) -> dict[Entry, int]:
    """Return the offsets of pending messages, in order of arrival."""
    offsets: dict[Entry, int] = {}
    for each in found:
        if isinstance(each, WheelRecord):
            offsets.pop(each.entry, None)
            if each.size:
                offsets[each.entry] = each.offset
    return offsets
