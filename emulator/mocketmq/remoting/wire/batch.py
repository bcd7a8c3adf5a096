"""Reads and writes batches, that is, several messages in one send (docs/protocol/remoting.md §2.2)."""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from mocketmq.errors import IllegalMessageError

MAX_BATCH: Final = 16_384
"""Maximum number of messages in a batch, because the header of the response must hold the id of each."""

_HEAD: Final = struct.Struct(">iiiii")  # size, magic code, checksum, flag, length of the body
_PROPERTIES: Final = struct.Struct(">h")


class BatchEntry(NamedTuple):
    """One message of a batch, with its properties exactly as the client wrote them."""

    flag: int
    body: bytes
    properties: str


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Encode messages as the body of a send."""
    parts: list[bytes] = []
    for flag, body, text in entries:
        properties = text.encode()
        size = _HEAD.size + len(body) + _PROPERTIES.size + len(properties)
        parts += (
            _HEAD.pack(size, 0, 0, flag, len(body)),
            body,
            _PROPERTIES.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchEntry]:
    """Decode the messages of a batch. Raises IllegalMessageError."""
    entries: list[BatchEntry] = []
    start = 0
    while start < len(body):
        if len(entries) == MAX_BATCH:
            raise _illegal(f"contains more than {MAX_BATCH} messages; allowed: 1 to {MAX_BATCH}")
        entry, start = _entry(body, start)
        entries.append(entry)
    if not entries:
        raise _illegal("contains no message")
    return entries


def _entry(data: bytes, start: int) -> tuple[BatchEntry, int]:
    """The message that begins at ``start``, and the index of its end."""
    try:
        size, _, _, flag, length = _HEAD.unpack_from(data, start)
        body, position = _piece(data, start + _HEAD.size, length)
        (length,) = _PROPERTIES.unpack_from(data, position)
    except struct.error:
        raise _illegal("ends in the middle of a message") from None
    properties, end = _piece(data, position + _PROPERTIES.size, length)
    if end - start != size:
        raise _illegal(f"contains a message that declares {size} bytes but is {end - start} bytes long")
    return BatchEntry(flag, body, properties.decode("utf-8", "replace")), end


def _piece(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    """``length`` bytes that begin at ``start``, and the index of their end."""
    end = start + length
    if not start <= end <= len(data):
        raise _illegal(f"contains a field of {length} bytes, but only {len(data) - start} are left")
    return data[start:end], end


def _illegal(reason: str) -> IllegalMessageError:
    return IllegalMessageError("body", f"the batch {reason}")
