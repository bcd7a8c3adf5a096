"""The format of an hour's index in ``slots``: a table of 36,000 slots of 0.1 s, each a linked list of items.

The file is ``index/<hour>``; hours count from the epoch. Numbers are little-endian::

    0        64 bytes  ``mocketmq-slots-index 1 <hour>``, filled up with zeros
    64       36,000 numbers of 4 bytes: the newest item of each slot, 0 for none
    144,064  items of 48 bytes, numbered from 1, in order of arrival:
             due_ms 8 · number 8 · key_hash 8 · offset 8 · size 4 · previous 4 · check 4 · mark 4

``offset`` is the offset of the record in the day's data file and ``size`` its length in bytes. ``previous``
is the number of the previous item in the same slot, ``check`` the CRC-32 of the 40 bytes before it. ``mark``
is 0 for a pending message and ``DONE`` for a settled one. An index can be rebuilt from the data.

All reads are checked. :class:`DamagedIndexError` means that another program has changed the file.
"""

import errno
import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from mocketmq_compat.delay.delayed_file import Entry

DONE: Final = int.from_bytes(b"DONE", "little")
"""The mark of a settled record: its message is delivered, cancelled or quarantined."""
SLOT_MS: Final = 100
SLOTS: Final = 36_000
HOUR_MS: Final = SLOT_MS * SLOTS
HEADER_BYTES: Final = 64
ITEMS_AT: Final = HEADER_BYTES + 4 * SLOTS
_NUMBER: Final = struct.Struct("<I")
_ITEM: Final = struct.Struct("<qqqqIIII")
ITEM_BYTES: Final = _ITEM.size
_CHECKED: Final = ITEM_BYTES - 8
_MARK_AT: Final = ITEM_BYTES - 4
_AT_ONCE: Final = 16_384
"""Number of items read in one step."""


class DamagedIndexError(OSError):
    """The index of an hour differs from the broker's last write."""

    def __init__(self, hour: int, reason: str) -> None:
        super().__init__(errno.EIO, reason, f"index/{hour}")
        self.hour = hour


class Item(NamedTuple):
    """An item of an index: a message's entry, and the location of its record."""

    entry: Entry
    offset: int
    size: int
    previous: int
    mark: int


def header(kind: str, number: int) -> bytes:
    """Encode the header of a file."""
    return f"mocketmq-slots-{kind} 1 {number}\n".encode().ljust(HEADER_BYTES, b"\0")


def slot_of(due_ms: int) -> int:
    """Return the slot of a due time within its hour."""
    return due_ms % HOUR_MS // SLOT_MS


def end_of(items: int) -> int:
    """Return the length of an index with this number of items."""
    return ITEMS_AT + items * ITEM_BYTES


def heads(fd: int, first: int = 0, slots: int = SLOTS) -> "array[int]":
    """Read the newest item of each of these slots."""
    table = array("I")
    table.frombytes(os.pread(fd, 4 * slots, HEADER_BYTES + 4 * first).ljust(4 * slots, b"\0"))
    return table


def append(fd: int, items: int, entry: Entry, offset: int, size: int, mark: int = 0) -> int:
    """Append an item after the first ``items``, and make it the head of its slot. Returns the previous head.

    If this raises OSError, nothing has changed.
    """
    slot = slot_of(entry.due_ms)
    fields = (*entry, offset, size, heads(fd, slot, 1)[0])
    check = zlib.crc32(_ITEM.pack(*fields, 0, 0)[:_CHECKED])
    try:
        write_whole(fd, _ITEM.pack(*fields, check, mark), end_of(items))
        write_whole(fd, _NUMBER.pack(items + 1), HEADER_BYTES + 4 * slot)
    except OSError:
        with suppress(OSError):
            write_whole(fd, _NUMBER.pack(fields[-1]), HEADER_BYTES + 4 * slot)
        with suppress(OSError):
            os.ftruncate(fd, end_of(items))
        raise
    return fields[-1]


def set_mark(fd: int, item: int, mark: int) -> None:
    """Set the mark of an item."""
    write_whole(fd, _NUMBER.pack(mark), end_of(item - 1) + _MARK_AT)


ReadItems = Callable[[int, int], bytes]
"""Reads items as bytes. The arguments are the number of the first item, and the number of items."""


def chain(read: ReadItems, hour: int, slot: int, head: int) -> Iterator[tuple[int, Item]]:
    """Yield the items of a slot with their numbers, newest first; neighbours are read in one block."""
    block, first, wanted = b"", 1, 1
    tenth = hour * SLOTS + slot
    while head:
        if not first <= head < first + len(block) // ITEM_BYTES:
            first = max(head - wanted + 1, 1)
            wanted = min(2 * wanted, _AT_ONCE)
            block = read(first, head - first + 1)
        item = _item(hour, block, (head - first) * ITEM_BYTES)
        if item.entry.due_ms // SLOT_MS != tenth or item.previous >= head:
            raise DamagedIndexError(hour, f"item {head} does not belong to slot {slot}")
        yield head, item
        head = item.previous


def in_order(read: ReadItems, hour: int, items: int) -> Iterator[Item]:
    """Yield all items in order of arrival."""
    for first in range(1, items + 1, _AT_ONCE):
        block = read(first, min(items - first + 1, _AT_ONCE))
        for start in range(0, len(block), ITEM_BYTES):
            yield _item(hour, block, start)


def read_items(fd: int, hour: int, first: int, items: int) -> bytes:
    """Read this many items from ``first`` on, as bytes."""
    block = os.pread(fd, items * ITEM_BYTES, end_of(first - 1))
    if len(block) != items * ITEM_BYTES:
        raise DamagedIndexError(hour, f"it ends before item {first + items - 1}")
    return block


def read_item(fd: int, hour: int, number: int) -> Item:
    """Read one item."""
    return _item(hour, read_items(fd, hour, number, 1), 0)


class IndexTotals(NamedTuple):
    """Counts and checksums of an index."""

    items: int
    waiting: int
    heads: int  # the sum of the numbers in the table
    offsets: int  # the sum of the offsets of all listed records
    record_bytes: int  # size of these records
    least_number: int
    greatest_number: int


def check(fd: int, hour: int, counts: Callable[[int], bool] | None = None) -> IndexTotals | None:
    """Read the totals of an index; None if it is damaged or incomplete.

    ``counts`` decides whether the record at an offset belongs to the totals. With ``counts``, a broker may be
    adding to the index, and the items that it adds during the check are skipped.
    """
    items, rest = divmod(os.fstat(fd).st_size - ITEMS_AT, ITEM_BYTES)
    if items < 0 or (rest and counts is None) or os.pread(fd, HEADER_BYTES, 0) != header("index", hour):
        return None
    newest: dict[int, int] = {}
    named = waiting = offsets = record_bytes = greatest_number = 0
    least_number = 1 << 63
    for first in range(1, items + 1, _AT_ONCE):
        block = read_items(fd, hour, first, min(items - first + 1, _AT_ONCE))
        for place, fields in enumerate(_ITEM.iter_unpack(block)):
            start = place * ITEM_BYTES
            due_ms, number, _, offset, size, previous, crc, mark = fields
            slot = slot_of(due_ms)
            if (
                zlib.crc32(block[start : start + _CHECKED]) != crc
                or mark not in (0, DONE)
                or due_ms // HOUR_MS != hour
                or newest.get(slot, 0) != previous
            ):
                return None
            newest[slot] = first + place
            if counts is not None and not counts(offset):
                continue
            named += 1
            waiting += not mark
            offsets += offset
            record_bytes += size
            least_number = min(least_number, number)
            greatest_number = max(greatest_number, number)
    table = heads(fd)
    if counts is not None:
        table = array("I", (newest.get(slot, 0) if head > items else head for slot, head in enumerate(table)))
    if any(table[slot] != item for slot, item in newest.items()) or sum(map(bool, table)) != len(newest):
        return None
    return IndexTotals(named, waiting, sum(table), offsets, record_bytes, least_number, greatest_number)


def write_whole(fd: int, content: bytes, offset: int) -> None:
    """Write all of ``content``. Raises OSError."""
    written = os.pwrite(fd, content, offset)
    while written < len(content):
        written += os.pwrite(fd, memoryview(content)[written:], offset + written)


def _item(hour: int, block: bytes, start: int) -> Item:
    due_ms, number, digest, offset, size, previous, crc, mark = _ITEM.unpack_from(block, start)
    if zlib.crc32(block[start : start + _CHECKED]) != crc or mark not in (0, DONE):
        raise DamagedIndexError(hour, "an item does not match its checksum")
    return Item(Entry(due_ms, number, digest), offset, size, previous, mark)
