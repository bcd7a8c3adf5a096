"""Makes files and directories durable on any operating system, and recognizes in-memory file systems."""

import os
import sys
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
"""Linux's list of mounts, proc_pid_mountinfo(5). Field 3 is the device; the type follows the dash."""
_IN_MEMORY: Final = {"tmpfs", "ramfs"}


def sync_path(path: Path | str) -> None:
    """Sync the file or directory, also if another process wrote it. Raises OSError.

    Windows syncs only files that are open for writing, and cannot sync directories. Its file system journals
    directory entries instead.
    """
    flags = os.O_RDONLY
    if sys.platform == "win32":
        if Path(path).is_dir():
            return
        flags = os.O_RDWR
    fd = os.open(path, flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def is_volatile(directory: Path) -> bool:
    """Whether the directory is in memory, where a sync protects nothing: a power cut erases all of it.

    Returns False if the system does not tell.
    """
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return False
    for fields in map(str.split, mounts):
        if fields[2] == wanted:
            return fields[fields.index("-") + 1] in _IN_MEMORY
    return False
