"""Copy SQLite's write-ahead log back into the database while the writer goes on.

SQLite itself does this inside a commit, which then takes a tenth of a second. Here another connection copies,
and no commit ever does.

The next commit writes the log from its start again if all of it is copied by then. So once the log is long, a
last copy is made while no commit runs. It finds only what was committed during the one before, but it syncs
two files, and the next commit syncs the log's new header. So it is put off while the disk is slow, until the
log is too long.

A copy that fails is tried again with the next one. Until then the log grows, and nothing is lost. Only a copy
that could not sync the log is the last one. While another program reads the store in one long transaction,
SQLite cannot write the log from its start; afterwards it is cut to its usual size.
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
"""Rows written between two copies, about 5 MB of log."""
ROW_BYTES = 1_250
"""So many bytes of bodies count as another row: a message may have 4 MB."""
LONG = 10_000
"""Pages, 40 MB, in a log that should be written from its start again."""
TOO_LONG = 4
"""So many times as long, it is written from its start however slow the disk is."""
QUICK_US = 20_000
"""What a copy takes at most after which commits may wait for another one."""


class Copied(NamedTuple):
    """The log after a copy, in pages: what was in it, and how much of that is in the database now."""

    pages: int
    done: int


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
                await self._copy_all(connection)
            await self._enough.wait()
        if connection is not None:
            with _failures_logged("the connection that copies the write-ahead log could not be closed"):
                await connection.close()

    async def _copy_all(self, connection: aiosqlite.Connection) -> None:
        """Copy, and have the next commit begin the log anew if it is long."""
        if (await self._copy(connection)).pages < LONG:
            return
        began_us = steady_us()
        log = await self._copy(connection)  # has about as little to do as the one that stops commits
        is_quick = steady_us() - began_us <= QUICK_US
        if (is_quick and log.done == log.pages) or log.pages >= TOO_LONG * LONG:
            await self._copy_alone(connection)

    async def _copy_alone(self, connection: aiosqlite.Connection) -> None:
        """Copy the rest while no commit runs."""
        async with self._writing:
            await self._copy(connection)

    async def _copy(self, connection: aiosqlite.Connection) -> Copied:
        """Copy what is in the log now."""
        try:
            [(_, pages, done)] = await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error as error:
            if is_failed_sync(error):
                self.failed_sync = str(error)
            raise
        return Copied(pages, done)


def is_failed_sync(error: Exception) -> bool:
    """Whether SQLite could not sync a file."""
    code = getattr(error, "sqlite_errorcode", None)  # errors of the module itself have none
    return code in (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


@contextmanager
def _failures_logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no failure here may end the task, or keep the broker from stopping
        log.warning("%s: %s", what, error)
