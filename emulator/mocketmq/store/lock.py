"""Locks a data directory for one broker: an advisory lock on a file with the owner's pid.

A clean stop empties the file. A leftover pid means that the owner was killed, so the store must be checked.
Other files that only one process may write are locked by the same advisory locks.
"""

import os
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq.errors import StoreLockedError, StoreUnavailableError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = "mocketmq.pid"

_FLOCK: Final = struct.Struct("hhqqi0q")
"""Linux's ``struct flock``: kind, whence, start, length, pid."""
_LOCKED_BYTE: Final = 1 << 20
"""Offset of the byte locked on Windows, past the pid because no other process can read a locked byte."""


class DirectoryLock:
    """Holds ``directory`` for this process until closed. The kernel releases it when the process dies.

    On Linux, where locks can be queried, the file has a second lock, for :func:`is_held`.
    ``is_settled`` says whether the last owner stopped cleanly. An owner that uses the store must set it anew,
    because :meth:`close` records it for the next owner.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StoreLockedError if another process holds it, StoreUnavailableError if it is unwritable."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # private, as it holds messages
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot write to the data directory {directory}: {error.strerror};"
                " make it writable, or give another one with --data"
            ) from error
        try:
            _lock(self._fd)
        except OSError:
            owner = os.read(self._fd, 32).strip()
            os.close(self._fd)
            raise StoreLockedError(str(directory), int(owner) if owner.isdigit() else None) from None
        try:
            self.is_settled = os.fstat(self._fd).st_size == 0
            # Overwrite the old pid before truncating. A file empty in between would look like a clean stop.
            os.ftruncate(self._fd, os.write(self._fd, f"{os.getpid()}\n".encode()))
        except OSError as error:
            self.close()
            raise StoreUnavailableError(
                f"cannot write to {directory / LOCK_FILE}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Release the lock. The file stays, because later owners could otherwise lock different files."""
        if self._fd >= 0:
            if self.is_settled:
                with suppress(OSError):  # a full disk, for example; the next start then checks the store
                    os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def _lock(fd: int) -> None:
    """Lock the file and leave its position at the start. Raises OSError if another process holds the lock."""
    lock_file(fd, _LOCKED_BYTE)
    if sys.platform == "linux":
        with suppress(OSError):  # some file systems support only the other kind of lock
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _whole_file())


def _whole_file() -> bytes:
    return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def is_held(directory: Path) -> bool:
    """Whether a process in any container holds ``directory``. Returns True where the system cannot tell.

    Takes no lock, because an owner might be starting now. /proc/locks omits the locks of other containers.
    """
    if sys.platform != "linux":
        return True
    try:
        with (directory / LOCK_FILE).open("rb") as file:
            kind: int = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file()))[0]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return kind != fcntl.F_UNLCK


def lock_file(fd: int, byte: int) -> None:
    """Lock the file, and leave its position at the start. Raises OSError if another process holds the lock.

    On Windows, only the byte at offset ``byte`` is locked, below 2 GiB: no other process can read it.
    """
    if sys.platform == "win32":
        os.lseek(fd, byte, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(fd, 0, os.SEEK_SET)
        return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
