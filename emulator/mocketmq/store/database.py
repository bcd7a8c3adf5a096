"""Open the SQLite file, upgrade its schema, read from it, and write a transaction.

By SQLAlchemy's asyncio engine over aiosqlite. One connection writes; a few others read what is committed. A
transaction or a query is one call in its connection's thread. So an in-memory database, with one connection
for both, never shows what is not committed yet.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import aiosqlite
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from mocketmq.errors import StoreError, StoreUnavailableError, StoreUnreadableError
from mocketmq.failpoint import pass_point
from mocketmq.store.checkpoints import Checkpoints
from mocketmq.store.log_header import check_log
from mocketmq.store.tables import HEAD_REVISION, make_schema

FILE_NAME = "mocketmq.db"
MEMORY = ":memory:"
READERS = 2
TRANSACTION = "-- transaction"
WAL_PAGES = 10_000
"""Pages in the write-ahead log before a commit copies what :class:`Checkpoints` has left."""

_AT_ONCE: Final = (32, 8)
"""Rows of one insert; SQLite before 3.32 takes 999 values."""

Rows = Sequence[Sequence[Any]]


class _Connection(sqlite3.Connection):
    """A connection that runs a whole transaction in one call, so in one switch to aiosqlite's thread.

    Each switch costs about as much as writing 20 rows.
    """

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """As sqlite3's. For ``TRANSACTION``, ``parameters`` are pairs of a statement and its rows."""
        if sql != TRANSACTION:
            return super().executemany(sql, parameters)
        try:
            for statement, rows in parameters:
                self._run(statement, rows)
                pass_point("writer.writing")
            pass_point("writer.written")
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return self.cursor()

    def _run(self, statement: str, rows: Rows) -> None:
        """Insert several rows at once: each call into SQLite releases the GIL, and waits for it again."""
        done = 0
        for count in _AT_ONCE:
            together = _insert_of(statement, count)
            while together is not None and len(rows) - done >= count:
                self.execute(together, [*chain.from_iterable(rows[done : done + count])])
                done += count
        super().executemany(statement, rows[done:])


@cache
def _insert_of(statement: str, count: int) -> str | None:
    """The same insert for so many rows; None for any other statement."""
    head, _, values = statement.partition(" VALUES ")
    if not values or set(values) - set("(?, )"):
        return None
    return f"{head} VALUES {','.join([values] * count)}"


class Database:
    """An open database of the newest schema."""

    def __init__(
        self,
        engine: AsyncEngine,
        connections: Sequence[AsyncConnection],
        drivers: Sequence[aiosqlite.Connection],
    ) -> None:
        """The first connection writes, and reads if it is the only one; ``drivers`` are theirs."""
        self._engine = engine
        self._connections = connections
        self._writer, *readers = drivers
        self._idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for reader in readers or [self._writer]:
            self._idle.put_nowait(reader)
        self._in_memory = not readers
        self._checkpoints = Checkpoints(lambda: _connect_reader(engine))

    @classmethod
    async def open(cls, data: str, durability: str) -> "Database":
        """Open the database in directory ``data``, or a new one in memory.

        Raises StoreUnreadableError for a file that is no database of this or an earlier version; such a
        file is not touched. Raises StoreUnavailableError when the disk refuses.
        """
        in_memory = data == MEMORY
        path = MEMORY if in_memory else str(Path(data) / FILE_NAME)
        if not in_memory:
            check_log(path)
        engine = create_async_engine(
            f"sqlite+aiosqlite:///{path}", poolclass=NullPool, connect_args={"factory": _Connection}
        )
        event.listen(engine.sync_engine, "connect", _set_pragmas(in_memory, durability))
        connections: list[AsyncConnection] = []
        try:
            writer = await engine.connect()
            connections.append(writer)
            await _bring_up_to_date(writer, path)
            while not in_memory and len(connections) <= READERS:
                connections.append(await _connect_reader(engine))
            drivers = [await _driver_of(connection) for connection in connections]
        except BaseException as error:
            for connection in connections:
                await connection.close()
            await engine.dispose()
            if isinstance(error, DBAPIError):
                raise _opening_error(path, error) from error
            raise
        return cls(engine, connections, drivers)

    async def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[Any]:
        """The rows that ``sql`` selects from the last committed state, as tuples.

        Raises StoreUnavailableError. A read whose caller is cancelled goes on in its thread.
        """
        reader = await self._idle.get()
        try:
            return list(await reader.execute_fetchall(sql, parameters))
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"the store cannot be read: {error}") from error
        finally:
            self._idle.put_nowait(reader)

    async def transact(self, statements: Mapping[str, Rows]) -> None:
        """Run each statement once for each of its rows, as one transaction.

        Raises StoreUnavailableError when the disk or SQLite refuses: then nothing is kept.
        """
        pairs = [(sql, rows) for sql, rows in statements.items() if rows]
        try:
            await self._writer.executemany(TRANSACTION, pairs)
        except sqlite3.Error as error:
            raise StoreUnavailableError(
                f"the store cannot be written: {error}; nothing of this request was kept"
            ) from error
        if not self._in_memory:
            self._checkpoints.wrote(sum(len(rows) for _, rows in pairs))

    async def close(self) -> None:
        """Close every connection; the last one copies the write-ahead log back."""
        await self._checkpoints.close()
        for connection in reversed(self._connections):
            await connection.close()
        await self._engine.dispose()


def _set_pragmas(in_memory: bool, durability: str) -> Any:
    pragmas = ["PRAGMA temp_store=MEMORY"]
    if not in_memory:
        pragmas += [
            f"PRAGMA synchronous={durability.upper()}",
            f"PRAGMA wal_autocheckpoint={WAL_PAGES}",
            "PRAGMA busy_timeout=5000",
        ]

    def set_pragmas(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        try:
            for pragma in pragmas:
                cursor.execute(pragma)
        except BaseException:
            connection.close()  # SQLAlchemy 2.0 would leave it open
            raise
        cursor.close()

    return set_pragmas


async def _connect_reader(engine: AsyncEngine) -> AsyncConnection:
    connection = await engine.connect()
    return await connection.execution_options(isolation_level="AUTOCOMMIT")


async def _driver_of(connection: AsyncConnection) -> aiosqlite.Connection:
    driver = (await connection.get_raw_connection()).driver_connection
    assert isinstance(driver, aiosqlite.Connection)  # noqa: S101 - narrows SQLAlchemy's Any | None
    return driver


async def _bring_up_to_date(connection: AsyncConnection, path: str) -> None:
    tables = {
        row[0]
        for row in await connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type='table'")
    }
    if "alembic_version" in tables:
        revisions = [
            row[0] for row in await connection.exec_driver_sql("SELECT version_num FROM alembic_version")
        ]
        if revisions == [HEAD_REVISION]:
            return
    elif tables:
        raise StoreUnreadableError(
            f"{path} is a database of another program (it has a table {sorted(tables)[0]!r} and no schema"
            " version); it was left as it is. Give another directory with --data"
        )
    # Only now is it certain that the file is ours to change.
    await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    if not tables:
        await connection.run_sync(make_schema)
        return
    # Alembic takes as long to import as the rest of the store, and is needed only here.
    import mocketmq_migrations  # noqa: PLC0415

    await connection.run_sync(mocketmq_migrations.upgrade, path)


def _opening_error(path: str, error: DBAPIError) -> StoreError:
    reason = str(error.orig)
    if "not a database" in reason or "malformed" in reason or "corrupt" in reason:
        return StoreUnreadableError(
            f"{path} cannot be read as a database ({reason}); it was left as it is."
            " Restore it from a copy, move it away to start empty, or give another directory with --data"
        )
    return StoreUnavailableError(f"cannot open {path}: {reason}")
