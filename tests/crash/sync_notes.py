"""Runs inside a broker's process: notes how far SQLite's log was committed when each sync of it began.

Written down once the sync has ended, and before anybody is told of it.
"""

import mmap
import os
from pathlib import Path

from mocketmq.store import checkpoints, database
from tests.crash.power import INDEX_BYTES, NOTE, LogIndex

ROWS = 200
"""Between two copies of the log, so that a short load has several."""
PAGES = 300
"""Of a log that is written from its start again."""


def note_syncs(file: str) -> None:
    """Note all syncs of this process from now on, and let it copy its log often."""
    checkpoints.ROWS, checkpoints.LONG = ROWS, PAGES
    sync = database._sync
    notes = os.open(file, os.O_WRONLY | os.O_CREAT, 0o644)
    index: mmap.mmap | None = None

    def noted(log: int) -> None:
        nonlocal index
        if index is None:
            name = Path(f"/proc/self/fd/{log}").readlink().name.replace("-wal", "-shm")
            path = Path(f"/proc/self/fd/{log}").readlink().with_name(name)
            # Never closed: that would end SQLite's locks on it.
            index = mmap.mmap(os.open(path, os.O_RDONLY), INDEX_BYTES, prot=mmap.PROT_READ)
        committed = LogIndex.read(lambda: index[:INDEX_BYTES] if index else b"")
        sync(log)
        os.pwrite(notes, NOTE.pack(*committed.salts, committed.frames), 0)

    setattr(database, "_sync", noted)  # noqa: B010 - it is final to all others
