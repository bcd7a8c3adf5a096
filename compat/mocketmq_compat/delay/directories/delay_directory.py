"""The delay directory on disk: ``<root>/<epoch second>/<one file per message>``.

All methods block and run in threads. A file gets its name only when it is complete: it is written under a
temporary name in the same directory and renamed. A save creates its directory again if another thread has
removed it meanwhile, so removal never races with a save.
"""

import contextlib
import errno
import io
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.failpoint import pass_point
from mocketmq.store.disk import sync_path
from mocketmq_compat.delay.delayed_file import Entry, parse_name, parse_second
from mocketmq_compat.delay.known_parts import KNOWN, Stamp, stamp_of
from mocketmq_compat.delay.quarantine import QUARANTINE, note_reason

FOLDER: Final = "delay"
"""Name of the delay directory in a data directory."""
TEMPORARY: Final = ".tmp"
BLOCK_BYTES: Final = 4_096
_TRIES: Final = 100
_LONGEST_NAME: Final = 200
_BINARY: Final[int] = getattr(os, "O_BINARY", 0)  # without this flag, Windows changes line ends
_READ_FILES: Final[int] = os.O_RDONLY | _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that refuse links, and do not block on a pipe without a writer, where the system has such flags."""


class FoundDirectory(NamedTuple):
    """The result of scanning one second's directory."""

    second: int
    entries: list[Entry]  # files with valid names
    strays: list[str]  # names of all other files
    temporary: int  # number of files with temporary names, removed or not
    disk_bytes: int  # disk space of the entries
    changed_ns: int  # when the directory last changed before it was read, by the system's clock


def disk_bytes(size: int) -> int:
    """Return the disk space of a file of this size, in bytes."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class DelayDirectory:
    """The files below ``root``, which is created if it is missing. Every method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = f"{root}/"
        self._removing = threading.Lock()  # held while a second's directory is removed, or created and filled
        root.mkdir(parents=True, exist_ok=True)
        self._fd = None if sys.platform == "win32" else os.open(root, os.O_RDONLY)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def write(self, entry: Entry, content: bytes) -> None:
        """Write the entry's file; it is durable after :meth:`sync`."""
        path = f"{self._prefix}{entry.second}/{entry.name}"
        temporary = path + TEMPORARY

        def appear() -> None:
            try:
                _write_whole(temporary, content)
                pass_point("files.writing")
                os.replace(temporary, path)  # noqa: PTH105 - twice as fast as a Path
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)  # noqa: PTH108
                raise

        self._in_second(entry.second, appear)

    def sync(self, entries: Iterable[Entry]) -> None:
        """Make everything written so far durable, including these entries.

        Calls ``syncfs`` once where the system has it; otherwise syncs each file and directory.
        """
        sync_all = system_sync()
        if sync_all is not None and self._fd is not None:
            if code := sync_all(self._fd):
                raise OSError(code, os.strerror(code), str(self.root))
            return
        directories = set()
        for entry in entries:
            directory = f"{self._prefix}{entry.second}"
            directories.add(directory)
            with contextlib.suppress(FileNotFoundError):  # delivered in the meantime
                sync_path(f"{directory}/{entry.name}")
        for directory in (*directories, str(self.root), str(self.root.parent)):
            with contextlib.suppress(FileNotFoundError):
                sync_path(directory)

    def read(self, entry: Entry) -> bytes:
        return self.read_stray(entry.second, entry.name)

    def read_stray(self, second: int, name: str) -> bytes:
        """Read any file in a second's directory."""
        fd = os.open(f"{self._prefix}{second}/{name}", _READ_FILES)
        try:
            with io.FileIO(fd, closefd=False) as file:
                return file.readall()
        finally:
            os.close(fd)

    def written_ns(self, second: int, name: str) -> int:
        """Return when any file in a second's directory was last written, by the system's clock."""
        path = f"{self._prefix}{second}/{name}"
        return os.stat(path, follow_symlinks=False).st_mtime_ns  # noqa: PTH116 - see write

    def remove_file(self, entry: Entry) -> int:
        """Remove the entry's file. Returns the bytes of disk space freed, 0 if it was gone."""
        return self.remove_stray(entry.second, entry.name)

    def remove_stray(self, second: int, name: str) -> int:
        """Like ``remove_file``, for any file in a second's directory."""
        path = f"{self._prefix}{second}/{name}"
        try:
            size = os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116 - see write
            os.unlink(path)  # noqa: PTH108
        except FileNotFoundError:
            return 0
        return disk_bytes(size)

    def remove_second(self, second: int) -> None:
        """Remove the second's directory if it is empty."""
        try:
            with self._removing:
                os.rmdir(f"{self._prefix}{second}")  # noqa: PTH106
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                raise

    def move(self, second: int, name: str, entry: Entry) -> None:
        """Move a file into the entry's directory, under the entry's name."""
        target = f"{self._prefix}{entry.second}/{entry.name}"
        self._in_second(entry.second, partial(os.replace, f"{self._prefix}{second}/{name}", target))

    def _in_second(self, second: int, act: Callable[[], None]) -> None:
        """Call ``act`` while the second's directory exists, creating it again if it was removed."""
        try:
            with contextlib.suppress(FileNotFoundError):
                return act()
            with self._removing:
                for _ in range(_TRIES):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(f"{self._prefix}{second}")  # noqa: PTH102
                    with contextlib.suppress(FileNotFoundError):  # removed by another thread
                        return act()
                act()
        except OSError:
            with contextlib.suppress(OSError):
                self.remove_second(second)
            raise

    def quarantine(self, second: int, name: str, reason: str) -> int:
        """Move a file to ``.bad``, next to a text file with the reason. Returns the file's disk space."""
        bad = self.root / QUARANTINE
        bad.mkdir(exist_ok=True)
        cut = os.fsdecode(os.fsencode(f"{second}-{name}")[:_LONGEST_NAME])
        names = (cut if number == 1 else f"{cut}.{number}" for number in itertools.count(1))
        target = next(path for path in map(bad.joinpath, names) if not os.path.lexists(path))
        (self.root / str(second) / name).rename(target)
        with contextlib.suppress(OSError):  # the log also has the reason
            note_reason(target, reason)
        return disk_bytes(target.lstat().st_size)

    def now_ns(self) -> int:
        """Return the time of the file system's clock, which gives changed files their ``st_ctime``."""
        found = self.root.stat()
        os.utime(self.root, ns=(found.st_atime_ns, found.st_mtime_ns))  # sets st_ctime
        return self.root.stat().st_ctime_ns

    def scan(
        self, is_known: Callable[[int, Stamp], bool], *, is_starting: bool = False
    ) -> Iterator[FoundDirectory | int | str]:
        """Yield the names of all entries other than seconds' directories, then those directories in order.

        For a directory whose stamp ``is_known``, yields only the second. The scan of a start removes
        temporary files that a kill left, because their senders got no response.
        """
        seconds: set[int] = set()  # a directory may be listed twice if another program renames it
        with os.scandir(self.root) as root:
            for found in root:
                second = parse_second(found.name)
                if second is not None and found.is_dir(follow_symlinks=False):
                    seconds.add(second)
                elif found.name != QUARANTINE and not found.name.startswith(KNOWN):
                    yield found.name
        in_order = sorted(seconds)
        del seconds  # the set takes four times the memory of the list
        for second in in_order:
            with contextlib.suppress(FileNotFoundError):  # delivered in the meantime
                # Not st_mtime, because tools that copy a directory back preserve it.
                stamp = self.stamp(second)
                if is_known(second, stamp):
                    yield second
                else:
                    yield self.scan_second(second, stamp.changed_ns, is_starting=is_starting)

    def stamp(self, second: int) -> Stamp:
        return stamp_of(os.stat(f"{self._prefix}{second}", follow_symlinks=False))  # noqa: PTH116 - see write

    def scan_second(self, second: int, changed_ns: int, *, is_starting: bool) -> FoundDirectory:
        """Read the names in a second's directory, which last changed at ``changed_ns``."""
        entries: list[Entry] = []
        strays: list[str] = []
        temporary = size = 0
        with os.scandir(f"{self._prefix}{second}") as files:
            for file in files:
                name = file.name
                is_temporary = name.endswith(TEMPORARY)
                entry = parse_name(name.removesuffix(TEMPORARY) if is_temporary else name)
                if entry is None or entry.second != second or not file.is_file(follow_symlinks=False):
                    if is_starting or not is_temporary:  # a temporary file may be a copy in progress
                        strays.append(name)
                    else:
                        temporary += 1
                elif is_temporary:
                    temporary += 1
                    if is_starting:
                        with contextlib.suppress(OSError):  # a leftover is harmless
                            self.remove_stray(second, name)
                else:
                    entries.append(entry)
                    if is_starting:
                        size += disk_bytes(file.stat(follow_symlinks=False).st_size)
        return FoundDirectory(second, entries, strays, temporary, size, changed_ns)


def _write_whole(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o644)
    try:
        written = os.write(fd, content)
        while written < len(content):
            written += os.write(fd, memoryview(content)[written:])
    finally:
        os.close(fd)


@cache
def system_sync() -> Callable[[int], int] | None:
    """Return the system's ``syncfs``, which returns 0 or an errno; None where it does not exist."""
    if sys.platform == "win32":
        return None
    import ctypes  # noqa: PLC0415 - slow to import, and many brokers never keep a file

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    return None if syncfs is None else lambda fd: ctypes.get_errno() if syncfs(fd) else 0
