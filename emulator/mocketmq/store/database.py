"""Opens the SQLite file, upgrades its schema, reads from it, and writes transactions.

aiosqlite gives each connection a thread. One connection writes, and a few others read committed rows. An
in-memory database has a single connection for both. Each transaction or query is one call, so readers never
see uncommitted rows. ``write_connection`` runs small transactions and quick reads without a thread.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread, current_thread
from typing import Any, Final

import aiosqlite

from mocketmq.errors import (
    StoreDamagedError,
    StoreError,
    StoreFailedError,
    StoreUnavailableError,
    StoreUnreadableError,
)
from mocketmq.event_loop import run_to_completion
from mocketmq.failpoint import pass_point
from mocketmq.store import checkpoints
from mocketmq.store.checkpoints import Checkpoints, is_failed_sync
from mocketmq.store.damage import (
    ERRORS,
    NOTHING_KEPT,
    check_file,
    check_log,
    check_pages,
    has_log,
    is_damage,
    opening_error,
    words_of,
)
from mocketmq.store.disk import is_volatile, sync_path
from mocketmq.store.tables import HEAD_REVISION, SCHEMA
from mocketmq.store.write_connection import Rows, TransactingConnection, TransactionSize, WriteConnection

log = logging.getLogger(__name__)

FILE_NAME = "mocketmq.db"
MEMORY = ":memory:"
READERS = 2
JOIN_S = 1.0
"""Time to wait for the thread of a connection that failed to open. Older aiosqlite polls every 0.1 s."""
FRAME_BYTES = 4_120
"""Size of a page in the write-ahead log, including the page's header."""

CACHE_KB: Final = 2_000
"""SQLite's default size of a connection's page cache."""
LARGE_CACHE_KB: Final = 32 << 10
"""Size while a snapshot is attached, so that replacing all rows writes most pages to the log only once."""

_USED_BYTES: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
)

_sync: Final = getattr(os, "fdatasync", os.fsync)

_FEW_ROWS: Final = TransactionSize()
_ROWS_AT_ONCE: Final = 64
"""Chunk size of iterated cursors: aiosqlite's default. No query here iterates."""


class Database:
    """An open database of the newest schema."""

    def __init__(
        self,
        connections: Sequence[aiosqlite.Connection],
        direct: TransactingConnection,
        connect_reader: Callable[[], Awaitable[aiosqlite.Connection]],
        path: str = MEMORY,
        log_path: Path | None = None,
    ) -> None:
        """The first connection, which is also ``direct``, writes, and reads if there is no other.

        ``log_path`` is the log to sync.
        """
        self.damage: str | None = None  # the first damage that SQLite reported, in SQLite's words
        self._path = path
        self._connections = connections
        writer, *readers = connections
        self._idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for reader in readers or [writer]:
            self._idle.put_nowait(reader)
        self.is_in_memory = not readers  # has no file
        writing = asyncio.Lock()
        self._writer = WriteConnection(writer, direct, writing, self._idle if self.is_in_memory else None)
        self._checkpoints = Checkpoints(connect_reader, writing)
        self._log_path = log_path
        self._log: int | None = None  # a descriptor
        self._direct = direct
        self._reads_at_once = False

    @classmethod
    async def open(cls, data: str, durability: str, *, is_suspect: bool = False) -> "Database":
        """Open the database in directory ``data``, or a new one in memory.

        The file is first checked for damage if ``is_suspect`` is set or a write-ahead log was left by an
        unclean stop. Raises StoreUnreadableError, and leaves the file unchanged, if the file is damaged,
        belongs to another program, or has a newer schema. Raises StoreUnavailableError if the disk refuses.
        """
        in_memory = data == MEMORY
        path = MEMORY if in_memory else str(Path(data) / FILE_NAME)
        if not in_memory:
            check_file(Path(path))
            check_log(path)
            if is_suspect or has_log(Path(path)):
                await check_pages(Path(path))
        pragmas = _pragmas(in_memory)
        connect_reader = partial(_connect, path, pragmas, isolation_level=None)
        connections: list[aiosqlite.Connection] = []
        direct: list[TransactingConnection] = []
        try:
            connections.append(await _connect(path, pragmas, direct.append, check_same_thread=False))
            await _bring_up_to_date(connections[0], path)
            await connections[0].execute_fetchall("PRAGMA busy_timeout=0")  # write_connection.py says why
            while not in_memory and len(connections) <= READERS:
                connections.append(await connect_reader())
        except BaseException as error:
            for connection in connections:
                await connection.close()
            if isinstance(error, ERRORS):
                raise opening_error(Path(path), error) from error
            raise
        is_synced = durability == "full" and not in_memory and not is_volatile(Path(data))
        log_path = Path(f"{path}-wal") if is_synced else None
        return cls(connections, direct[0], connect_reader, path, log_path)

    async def rows(self, sql: str, parameters: Sequence[object] = (), *, are_few: bool = False) -> list[Any]:
        """The rows that ``sql`` selects from the last committed state, as tuples.

        Set ``are_few`` for a query that looks at few rows, by an index: it usually runs at once, without a
        switch of threads. Raises StoreUnavailableError or StoreDamagedError. Cancelling the
        caller does not stop the query.
        """
        if self._reads_at_once:
            return self._direct.execute(sql, parameters).fetchall()
        try:
            if are_few and (rows := self._writer.read(sql, parameters)) is not None:
                return rows
        except ERRORS as error:
            raise self._read_error(error) from error
        reader = await self._idle.get()
        return await run_to_completion(self._read(reader, sql, parameters, are_few=are_few))

    async def _read(
        self, reader: aiosqlite.Connection, sql: str, parameters: Sequence[object], *, are_few: bool
    ) -> list[Any]:
        """Read in the thread of an idle connection, which is idle again once the query has ended.

        An in-memory store has one connection, which is idle now, so this thread can read few rows.
        """
        try:
            if are_few and self.is_in_memory:
                rows = self._writer.read(sql, parameters, is_reader=True)
                if rows is not None:
                    return rows
            return list(await reader.execute_fetchall(sql, parameters))
        except ERRORS as error:
            raise self._read_error(error) from error
        finally:
            self._idle.put_nowait(reader)

    def _read_error(self, error: Exception) -> StoreError:
        if is_damage(error):
            return StoreDamagedError(self._met(error))
        return StoreUnavailableError(f"the store cannot be read: {error}")

    async def used_bytes(self) -> int:
        """The bytes of all pages in use. Raises the errors of :meth:`rows`."""
        [(size,)] = await self.rows(_USED_BYTES)
        return int(size)

    @contextmanager
    def reading_at_once(self) -> Iterator[None]:
        """Let :meth:`rows` read on this thread without awaiting anything, while no other task runs."""
        self._reads_at_once = True
        try:
            yield
        finally:
            self._reads_at_once = False

    def exclusively(self) -> AbstractAsyncContextManager[None]:
        """Keep transactions from running inside the context."""
        return self._writer.exclusively()

    @asynccontextmanager
    async def attached(self, content: bytes) -> AsyncIterator[sqlite3.Connection]:
        """Attach a database, given as the bytes of its file, to the connection that writes.

        Its name is ``snapshot``. The snapshot is in memory, so statements of :meth:`transact` may change it.
        Yields the connection, for use while no transaction runs. Must not be cancelled before that.
        """
        direct = self._direct
        try:
            async with self._unused_writer():
                self._detach()
                direct.execute("ATTACH ':memory:' AS snapshot")
                direct.execute(f"PRAGMA main.cache_size=-{LARGE_CACHE_KB}")
                await asyncio.to_thread(direct.deserialize, content, name="snapshot")
            yield direct
        finally:
            async with self._unused_writer():
                self._detach()

    @asynccontextmanager
    async def _unused_writer(self) -> AsyncIterator[None]:
        """Keep transactions and queries off the connection that writes."""
        async with self._writer.exclusively():
            if not self.is_in_memory:
                yield
                return
            connection = await self._idle.get()  # SQLite cannot detach a database while a query runs
            try:
                yield
            finally:
                self._idle.put_nowait(connection)

    def _detach(self) -> None:
        """Detach a snapshot, even one that a cancelled or failed caller of :meth:`attached` left behind."""
        direct = self._direct
        if direct.in_transaction:
            direct.rollback()  # SQLite locks the snapshot until the rollback
        if any(name == "snapshot" for _, name, _ in direct.execute("PRAGMA database_list")):
            direct.execute("DETACH snapshot")
            direct.execute(f"PRAGMA main.cache_size=-{CACHE_KB}")

    async def transact(self, statements: Mapping[str, Rows], size: TransactionSize = _FEW_ROWS) -> None:
        """Run each statement once for each of its rows, as one transaction. The rows are not yet durable.

        Raises StoreUnavailableError if the disk or SQLite refuses, and stores nothing. Raises
        StoreFailedError if SQLite could not sync a file; the rows may or may not be stored. Raises
        StoreDamagedError once damage has been found, because its extent is unknown.
        """
        pairs, count = self._checked(statements)
        changes = self._direct.total_changes
        try:
            await self._writer.run(pairs, count, size)
        except ERRORS as error:
            raise self._refusal(error) from error
        self._wrote(changes, size)

    def transact_at_once(self, statements: Mapping[str, Rows], size: TransactionSize) -> bool:
        """Like :meth:`transact`, on this thread. Returns False, and does nothing, if that may take long."""
        pairs, count = self._checked(statements)
        changes = self._direct.total_changes
        try:
            has_run = self._writer.run_at_once(pairs, count, size)
        except ERRORS as error:
            raise self._refusal(error) from error
        if has_run:
            self._wrote(changes, size)
        return has_run

    def _checked(self, statements: Mapping[str, Rows]) -> tuple[Sequence[tuple[str, Rows]], int]:
        """The statements with rows, and their total number of rows. Raises after a failed sync or damage."""
        self._check_syncs()
        if self.damage is not None:
            raise StoreDamagedError(f"{NOTHING_KEPT}: {self._damaged()}")
        pairs = [(sql, rows) for sql, rows in statements.items() if rows]
        return pairs, sum([len(rows) for _, rows in pairs])

    def _refusal(self, error: Exception) -> StoreError:
        if is_failed_sync(error):
            return StoreFailedError(f"a sync of the disk failed ({error})")
        if is_damage(error):
            return StoreDamagedError(f"{NOTHING_KEPT}: {self._met(error)}")
        cause = f"{error}{self._doubt}" if isinstance(error, sqlite3.IntegrityError) else str(error)
        return StoreUnavailableError(f"the store cannot be written: {cause}; {NOTHING_KEPT}")

    def _wrote(self, changes: int, size: TransactionSize) -> None:
        """Count what a transaction wrote. ``changes`` is SQLite's count of changes before it."""
        if not self.is_in_memory:
            changed = self._direct.total_changes - changes
            self._checkpoints.wrote(changed + size.body_bytes // checkpoints.ROW_BYTES)

    async def copy_to(self, directory: str) -> None:
        """Write a copy to a directory. An in-memory database is blocked while it is copied."""
        await self.rows("VACUUM INTO ?", (str(Path(directory, FILE_NAME)),))

    @property
    def is_synced(self) -> bool:
        """Whether commits become durable by :meth:`sync`."""
        return self._log_path is not None

    def sync(self) -> None:
        """Make everything committed so far durable. Blocks; raises OSError, and StoreFailedError."""
        self._check_syncs()
        assert self._log_path is not None  # noqa: S101 - see is_synced
        if self._log is None:
            # Safe only because SQLite takes no locks on the log. Closing a descriptor of a file releases all
            # locks that the process has on that file.
            self._log = os.open(self._log_path, os.O_RDWR)  # Windows cannot sync a file opened for reading
            sync_path(self._log_path.parent)  # makes the log's directory entry durable
        _sync(self._log)

    def check_damage(self) -> None:
        """Raise StoreDamagedError once SQLite has reported damage."""
        if self.damage is not None:
            raise StoreDamagedError(self._damaged())

    def _met(self, error: Exception) -> str:
        """Return a sentence about the damage, and log it the first time."""
        if self.damage is None:
            self.damage = words_of(error)
            log.critical("%s", self._damaged())
        return self._damaged()

    def _damaged(self) -> str:
        return (
            f"{self._path} is damaged ({self.damage}), so nothing more is written to it. Stop the broker and"
            " restore its data directory from a copy, or start with another one;"
            f" mocketmq verify --data {Path(self._path).parent} lists the damage"
        )

    @property
    def _doubt(self) -> str:
        """Return advice for a duplicate key: a sign of damage or a defect, as the broker assigns all keys."""
        if self.is_in_memory:
            return ""
        verify = f"mocketmq verify --data {Path(self._path).parent}"
        return f" (the store is damaged, or this is a defect in mocketmq: {verify} tells which)"

    def _check_syncs(self) -> None:
        """Refuse to sync after SQLite's own sync failed. Ours could succeed although pages were lost."""
        if self._checkpoints.failed_sync is not None:
            raise StoreFailedError(f"a sync of the disk failed ({self._checkpoints.failed_sync})")

    async def close(self) -> None:
        """Close every connection. Closing the last one checkpoints the write-ahead log."""
        await self._checkpoints.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None
        for connection in reversed(self._connections):
            await connection.close()


def _pragmas(in_memory: bool) -> Sequence[str]:
    if in_memory:
        return ("temp_store=MEMORY",)
    return (
        "temp_store=MEMORY",
        # SQLite syncs the log before a checkpoint, the database after it, and the header of a new log.
        # These syncs keep the file consistent; Database.sync makes commits durable.
        "synchronous=NORMAL",
        "wal_autocheckpoint=0",  # SQLite does not report a failed sync in an automatic checkpoint
        f"journal_size_limit={checkpoints.TOO_LONG * checkpoints.LONG * FRAME_BYTES}",
        "busy_timeout=5000",
    )


def _from_daemon(make: Callable[[], aiosqlite.Connection]) -> aiosqlite.Connection:
    """Make a connection in a daemon thread, so that its aiosqlite thread becomes a daemon, too."""
    made: list[aiosqlite.Connection] = []
    thread = Thread(target=lambda: made.append(make()), daemon=True)
    thread.start()
    thread.join()
    return made[0]


async def _connect(
    path: str,
    pragmas: Sequence[str],
    connected: Callable[[TransactingConnection], None] = lambda _: None,
    **options: Any,
) -> aiosqlite.Connection:
    """Open a connection. Its thread does not keep the interpreter from exiting."""
    opener: Future[Thread] = Future()

    def connect() -> sqlite3.Connection:
        opener.set_result(current_thread())
        connection = sqlite3.connect(path, factory=TransactingConnection, **options)
        connected(connection)
        return connection

    connection = _from_daemon(lambda: aiosqlite.Connection(connect, _ROWS_AT_ONCE))
    try:
        await connection
    except BaseException:
        # When the thread ends, it notifies the loop, and prints a stack trace if the loop is already closed.
        opener.result(JOIN_S).join(JOIN_S)
        raise
    try:
        for pragma in pragmas:
            await connection.execute_fetchall(f"PRAGMA {pragma}")
    except BaseException:
        await connection.close()
        raise
    return connection


async def _bring_up_to_date(connection: aiosqlite.Connection, path: str) -> None:
    tables = await _column(connection, "SELECT name FROM sqlite_master WHERE type='table' ORDER BY name")
    is_newest = "alembic_version" in tables and (
        await _column(connection, "SELECT version_num FROM alembic_version") == [HEAD_REVISION]
    )
    if tables and "alembic_version" not in tables:
        raise StoreUnreadableError(
            f"{path} is a database of another program (it has a table {tables[0]!r} and no schema"
            " version); it was left as it is. Give another directory with --data"
        )
    # Change the file only now that it is known to be a mocketmq database.
    await connection.execute_fetchall("PRAGMA journal_mode=WAL")
    if is_newest:  # a copied database may have another journal mode
        return
    if not tables:
        await connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}")
        pass_point("migrate.upgraded")
        await connection.commit()
        return
    import mocketmq_migrations  # noqa: PLC0415 - rarely needed

    mocketmq_migrations.upgrade(path)


async def _column(connection: aiosqlite.Connection, sql: str) -> list[Any]:
    return [value for (value,) in await connection.execute_fetchall(sql)]
