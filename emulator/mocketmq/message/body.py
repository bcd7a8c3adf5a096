"""Decompress bodies for JSON clients, which have no RocketMQ library that does it."""

import zlib
from typing import Final, Literal, NamedTuple

from mocketmq.message.message import StoredMessage

Compression = Literal["zlib", "lz4", "zstd", "unknown"]

_COMPRESSED: Final = 1
_KIND_SHIFT, _KIND_MASK = 8, 7
_KINDS: Final[dict[int, Compression]] = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
"""Names of compressions, by bits 8 to 10 of sysFlag (docs/protocol/remoting.md §3.2)."""


class Body(NamedTuple):
    """A body. ``compression`` names the compression that ``content`` still has; None for plain content."""

    content: bytes
    compression: Compression | None


def body_of(message: StoredMessage, limit: int) -> Body:
    """Return the body, decompressed if it is zlib and at most ``limit`` bytes; otherwise as it is stored."""
    if not is_compressed(message.sys_flag):
        return Body(message.body, None)
    kind = _KINDS.get(message.sys_flag >> _KIND_SHIFT & _KIND_MASK, "unknown")
    content = _inflated(message.body, limit) if kind == "zlib" else None
    return Body(message.body, kind) if content is None else Body(content, None)


def is_compressed(sys_flag: int) -> bool:
    """Whether a body with this sysFlag is compressed."""
    return bool(sys_flag & _COMPRESSED)


def _inflated(packed: bytes, limit: int) -> bytes | None:
    """Return None for a body that is corrupt or larger than ``limit`` bytes."""
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(packed, limit + 1)
    except zlib.error:
        return None
    return content if unpacker.eof and len(content) <= limit else None
