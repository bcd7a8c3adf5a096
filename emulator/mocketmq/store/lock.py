"""Lock a data directory for one broker: an advisory lock on a file with the owner's pid.

A clean stop empties the file. A leftover pid means that the owner was killed, so the store needs a check.
"""

import fcntl
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq.errors import StoreLockedError, StoreUnavailableError

LOCK_FILE = "mocketmq.pid"

_FLOCK: Final = struct.Struct("hhqqi0q")
"""Linux's ``struct flock``: kind, whence, start, length, pid."""
_WHOLE_FILE: Final = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


class DirectoryLock:
    """Holds ``directory`` for this process until closed. The kernel releases it when the process dies.

    Where the system has locks that can be queried, the file has a second one, for :func:`is_held`.
    ``is_settled`` says whether the last owner ended in order, and :meth:`close` tells it to the next one. An
    owner that uses the store sets it.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StoreLockedError when another process holds it, StoreUnavailableError if unwritable."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds what messages say
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot write to the data directory {directory}: {error.strerror};"
                " make it writable, or give another one with --data"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._fd, 32).strip()
            os.close(self._fd)
            raise StoreLockedError(str(directory), int(owner) if owner.isdigit() else None) from None
        if hasattr(fcntl, "F_OFD_SETLK"):
            with suppress(OSError):  # some file systems know only the other kind
                fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
        try:
            self.is_settled = os.fstat(self._fd).st_size == 0
            # Over the pid of an owner that was killed: an empty file would say that it ended in order.
            os.ftruncate(self._fd, os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0))
        except OSError as error:
            self.close()
            raise StoreUnavailableError(
                f"cannot write to {directory / LOCK_FILE}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Release the lock. The file stays: otherwise two later owners could lock two different files."""
        if self._fd >= 0:
            if self.is_settled:
                with suppress(OSError):  # on a full disk: then the next start checks the store
                    os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def is_held(directory: Path) -> bool:
    """Whether a process holds ``directory``, in any container; True where the system does not say.

    Takes no lock, since an owner might be starting now. /proc/locks does not show those of other containers.
    """
    if not hasattr(fcntl, "F_OFD_GETLK"):
        return True
    try:
        with (directory / LOCK_FILE).open("rb") as file:
            kind: int = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, _WHOLE_FILE))[0]
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return kind != fcntl.F_UNLCK
