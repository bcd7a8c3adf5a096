"""Copies SQLite's write-ahead log back into the database, beside the writer.

SQLite by itself does this inside a commit, which then takes a tenth of a second. Here another connection
copies most of it while the writer goes on; what is left for a commit to copy is little. It has to be left
something: only the writer can begin the log anew, when all of it has been copied.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

log = logging.getLogger(__name__)

ROWS = 4_000
"""Rows written between two copies, about 5 MB of log."""


class Checkpoints:
    """Owns the task that copies, and its connection, which is opened when it is first needed."""

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._connect = connect
        self._rows = 0
        self._closing = False
        self._enough = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def wrote(self, rows: int) -> None:
        """So many rows were committed."""
        self._rows += rows
        if self._rows >= ROWS:
            self._rows = 0
            self._enough.set()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="checkpoints")

    async def close(self) -> None:
        """Stop after the copy that is under way. May be called twice."""
        self._closing = True
        self._enough.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        connection = await self._connect()
        while not self._closing:
            self._enough.clear()
            await self._copy(connection)
            await self._enough.wait()
        await connection.close()

    async def _copy(self, connection: AsyncConnection) -> None:
        try:
            await connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")
        except DBAPIError as error:
            log.warning("the write-ahead log could not be copied back: %s", error.orig)
