"""Check SQLite's write-ahead log before SQLite opens it.

SQLite silently treats a log with a broken header as empty and overwrites it, although it may hold every
message acknowledged since the last checkpoint. The broker refuses to start instead.
"""

import struct
from collections.abc import Sequence
from pathlib import Path

from mocketmq.errors import StoreUnavailableError, StoreUnreadableError

_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, two salts, two checksums
_FRAME = struct.Struct(">6I")  # page, size of the database after a commit, two salts, two checksums
_SUMMED_BYTES = 8  # of a frame's header, beside the page; in the log's header, the checksums themselves
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


def has_commit(database: Path) -> bool:
    """Whether the log holds a committed transaction, in SQLite's view. Raises OSError.

    A read-only connection that finds none removes the log when it is closed.
    """
    with Path(f"{database}-wal").open("rb") as log:
        header = log.read(_HEADER.size)
        if len(header) < _HEADER.size or not _is_intact(header):
            return False
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(header)
        while len(frame := log.read(_FRAME.size + page_bytes)) == _FRAME.size + page_bytes:
            _, pages, *frame_salts, first_sum, second_sum = _FRAME.unpack_from(frame)
            summed = frame[:_SUMMED_BYTES] + frame[_FRAME.size :]
            first, second = _checksum(_words(magic, summed), first, second)
            if frame_salts != salts or (first, second) != (first_sum, second_sum):
                return False
            if pages:  # the size of the database after a commit; 0 in all other frames
                return True
    return False


def _is_intact(header: bytes) -> bool:
    magic, *_, first, second = _HEADER.unpack(header)
    if magic not in (_MAGIC, _MAGIC + 1):
        return False
    return _checksum(_words(magic, header[:-_SUMMED_BYTES])) == (first, second)


def _words(magic: int, data: bytes) -> Sequence[int]:
    return struct.unpack(f"{'<' if magic == _MAGIC else '>'}{len(data) // 4}I", data)


def _checksum(words: Sequence[int], first: int = 0, second: int = 0) -> tuple[int, int]:
    """Compute the checksum of SQLite's file format, section 4.2, on top of that of the words before."""
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
