"""The format of the wheel's files, without any access to a disk.

A file ``<epoch second>.log`` holds the messages that are due in the ten minutes from this second on, in
order of arrival. It is a row of records, each a head of 36 bytes, little-endian, and a content::

    offset  bytes  field
         0      4  "MMW1"
         4      4  CRC-32 of the rest of the head
         8      4  size of the content
        12      8  due time, epoch milliseconds
        20      8  the message's number: its place in the order of arrival
        28      8  hash of its unique key
        36   size  the content of a delayed message's file (``delayed_file.py``), with a checksum of its own

A size of 0 makes the record a mark: the message of this due time, number and hash is done with. A file is
removed when all its messages are.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from mocketmq_compat.delay.delayed_file import Entry

SPAN_S: Final = 600
"""Seconds of due time in one file."""
MAGIC: Final = b"MMW1"
_CHECKED: Final = struct.Struct("<Iqqq")
HEAD: Final = struct.Struct("<4sIIqqq")
NUMBER_OFFSET: Final = 20
KEY_OFFSET: Final = 28


class Content(Protocol):
    """The content of a file: bytes, or a map of the file."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> bytes | bytearray: ...
    def find(self, wanted: bytes, begin: int = ..., /) -> int:
        """As that of bytes."""


def start_of(entry: Entry) -> int:
    """The epoch second that names the entry's file."""
    return entry.second // SPAN_S * SPAN_S


class WheelDamage(NamedTuple):
    """Bytes of a file that are no record, from ``begin`` to ``end``; torn, if they are the file's last."""

    begin: int
    end: int
    is_torn: bool


class WheelRecord(NamedTuple):
    """A record, without its content; ``size`` is the content's, 0 that of a mark."""

    offset: int
    entry: Entry
    size: int

    @property
    def end(self) -> int:
        """The offset behind the record."""
        return self.offset + HEAD.size + self.size


def encode_record(entry: Entry, content: bytes = b"") -> bytes:
    """The record of a message; a mark without a content."""
    checked = _CHECKED.pack(len(content), *entry)
    return b"%s%s%s%s" % (MAGIC, zlib.crc32(checked).to_bytes(4, "little"), checked, content)


def record_at(data: Content, offset: int) -> WheelRecord | None:
    """The record that begins here; None if there is none, or not all of it."""
    if offset < 0 or offset + HEAD.size > len(data):
        return None
    magic, crc, size, due_ms, number, digest = HEAD.unpack(data[offset : offset + HEAD.size])
    if magic != MAGIC or crc != zlib.crc32(data[offset + 8 : offset + HEAD.size]):
        return None
    record = WheelRecord(offset, Entry(due_ms, number, digest), size)
    return None if record.end > len(data) or min(record.entry) < 0 else record


def is_begun(data: Content, offset: int) -> bool:
    """Whether the rest of the file is the beginning of a record, or empty: its sender got no answer."""
    head = data[offset : offset + HEAD.size]
    if len(head) == HEAD.size and head.startswith(MAGIC):
        return int.from_bytes(head[4:8], "little") == zlib.crc32(head[8:])
    return MAGIC.startswith(head[: len(MAGIC)]) or not data[offset : len(data)].strip(b"\0")


def records(data: Content, offset: int = 0) -> Iterator[WheelRecord | WheelDamage]:
    """All records of a file from an offset on, and what lies between them."""
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
    """The offsets of messages that are not done with, in order of arrival."""
    offsets: dict[Entry, int] = {}
    for each in found:
        if isinstance(each, WheelRecord):
            offsets.pop(each.entry, None)
            if each.size:
                offsets[each.entry] = each.offset
    return offsets
