"""Decompresses message bodies for JSON clients, which have no RocketMQ library."""

import zlib
from codecs import getincrementaldecoder
from typing import Final, Literal, NamedTuple

from mocketmq.errors import shorten
from mocketmq.message.message import StoredMessage

Compression = Literal["zlib", "lz4", "zstd", "unknown"]

COMPRESSED_FLAG: Final = 1
"""The bit of sysFlag that marks a compressed body."""
_KIND_SHIFT, _KIND_MASK = 8, 7
_KINDS: Final[dict[int, Compression]] = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
"""Names of the compressions, by bits 8 to 10 of sysFlag (docs/protocol/remoting.md §3.2)."""


class Body(NamedTuple):
    """A body. ``compression`` is the compression that ``content`` still has, or None for plain content."""

    content: bytes
    compression: Compression | None


def body_of(message: StoredMessage, limit: int) -> Body:
    """Return the body, decompressed if it is zlib and at most ``limit`` bytes; otherwise as stored."""
    return unpacked(message.body, message.sys_flag, limit)


def unpacked(body: bytes, sys_flag: int, limit: int) -> Body:
    """Like ``body_of``, for a body with this sysFlag."""
    if not is_compressed(sys_flag):
        return Body(body, None)
    kind = _KINDS.get(sys_flag >> _KIND_SHIFT & _KIND_MASK, "unknown")
    content = _inflated(body, limit) if kind == "zlib" else None
    return Body(body, kind) if content is None else Body(content, None)


def text_of(content: bytes) -> str | None:
    """Return the content as text, or None if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def preview(head: bytes, sys_flag: int) -> str:
    """Return the beginning of a body, shortened, unless a client compressed the body."""
    return "(compressed)" if is_compressed(sys_flag) else shown_body(head)


def shown_body(content: bytes) -> str:
    """Return a body, shortened, as text if it is text."""
    start = content[:400]
    try:
        return shorten(getincrementaldecoder("utf-8")().decode(start))  # the cut may split a character
    except UnicodeDecodeError:
        return shorten(start)


def is_compressed(sys_flag: int) -> bool:
    """Whether a body with this sysFlag is compressed."""
    return bool(sys_flag & COMPRESSED_FLAG)


def _inflated(packed: bytes, limit: int) -> bytes | None:
    """Decompress the body. Return None if it is corrupt or larger than ``limit`` bytes."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        return None
    return content if unpacker.eof and len(content) <= limit else None
