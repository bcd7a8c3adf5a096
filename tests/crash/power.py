"""Simulates a power cut by copying a data directory and undoing writes since the last sync.

The log loses pages of 4,096 bytes: all, none, or any. The broker's notes (``sync_notes``) show what it has
synced. SQLite syncs the log before copying it into the database. So the log is safe as far as a copy has
begun, and the database as far as a copy has ended. Pages that a copy is writing may be lost. The log's index
file is always lost, and SQLite recreates it.

For delay schemes that write into files, copies of the last synced files are kept next to the notes. After the
cut, any page may come from the copy or from the file, and files removed since the sync may exist again.
"""

import os
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from mocketmq.store.database import FILE_NAME

NOTES = "TEST_SYNC_NOTES"
"""Environment variable of a broker that names the file for its notes."""
WRITTEN_INTO = {"wheel": "*.log", "slots": "*/*", "sorted": "db/*.log"}
"""Files of delay schemes that change in place. RocksDB's tables never change, and RocksDB syncs them."""
PAGE = 4_096
HEADER = 32
FRAME = 24 + PAGE
INDEX_BYTES = 136
NOTE = struct.Struct("3I")

_INDEX = struct.Struct("4I2I2I2I2I")  # in this machine's byte order, see SQLite's walformat.html, section 2


class LogIndex(NamedTuple):
    """SQLite's index of its log: the committed frames, and how many are copied to the database."""

    frames: int
    salts: tuple[int, int]
    copied: int
    copying: int

    @classmethod
    def read(cls, read: Callable[[], bytes]) -> "LogIndex":
        """Read a consistent index, whose two headers are equal unless it is being changed."""
        while True:
            index = read()
            if index[:48] == index[48:96]:
                break
        fields = _INDEX.unpack_from(index)
        [copied], [copying] = struct.unpack_from("I", index, 96), struct.unpack_from("I", index, 128)
        return cls(fields[4], (fields[8], fields[9]), copied, copying)


class Cut(NamedTuple):
    """What a power cut has undone."""

    certain: int  # synced frames of the log
    frames: int  # committed frames
    lost: int  # lost pages of the log
    lost_copies: int  # lost pages of the database
    changed: int = 0  # pages of delay schemes since their last sync
    lost_changes: int = 0  # lost pages among them


def cut(data: Path, notes: Path | None, to: Path, random: Random) -> Cut:
    """Copy the directory of a stopped or dead broker, and undo some unsynced writes."""
    shutil.copytree(data, to)
    changed, lost_changes = _lose_changes(to, synced_files(notes), random) if notes else (0, 0)
    index_file = data / f"{FILE_NAME}-shm"
    (to / index_file.name).unlink(missing_ok=True)
    log = to / f"{FILE_NAME}-wal"
    if not index_file.exists() or not log.exists():
        return Cut(0, 0, 0, 0, changed, lost_changes)
    content = index_file.read_bytes()
    # A broker killed while it changed the index has changed the second header first.
    index = LogIndex.read(lambda: content[48:96] * 2 + content[96:INDEX_BYTES])
    certain = index.copying
    if notes and notes.exists() and len(note := notes.read_bytes()) == NOTE.size:
        first, second, frames = NOTE.unpack(note)
        if (first, second) == index.salts:
            certain = max(certain, frames)
    is_begun = log.read_bytes()[16:24] == content[80:88]  # otherwise the log has only what is copied
    lost = _lose_log(log, HEADER + certain * FRAME, random) if is_begun else 0
    copies = _lose_copies(to / FILE_NAME, log, index, random)
    return Cut(certain, index.frames, lost, copies, changed, lost_changes)


def synced_files(notes: Path) -> Path:
    """Return the copies of synced files, below the names of their folders."""
    return notes.with_name(f"{notes.name}.files")


def _lose_changes(data: Path, synced: Path, random: Random) -> tuple[int, int]:
    """Undo changes of the schemes' files. Returns the numbers of changed and of lost pages."""
    before, after = _contents(synced), _contents(data)
    if not after:
        return 0, 0
    chance = random.choice((0.0, 1.0, random.random()))
    changed = lost = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, b""), after.get(name)
        if new is None:
            if not name.startswith("sorted") and random.random() < chance:
                (data / name).write_bytes(old)
            continue
        pages = [
            place
            for place in range(0, max(len(old), len(new)), PAGE)
            if _page(old, place) != _page(new, place)
        ]
        gone = {place for place in pages if random.random() < chance}
        changed, lost = changed + len(pages), lost + len(gone)
        content = b"".join(_page(old if place in gone else new, place) for place in range(0, len(new), PAGE))
        kept = max((place + PAGE for place in pages if place not in gone), default=0)
        is_short = bool(gone) and random.random() < 0.5  # the file did not grow either
        content = content[: min(len(new), max(len(old), kept)) if is_short else len(new)]
        if content or name in before:
            (data / name).write_bytes(content)
        else:
            (data / name).unlink()
    return changed, lost


def _contents(root: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder, pattern in WRITTEN_INTO.items()
        for path in (root / folder).glob(pattern)
        if path.parent.name != ".bad"
    }


def _page(content: bytes, place: int) -> bytes:
    return content[place : place + PAGE].ljust(PAGE, b"\0")


def _lose_log(log: Path, certain: int, random: Random) -> int:
    content = bytearray(log.read_bytes())
    pages = [*range(certain // PAGE, -(-len(content) // PAGE))]
    chance = random.choice((0.0, 1.0, random.random() ** 3, random.random()))
    lost = [page for page in pages if random.random() < chance]
    for page in lost:
        start, end = max(page * PAGE, certain), min((page + 1) * PAGE, len(content))
        content[start:end] = bytes(max(end - start, 0))
    if lost and lost[-1] == pages[-1] and random.random() < 0.5:  # the file did not grow either
        del content[max(certain, _end_of_rest(pages, lost)) :]
    log.write_bytes(content)
    return len(lost)


def _end_of_rest(pages: list[int], lost: list[int]) -> int:
    kept = set(pages) - set(lost)
    return (max(kept, default=pages[0] - 1) + 1) * PAGE


def _lose_copies(database: Path, log: Path, index: LogIndex, random: Random) -> int:
    """Undo unfinished copies. The previous content is unknown, and does not matter."""
    pages = sorted({page for page in _pages(log, index.copied, index.copying) if page > 1})
    chance = random.choice((0.0, 1.0, random.random()))
    lost = [page for page in pages if random.random() < chance]
    descriptor = os.open(database, os.O_RDWR)
    try:
        size = os.fstat(descriptor).st_size
        for page in lost:
            if page * PAGE <= size:
                os.pwrite(descriptor, bytes(PAGE), (page - 1) * PAGE)
    finally:
        os.close(descriptor)
    return len(lost)


def _pages(log: Path, after: int, to: int) -> Iterator[int]:
    with log.open("rb") as file:
        for frame in range(after, to):
            file.seek(HEADER + frame * FRAME)
            yield int.from_bytes(file.read(4), "big")
