"""Copy SQLite's write-ahead log back into the database while the writer goes on.

SQLite itself does this inside a commit, which then takes a tenth of a second. Here another connection copies
most of it, and little is left for a commit. Something must be left: only the writer can restart the log, once
all of it is copied.

A copy that fails is tried again with the next one. Until then commits copy by themselves as far as they can,
and nothing is lost.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import aiosqlite

log = logging.getLogger(__name__)

ROWS = 4_000
"""Rows written between two copies, about 5 MB of log."""


class Checkpoints:
    """Owns the task that copies, and its connection, which is opened when it is first needed."""

    def __init__(self, connect: Callable[[], Awaitable[aiosqlite.Connection]]) -> None:
        self._connect = connect
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
        while not self._closing:
            self._enough.clear()
            with _failures_logged("the write-ahead log could not be copied back"):
                connection = connection or await self._connect()
                await connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
            await self._enough.wait()
        if connection is not None:
            with _failures_logged("the connection that copies the write-ahead log could not be closed"):
                await connection.close()


@contextmanager
def _failures_logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - no failure here may end the task, or keep the broker from stopping
        log.warning("%s: %s", what, error)
