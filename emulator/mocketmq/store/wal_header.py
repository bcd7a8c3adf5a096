"""Check SQLite's write-ahead log before SQLite opens it.

SQLite silently treats a log with a broken header as empty and overwrites it, although it may hold every
message acknowledged since the last checkpoint. The broker refuses to start instead.
"""

import struct
from pathlib import Path

from mocketmq.errors import StoreUnavailableError, StoreUnreadableError

_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, two salts, two checksums
_MAGIC = 0x377F0682  # plus 1 if the checksums are computed over big-endian words


def check_log(database: str) -> None:
    """Raise StoreUnreadableError if the log of this database has a broken header.

    A log shorter than a header, or left full of zeros by a power cut, is accepted because it holds no commit.
    """
    log = Path(f"{database}-wal")
    try:
        with log.open("rb") as file:
            header = file.read(_HEADER.size)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailableError(f"cannot read {log}: {error.strerror}") from error
    if len(header) == _HEADER.size and any(header) and not _is_intact(header):
        raise StoreUnreadableError(
            f"{log} has a broken header, so what was stored last cannot be read; it was left as it is."
            f" Restore it from a copy, or remove it to continue with the content of {database} alone"
        )


def _is_intact(header: bytes) -> bool:
    magic, *_, first, second = _HEADER.unpack(header)
    order = {_MAGIC: "<", _MAGIC + 1: ">"}.get(magic)
    return order is not None and _checksum(struct.unpack_from(f"{order}6I", header)) == (first, second)


def _checksum(words: tuple[int, ...]) -> tuple[int, int]:
    """Compute the checksum of SQLite's file format, section 4.2."""
    first = second = 0
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
