"""Advisory locks on open files. The kernel releases them when the file is closed, or its process dies."""

import os
import sys

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


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
