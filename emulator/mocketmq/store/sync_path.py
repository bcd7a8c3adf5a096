"""Make a file or a directory durable, on any operating system."""

import os
import sys
from pathlib import Path


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
