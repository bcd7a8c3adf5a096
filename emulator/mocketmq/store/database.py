"""The open SQLite file: reads from it, and writes transactions.

aiosqlite gives each connection a thread. One connection writes, and a few others read committed rows. An
in-memory database has a single connection for both. Each transaction or query is one call, so readers never
see uncommitted rows. ``write_connection`` runs small transactions and quick reads without a thread.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import aiosqlite

from mocketmq.errors import StoreDamagedError, StoreError, StoreFailedError, StoreUnavailableError
from mocketmq.event_loop import run_to_completion
from mocketmq.store import checkpoints
from mocketmq.store.checkpoints import Checkpoints, is_failed_sync
from mocketmq.store.damage import ERRORS, NOTHING_KEPT, is_damage, words_of
from mocketmq.store.disk import sync_path
from mocketmq.store.transacting_connection import TransactingConnection
from mocketmq.store.transaction_runner import Rows
from mocketmq.store.write_connection import TransactionSize, WriteConnection

log = logging.getLogger(__name__)

FILE_NAME = "mocketmq.db"
MEMORY = ":memory:"

_USED_BYTES: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
)

_sync: Final = getattr(os, "fdatasync", os.fsync)

_FEW_ROWS: Final = TransactionSize()


class Database:
    """An open database of the newest schema.

    ``direct`` is the connection that writes. ``idle`` has the connections for reading that no query uses.
    """

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
        self.idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
        for reader in readers or [writer]:
            self.idle.put_nowait(reader)
        self.is_in_memory = not readers  # has no file
        writing = asyncio.Lock()
        self._writer = WriteConnection(writer, direct, writing, self.idle if self.is_in_memory else None)
        self._checkpoints = Checkpoints(connect_reader, writing)
        self._log_path = log_path
        self._log: int | None = None  # a descriptor
        self.direct = direct
        self._reads_at_once = False

    async def rows(self, sql: str, parameters: Sequence[object] = (), *, are_few: bool = False) -> list[Any]:
        """The rows that ``sql`` selects from the last committed state, as tuples.

        Set ``are_few`` for a query that looks at few rows, by an index: it usually runs at once, without a
        switch of threads. Raises StoreUnavailableError or StoreDamagedError. Cancelling the
        caller does not stop the query.
        """
        if self._reads_at_once:
            return self.direct.execute(sql, parameters).fetchall()
        try:
            if are_few and (rows := self._writer.read(sql, parameters)) is not None:
                return rows
        except ERRORS as error:
            raise self._read_error(error) from error
        reader = await self.idle.get()
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
            self.idle.put_nowait(reader)

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

    async def transact(self, statements: Mapping[str, Rows], size: TransactionSize = _FEW_ROWS) -> None:
        """Run each statement once for each of its rows, as one transaction. The rows are not yet durable.

        Raises StoreUnavailableError if the disk or SQLite refuses, and stores nothing. Raises
        StoreFailedError if SQLite could not sync a file; the rows may or may not be stored. Raises
        StoreDamagedError once damage has been found, because its extent is unknown.
        """
        self._check_writable()
        changes = self.direct.total_changes
        try:
            await self._writer.run(statements, size)
        except ERRORS as error:
            raise self._refusal(error) from error
        self._wrote(changes, size)

    def transact_at_once(self, statements: Mapping[str, Rows], size: TransactionSize) -> bool:
        """Like :meth:`transact`, on this thread. Returns False, and does nothing, if that may take long."""
        self._check_writable()
        changes = self.direct.total_changes
        try:
            has_run = self._writer.run_at_once(statements, size)
        except ERRORS as error:
            raise self._refusal(error) from error
        if has_run:
            self._wrote(changes, size)
        return has_run

    def _check_writable(self) -> None:
        """Raise the error for writes after a failed sync or damage."""
        self._check_syncs()
        if self.damage is not None:
            raise StoreDamagedError(f"{NOTHING_KEPT}: {self._damaged()}")

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
            changed = self.direct.total_changes - changes
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
