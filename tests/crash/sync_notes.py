"""Runs in a broker's process, and records how far SQLite's log was committed when each sync began.

It also keeps copies of the delay schemes' files at that moment. Both are saved once the sync has ended, and
before any caller learns of it.
"""

import mmap
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from mocketmq.store import checkpoints, database
from mocketmq_compat.delay.slots import open_files, slot_store
from mocketmq_compat.delay.sorted.rocks import Rocks
from mocketmq_compat.delay.wheel.wheel_folder import WheelFolder
from tests.crash.power import INDEX_BYTES, NOTE, LogIndex, synced_files

ROWS = 200
"""Interval between copies of the log, short enough that a brief load has several."""
PAGES = 300
"""Of a log that is written from its start again."""


def note_syncs(file: str) -> None:
    """Record all syncs of this process from now on, and checkpoint its log often even on a slow disk."""
    checkpoints.ROWS, checkpoints.LONG, checkpoints.TOO_LONG = ROWS, PAGES, 1
    sync = database._sync
    notes = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    index: mmap.mmap | None = None

    def noted(log: int) -> None:
        nonlocal index
        if index is None:
            name = Path(f"/proc/self/fd/{log}").readlink().name.replace("-wal", "-shm")
            path = Path(f"/proc/self/fd/{log}").readlink().with_name(name)
            # Never closed, because closing it would release SQLite's locks.
            index = mmap.mmap(os.open(path, os.O_RDONLY), INDEX_BYTES, prot=mmap.PROT_READ)
        committed = LogIndex.read(lambda: index[:INDEX_BYTES] if index else b"")
        sync(log)
        os.pwrite(notes, NOTE.pack(*committed.salts, committed.frames), 0)

    setattr(database, "_sync", noted)  # noqa: B010 - it is final to all others
    _keep_synced_files(synced_files(Path(file)))


def _keep_synced_files(copies: Path) -> None:
    def kept(root: Path, names: Iterable[str], sync: Callable[[], None]) -> None:
        contents = {name: _content(root / name) for name in names}
        sync()
        for name, content in contents.items():
            if content is not None:
                copy = copies / root.name / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                new = copies / f"new-{threading.get_ident()}"
                new.write_bytes(content)
                new.rename(copy)

    wheel, slots, rocks = WheelFolder.sync, open_files.sync, Rocks.sync

    def sync_wheel(folder: WheelFolder, starts: Iterable[int]) -> None:
        some = [*starts]
        kept(folder.root, [f"{start}.log" for start in some], lambda: wheel(folder, some))

    def sync_slots(root: Path, names: set[str]) -> None:
        kept(root, names, lambda: slots(root, names))

    def sync_rocks(database: Rocks) -> None:
        root = database._path.parent
        names = [str(path.relative_to(root)) for path in database._path.glob("*.log")]
        kept(root, names, lambda: rocks(database))

    setattr(WheelFolder, "sync", sync_wheel)  # noqa: B010 - as above
    setattr(slot_store, "sync", sync_slots)  # noqa: B010 - as above
    setattr(Rocks, "sync", sync_rocks)  # noqa: B010 - as above


def _content(path: Path) -> bytes | None:
    """Return a file's content, or None for directories and removed files."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, IsADirectoryError):
        return None
