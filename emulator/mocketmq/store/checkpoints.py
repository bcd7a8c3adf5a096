"""Checkpoints SQLite's write-ahead log in the background.

SQLite would otherwise checkpoint inside a commit, which would then take a tenth of a second. Here a second
connection checkpoints, so commits do not wait.

SQLite restarts the log only at a commit that finds the whole log checkpointed. Once the log is long, a final
checkpoint therefore runs while commits wait. The final checkpoint copies only the pages committed during the
previous checkpoint, but it syncs two files, and the next commit syncs the new log header. On a slow disk the
final checkpoint is postponed until the log is too long.

A failed checkpoint is retried with the next one; the log grows meanwhile and nothing is lost. After a failed
sync there is no retry. A long read transaction of another program also keeps SQLite from restarting the log.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import aiosqlite

from mocketmq.clock import steady_us

log = logging.getLogger(__name__)

ROWS = 4_000
"""Number of rows written between two checkpoints, about 5 MB of log."""
ROW_BYTES = 1_250
"""Number of body bytes that count as one more row, because one message may have 4 MB."""
LONG = 10_000
"""Length of the log, in pages, from which it should be restarted (40 MB)."""
TOO_LONG = 4
"""Multiple of ``LONG`` from which the log is restarted even on a slow disk."""
QUICK_US = 20_000
"""Maximum duration of a checkpoint on a fast disk, on which commits may wait for the final checkpoint."""


class Copied(NamedTuple):
    """Number of pages in the log, and how many of them are checkpointed (``done``)."""

    pages: int
    done: int


class Checkpoints:
    """Owns the checkpointing task and its connection, which is opened on first use."""

    def __init__(self, connect: Callable[[], Awaitable[aiosqlite.Connection]], writing: asyncio.Lock) -> None:
        """The writer holds ``writing`` during a commit."""
        self.failed_sync: str | None = None  # the reason, once a sync of the log or the database failed
        self._connect = connect
        self._writing = writing
        self._rows = 0
        self._closing = False
        self._enough = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wrote(self, rows: int) -> None:
        """Count rows that were committed."""
        self._rows += rows
        if self._rows >= ROWS:
            self._rows = 0
            self._enough.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="checkpoints")

    async def close(self) -> None:
        """Stop after the running checkpoint. May be called twice; never fails."""
        self._closing = True
        self._enough.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        connection: aiosqlite.Connection | None = None
        while not (self._closing or self.failed_sync):
            self._enough.clear()
            with _failures_logged("the write-ahead log could not be copied back"):
                connection = connection or await self._connect()
                await self._copy_all(connection)
            await self._enough.wait()
        if connection is not None:
            with _failures_logged("the connection that copies the write-ahead log could not be closed"):
                await connection.close()

    async def _copy_all(self, connection: aiosqlite.Connection) -> None:
        """Checkpoint, and let the next commit restart the log if it is long."""
        if (await self._copy(connection)).pages < LONG:
            return
        began_us = steady_us()
        log = await self._copy(connection)  # the final checkpoint will take about as long
        is_quick = steady_us() - began_us <= QUICK_US
        if (is_quick and log.done == log.pages) or log.pages >= TOO_LONG * LONG:
            await self._copy_alone(connection)

    async def _copy_alone(self, connection: aiosqlite.Connection) -> None:
        """Run the final checkpoint while no commit runs."""
        async with self._writing:
            await self._copy(connection)

    async def _copy(self, connection: aiosqlite.Connection) -> Copied:
        """Checkpoint the current log."""
        try:
            [(_, pages, done)] = await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            if is_failed_sync(error):
                self.failed_sync = str(error)
            raise
        return Copied(pages, done)


def is_failed_sync(error: Exception) -> bool:
    """Whether SQLite could not sync a file."""
    code = getattr(error, "sqlite_errorcode", None)  # errors of the sqlite3 module itself have no code
    return code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


@contextmanager
def _failures_logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no failure here may end the task, or keep the broker from stopping
        log.warning("%s: %s", what, error)
