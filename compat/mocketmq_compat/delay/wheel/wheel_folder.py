"""The files in the folder ``wheel``, by the epoch second that each begins at."""

import contextlib
import mmap
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mocketmq_compat.delay.directories.delay_directory import QUARANTINE, REASON, system_sync
from mocketmq_compat.delay.wheel.record import SPAN_S, Content

FOLDER: Final = "wheel"
SUFFIX: Final = ".log"


class WheelFolder:
    """Files below ``root``, which is created if it is missing. Every method blocks, and may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        self._reading: tuple[int, int] | None = None  # the file that was read last, and its descriptor
        self._reads = threading.Lock()

    def close(self) -> None:
        """Close the directory. May be called twice."""
        with self._reads:
            self._end_reading()
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def sizes(self) -> tuple[Mapping[int, int], list[str]]:
        """The size in bytes of each file; the names of what is not ours."""
        found: dict[int, int] = {}
        others = []
        with os.scandir(self.root) as files:
            for file in files:
                start = parse_start(file.name)
                if start is not None and file.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                        found[start] = file.stat(follow_symlinks=False).st_size
                elif file.name != QUARANTINE:
                    others.append(file.name)
        return found, others

    def write(self, start: int, offset: int, data: bytes) -> None:
        """Write at the end of a file, and make the file if it is missing.

        What a full disk took of the data is cut off.
        """
        fd = os.open(self._path(start), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        """Cut a file to this size."""
        os.truncate(self._path(start), size)

    def read(self, start: int, offset: int, size: int) -> bytes:
        """These bytes of a file, or as many as there are."""
        with self._reads:
            if self._reading is None or self._reading[0] != start:
                self._end_reading()
                self._reading = start, os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._reading[1], size, offset)

    def _end_reading(self) -> None:
        if self._reading is not None:
            os.close(self._reading[1])
            self._reading = None

    @contextmanager
    def open(self, start: int, size: int | None = None) -> Iterator[Content]:
        """The file, mapped, or this much of it at the most."""
        fd = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
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

    def remove(self, start: int) -> None:
        """Remove a file, if it is there."""
        with self._reads:
            if self._reading is not None and self._reading[0] == start:
                self._end_reading()  # its name may come to be another file's
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(start))  # noqa: PTH108 - as the others

    def sync(self, starts: Iterable[int]) -> None:
        """Make these files durable, by one call for the file system where the system has it."""
        sync_all = system_sync()
        if sync_all is not None:
            if code := sync_all(self._fd):
                raise OSError(code, os.strerror(code), str(self.root))
            return
        for start in starts:
            with contextlib.suppress(FileNotFoundError):  # delivered, and removed meanwhile
                fd = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)
        os.fsync(self._fd)

    def put_aside(self, name: str, data: bytes, reason: str) -> bool:
        """Keep damaged bytes under this name in ``.bad``, with the reason; False if they are there."""
        path = self.root / QUARANTINE / name
        if path.exists():
            return False
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.with_name(f"{name}{REASON}").write_text(f"{reason}\n", "utf-8")
        return True

    def quarantined(self) -> int:
        """How many files of damaged bytes there are."""
        bad = self.root / QUARANTINE
        return sum(path.suffix != REASON for path in bad.iterdir()) if bad.is_dir() else 0

    def _path(self, start: int) -> str:
        return f"{self.root}/{start}{SUFFIX}"


def parse_start(name: str) -> int | None:
    """The epoch second in a file's name; None for any other name."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or str(int(digits)) != digits:
        return None
    start = int(digits)
    return start if start % SPAN_S == 0 else None
