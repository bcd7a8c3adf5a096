"""Access to the files in the folder ``wheel``; a file's name is the first epoch second that it covers."""

import contextlib
import mmap
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mocketmq.store.disk import sync_path
from mocketmq_compat.delay.directories.delay_directory import system_sync
from mocketmq_compat.delay.known_parts import KNOWN, Stamp, stamp_of
from mocketmq_compat.delay.quarantine import QUARANTINE, note_reason
from mocketmq_compat.delay.wheel.record import SPAN_S, Content

FOLDER: Final = "wheel"
SUFFIX: Final = ".log"


class WheelFolder:
    """Files below ``root``, which is created if it is missing. Every method blocks, and may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(root, os.O_RDONLY)
        self._reading: tuple[int, int] | None = None  # the last file read, and its descriptor
        self._reads = threading.Lock()

    def close(self) -> None:
        """Close the directory. May be called twice."""
        with self._reads:
            self._end_reading()
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def stamps(self) -> tuple[Mapping[int, Stamp], list[str]]:
        """Return the stamp of each file, and the names of unknown files."""
        found: dict[int, Stamp] = {}
        others = []
        with os.scandir(self.root) as files:
            for file in files:
                start = parse_start(file.name)
                if start is not None and file.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        found[start] = stamp_of(file.stat(follow_symlinks=False))
                elif file.name != QUARANTINE and not file.name.startswith(KNOWN):
                    others.append(file.name)
        return found, others

    def write(self, start: int, offset: int, data: bytes) -> None:
        """Append to a file, creating it if it is missing.

        If writing fails, truncates the file to ``offset``, so that no partial data remains.
        """
        fd = os.open(self._path(start), os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            written = 0
            try:
                while written < len(data):
                    written += os.pwrite(fd, memoryview(data)[written:], offset + written)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(fd, offset)
                raise
        finally:
            os.close(fd)

    def cut(self, start: int, size: int) -> None:
        os.truncate(self._path(start), size)

    def read(self, start: int, offset: int, size: int) -> bytes:
        with self._reads:
            if self._reading is None or self._reading[0] != start:
                self._end_reading()
                self._reading = start, os.open(self._path(start), os.O_RDONLY)
            return os.pread(self._reading[1], size, offset)

    def _end_reading(self) -> None:
        if self._reading is not None:
            os.close(self._reading[1])
            self._reading = None

    @contextmanager
    def open(self, start: int, size: int | None = None) -> Iterator[Content]:
        """Map the file into memory, or only its first ``size`` bytes."""
        fd = os.open(self._path(start), os.O_RDONLY)
        try:
            there = os.fstat(fd).st_size
            size = there if size is None else min(size, there)
            if not size:
                yield b""
                return
            with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as mapped:
                yield mapped
        finally:
            os.close(fd)

    def remove_file(self, start: int) -> None:
        """Remove a file, if it is there."""
        with self._reads:
            if self._reading is not None and self._reading[0] == start:
                self._end_reading()  # because a new file may get the same name
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(start))  # noqa: PTH108 - faster than a Path

    def sync(self, starts: Iterable[int]) -> None:
        """Sync these files, all with a single ``syncfs`` call where the system has it."""
        sync_all = system_sync()
        if sync_all is not None:
            if code := sync_all(self._fd):
                raise OSError(code, os.strerror(code), str(self.root))
            return
        for start in starts:
            with contextlib.suppress(FileNotFoundError):  # delivered, and removed in the meantime
                sync_path(self._path(start))
        os.fsync(self._fd)

    def put_aside(self, name: str, data: bytes, reason: str) -> bool:
        """Write damaged bytes and the reason to ``.bad``. Returns False if the name exists already."""
        path = self.root / QUARANTINE / name
        if path.exists():
            return False
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        note_reason(path, reason)
        return True

    def _path(self, start: int) -> str:
        return f"{self.root}/{start}{SUFFIX}"


def parse_start(name: str) -> int | None:
    """Parse the epoch second in a file's name; None for any other name."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or str(int(digits)) != digits:
        return None
    start = int(digits)
    return start if start % SPAN_S == 0 else None
