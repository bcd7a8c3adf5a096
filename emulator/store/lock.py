"""One broker per data directory: an advisory lock on a file that holds the owner's pid."""

import fcntl
import os
from pathlib import Path

from emulator.errors import StoreLockedError, StoreUnavailableError

LOCK_FILE = "mocketmq.pid"


class DirectoryLock:
    """Holds ``directory`` for this process until closed. The kernel lets go of it when the process dies."""

    def __init__(self, directory: Path) -> None:
        """Raises StoreLockedError when another process holds it, StoreUnavailableError if unwritable."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
        try:
            os.ftruncate(self._fd, 0)
            os.write(self._fd, f"{os.getpid()}\n".encode())
        except OSError as error:
            self.close()
            raise StoreUnavailableError(
                f"cannot write to {directory / LOCK_FILE}: {error.strerror}"
            ) from error

    def close(self) -> None:
        """Let go. The file stays: removing it would let two later owners lock two different files."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
