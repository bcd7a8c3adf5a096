"""Where the wheel's files are: on a disk below a root, or in memory. All methods block."""

import contextlib
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from mocketmq_compat.delay.directories.delay_directory import QUARANTINE, REASON, system_sync
from mocketmq_compat.delay.wheel.record import SPAN_S, Content

SUFFIX: Final = ".log"


class WheelStorage(Protocol):
    """Files by the epoch second that they begin at. Every method may raise OSError."""

    def sizes(self) -> tuple[Mapping[int, int], list[str]]:
        """The size in bytes of each file; the names of what is not ours."""

    def write(self, start: int, offset: int, data: bytes) -> None:
        """Write at the end of a file, ``offset``, and make the file if it is missing."""

    def cut(self, start: int, size: int) -> None:
        """Cut a file to this size."""

    def read(self, start: int, offset: int, size: int) -> bytes:
        """These bytes of a file, or as many as there are. In the thread that removes files."""

    def open(self, start: int) -> contextlib.AbstractContextManager[Content]:
        """All of a file."""

    def remove(self, start: int) -> None:
        """Remove a file."""

    def sync(self, starts: Iterable[int]) -> None:
        """Make these files durable."""

    def put_aside(self, name: str, data: bytes, reason: str) -> bool:
        """Keep damaged bytes under this name, with the reason; False if they are there already."""

    def put_aside_before(self) -> int:
        """How many files of damaged bytes there are."""

    def close(self) -> None:
        """Close what is open."""


class DiskStorage:
    """Files below ``root``, which is created if it is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        self._reading: tuple[int, int] | None = None  # the file that was read last, and its descriptor

    def close(self) -> None:
        """Close the directory."""
        self._end_reading()
        os.close(self._fd)

    def sizes(self) -> tuple[Mapping[int, int], list[str]]:
        """As :class:`WheelStorage`."""
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
        """As :class:`WheelStorage`; what a full disk took of the data is cut off."""
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
        """As :class:`WheelStorage`."""
        os.truncate(self._path(start), size)

    def read(self, start: int, offset: int, size: int) -> bytes:
        """As :class:`WheelStorage`."""
        if self._reading is None or self._reading[0] != start:
            self._end_reading()
            self._reading = start, os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._reading[1], size, offset)

    def _end_reading(self) -> None:
        if self._reading is not None:
            os.close(self._reading[1])
            self._reading = None

    @contextmanager
    def open(self, start: int) -> Iterator[Content]:
        """The file, mapped."""
        fd = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not os.fstat(fd).st_size:
                yield b""
                return
            with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped:
                yield mapped
        finally:
            os.close(fd)

    def remove(self, start: int) -> None:
        """As :class:`WheelStorage`."""
        self._end_reading()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(start))  # noqa: PTH108 - as the others

    def sync(self, starts: Iterable[int]) -> None:
        """One call for the file system where the system has it; otherwise a sync of each file."""
        sync_all = system_sync()
        if sync_all is not None:
            if code := sync_all(self._fd):
                raise OSError(code, os.strerror(code), str(self.root))
            return
        for start in starts:
            fd = os.open(self._path(start), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        os.fsync(self._fd)

    def put_aside(self, name: str, data: bytes, reason: str) -> bool:
        """As :class:`WheelStorage`, in ``.bad``."""
        path = self.root / QUARANTINE / name
        if path.exists():
            return False
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.with_name(f"{name}{REASON}").write_text(f"{reason}\n", "utf-8")
        return True

    def put_aside_before(self) -> int:
        """As :class:`WheelStorage`."""
        bad = self.root / QUARANTINE
        return sum(path.suffix != REASON for path in bad.iterdir()) if bad.is_dir() else 0

    def _path(self, start: int) -> str:
        return f"{self.root}/{start}{SUFFIX}"


class MemoryStorage:
    """Files in memory, for brokers without a data directory."""

    def __init__(self) -> None:
        self._files: dict[int, bytearray] = {}

    def close(self) -> None:
        """Nothing to close."""

    def sizes(self) -> tuple[Mapping[int, int], list[str]]:
        """As :class:`WheelStorage`."""
        return {start: len(data) for start, data in self._files.items()}, []

    def write(self, start: int, offset: int, data: bytes) -> None:
        """As :class:`WheelStorage`."""
        self._files.setdefault(start, bytearray())[offset:] = data

    def cut(self, start: int, size: int) -> None:
        """As :class:`WheelStorage`."""
        del self._files[start][size:]

    def read(self, start: int, offset: int, size: int) -> bytes:
        """As :class:`WheelStorage`."""
        try:
            return bytes(self._files[start][offset : offset + size])
        except KeyError:
            raise FileNotFoundError(2, "No such file", str(start)) from None

    @contextmanager
    def open(self, start: int) -> Iterator[Content]:
        """A copy of the file."""
        yield bytes(self._files.get(start, b""))

    def remove(self, start: int) -> None:
        """As :class:`WheelStorage`."""
        self._files.pop(start, None)

    def sync(self, starts: Iterable[int]) -> None:
        """Nothing to sync."""

    def put_aside(self, name: str, data: bytes, reason: str) -> bool:  # noqa: ARG002 - as on a disk
        """Nothing is kept."""
        return False

    def put_aside_before(self) -> int:
        """None."""
        return 0


def parse_start(name: str) -> int | None:
    """The epoch second in a file's name; None for any other name."""
    digits = name.removesuffix(SUFFIX)
    if digits == name or not (digits.isascii() and digits.isdigit()) or str(int(digits)) != digits:
        return None
    start = int(digits)
    return start if start % SPAN_S == 0 else None
