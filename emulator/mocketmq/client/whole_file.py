"""Writes a file that is there as a whole or not at all, also after a kill."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole_file(path: str | os.PathLike[str], content: bytes) -> None:
    """Write the content under a temporary name, sync it and rename it. Raises OSError."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
