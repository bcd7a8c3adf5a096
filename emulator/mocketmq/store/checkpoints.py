"""Copy SQLite's write-ahead log back into the database while the writer goes on.

SQLite itself does this inside a commit, which then takes a tenth of a second. Here another connection copies.
The next commit writes the log from its start again if all of it is copied by then. So once the log is long, a
second copy follows while no commit runs; it finds only what was committed during the first.

A copy that fails is tried again with the next one. Until then the log grows, up to a length at which commits
copy by themselves, and nothing is lost. Only a copy that could not sync the log is the last one.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiosqlite

log = logging.getLogger(__name__)

ROWS = 4_000
"""Rows written between two copies, about 5 MB of log."""
LONG = 10_000
"""Pages in a log that should be written from its start again."""


class Checkpoints:
    """Owns the task that copies, and its connection, which is opened when it is first needed."""

    def __init__(self, connect: Callable[[], Awaitable[aiosqlite.Connection]], writing: asyncio.Lock) -> None:
        """``writing`` is held by whoever commits."""
        self.failed_sync: str | None = None  # why, if one of the log or the database failed
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
        """Stop after the copy that is under way. May be called twice; never fails."""
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
                if await self._copy(connection) >= LONG:
                    async with self._writing:
                        await self._copy(connection)
            await self._enough.wait()
        if connection is not None:
            with _failures_logged("the connection that copies the write-ahead log could not be closed"):
                await connection.close()

    async def _copy(self, connection: aiosqlite.Connection) -> int:
        """Copy what is in the log now; how many pages that has."""
        try:
            [(_, pages, _)] = await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            if is_failed_sync(error):
                self.failed_sync = str(error)
            raise
        return int(pages)


def is_failed_sync(error: sqlite3.Error) -> bool:
    """Whether SQLite could not sync a file."""
    code = getattr(error, "sqlite_errorcode", None)  # errors of the module itself have none
    return code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


@contextmanager
def _failures_logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no failure here may end the task, or keep the broker from stopping
        log.warning("%s: %s", what, error)
