"""Whether a directory is in memory, where a sync protects nothing: a power cut erases all of it."""

import os
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
"""Linux's list of mounts, proc_pid_mountinfo(5). Field 3 is the device; the type follows the dash."""
_IN_MEMORY: Final = {"tmpfs", "ramfs"}


def is_volatile(directory: Path) -> bool:
    """Whether the directory is on a file system in memory. False where the system does not tell."""
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
