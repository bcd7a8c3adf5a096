"""The key format of the scheme ``sorted``: binary, so that keys sort in the order of their numbers.

==============================  =========================================================================
``d`` due_ms · number · hash    the content of a delayed message's file
``n`` number · hash · due_ms    nothing: finds a message by its number, and lists them in order of arrival
``k`` hash · number · due_ms    the size of the content in bytes: finds a message by the hash of its key
``m``                           the number of pending messages, and the total size of their contents
``v``                           the version of this format
==============================  =========================================================================

Each number takes 8 bytes, big-endian.
"""

import struct
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry

VERSION: Final = b"1"
MESSAGE: Final = b"d"
NUMBER: Final = b"n"
KEY: Final = b"k"
TOTALS_KEY: Final = b"m"
VERSION_KEY: Final = b"v"
_KEY: Final = struct.Struct(">cQQQ")
_PREFIX: Final = struct.Struct(">cQ")
_TOTALS: Final = struct.Struct(">QQ")
_SIZE: Final = struct.Struct(">Q")


def message_key(entry: Entry) -> bytes:
    """Make the key of the message itself."""
    return _KEY.pack(MESSAGE, entry.due_ms, entry.number, entry.key_hash)


def number_key(entry: Entry) -> bytes:
    """Make the key that finds the message by its number."""
    return _KEY.pack(NUMBER, entry.number, entry.key_hash, entry.due_ms)


def hash_key(entry: Entry) -> bytes:
    """Make the key that finds the message by the hash of its unique key."""
    return _KEY.pack(KEY, entry.key_hash, entry.number, entry.due_ms)


def prefix(kind: bytes, number: int) -> bytes:
    """Make the common prefix of the keys of this kind with this number."""
    return _PREFIX.pack(kind, number)


def entry_of_key(key: bytes) -> Entry:
    """Read the entry from any of the three keys."""
    kind, one, two, three = _KEY.unpack(key)
    if kind == MESSAGE:
        return Entry(one, two, three)
    return Entry(three, one, two) if kind == NUMBER else Entry(three, two, one)


def pack_totals(count: int, size: int) -> bytes:
    """Encode the number of messages and the sum of their sizes."""
    return _TOTALS.pack(count, size)


def unpack_totals(value: bytes | None) -> tuple[int, int]:
    """Decode the number of messages and the sum of their sizes; both 0 at first."""
    count, size = _TOTALS.unpack(value) if value is not None else (0, 0)
    return count, size


def pack_size(size: int) -> bytes:
    """Encode a size in bytes."""
    return _SIZE.pack(size)


def unpack_size(value: bytes) -> int:
    """Decode a size in bytes."""
    size: int = _SIZE.unpack(value)[0]
    return size
