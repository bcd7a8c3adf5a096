"""A cache of file descriptors: a folder's most recently used files stay open."""

import os
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final

from mocketmq.store.disk import sync_path

MOST: Final = 64


class OpenFiles:
    """File descriptors by name, for one thread at a time. Every method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._fds: OrderedDict[str, int] = OrderedDict()
        self.unsynced: set[str] = set()  # files and folders that have changed since their last sync

    def read(self, name: str) -> int:
        """Return the descriptor of an existing file."""
        fd = self._fds.get(name)
        if fd is None:
            fd = self._fds[name] = os.open(self.root / name, os.O_RDWR | os.O_NOFOLLOW)
            if len(self._fds) > MOST:
                os.close(self._fds.popitem(last=False)[1])
        else:
            self._fds.move_to_end(name)
        return fd

    def write(self, name: str) -> int:
        """Return the descriptor of an existing file that is about to change."""
        fd = self.read(name)
        self.unsynced.add(name)
        return fd

    def create(self, name: str, content: bytes) -> int:
        """Create the file, or replace its contents, with this content."""
        self.close_file(name)
        path = self.root / name
        try:
            path.write_bytes(content)
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise
        self.unsynced.add(os.path.dirname(name))  # noqa: PTH120 - a folder here
        return self.write(name)

    def replace(self, name: str, temporary: Path) -> None:
        """Replace the file with a temporary file."""
        self.close_file(name)
        temporary.rename(self.root / name)
        self.unsynced |= {name, os.path.dirname(name)}  # noqa: PTH120 - a folder here

    def remove_file(self, name: str) -> None:
        """Close and remove the file, if it is there."""
        self.close_file(name)
        self.unsynced.discard(name)
        (self.root / name).unlink(missing_ok=True)

    def close_file(self, name: str) -> None:
        """Close the file, if it is open."""
        fd = self._fds.pop(name, None)
        if fd is not None:
            os.close(fd)

    def take_unsynced(self) -> set[str]:
        """Return ``unsynced``, and clear it."""
        names, self.unsynced = self.unsynced, set()
        return names

    def close(self) -> None:
        for name in [*self._fds]:
            self.close_file(name)


def sync(root: Path, names: set[str]) -> None:
    """Make these files and folders durable. Skips removed files."""
    for name in sorted(names):
        with suppress(FileNotFoundError):
            sync_path(root / name)
