"""Runs transactions: the quick ones on the event loop's thread, all others in the thread of the connection.

A commit only writes to the page cache, because the log is synced separately (``wal_syncs``). A small
transaction therefore takes less time than a switch to another thread and back, and the two threads do not
contend for the interpreter's lock. The same is true of a read of a few rows, most of which are in this
connection's cache. The event loop runs both itself, except when that could hold up everything else:

- The transaction is large, or changes an unknown number of rows (``Batch.sweep``).
- The connection is in use: a checkpoint has to finish first, or a thread reads an in-memory store, which has
  no other connection. The latter is waited for: if further work used the thread as well, the thread would
  never be idle again.
- Another program has locked the database. The loop does not wait for the lock; the thread does.
- The file system was slow. A stall holds up the event loop once, and the next transactions and reads use
  threads. Work that only waited for its turn on a busy CPU was not held up by the file system, nor was a
  thread that waited for the interpreter's lock; and a store in memory has no file system.
- Other reads have already taken long in the same iteration of the event loop, as when a message wakes many
  long polls.
"""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import aiosqlite

from mocketmq.store.transacting_connection import TRANSACTION, TransactingConnection
from mocketmq.store.transaction_runner import Rows

QUICK_ROWS: Final = 768
QUICK_BYTES: Final = 256 << 10
"""Maximum numbers of rows, and of bytes in bodies, of a transaction on the event loop: 2 to 4 ms. Enough for
a batch of the timer, whose deliveries have two rows each."""
SUSPECT: Final = 100
"""Number of transactions, and of reads, that use a thread after a slow one of either kind."""
READING_US: Final = 2_000
"""Time for reads in one iteration of the event loop, after which further reads use threads."""

_PRIMARY_CODE: Final = 0xFF


class TransactionSize(NamedTuple):
    """The size of a transaction, apart from its number of rows."""

    body_bytes: int = 0
    """Bytes of the bodies of messages, written or copied."""
    is_sweep: bool = False
    """Whether a statement may change many rows."""


@dataclass(eq=False, repr=False)
class WriteConnection:
    """The connection that writes. ``direct`` is the same connection, for use on the event loop's thread.

    ``writing`` is held while a transaction runs in the thread, or must not run at all. ``shared`` is for a
    store in memory, whose only connection also reads: it contains the connection while no thread reads.
    """

    _connection: aiosqlite.Connection
    _direct: TransactingConnection
    _writing: asyncio.Lock
    _shared: asyncio.LifoQueue[aiosqlite.Connection] | None

    def __post_init__(self) -> None:
        self._runner = self._direct.runner
        self._suspected = 0  # number of further transactions that use a thread
        self._suspected_reads = 0  # the same for reads, counted separately because they may come from memory
        self._reading_us = 0  # time spent in reads in this iteration of the event loop

    @property
    def _is_read(self) -> bool:
        return self._shared is not None and self._shared.empty()

    def exclusively(self) -> AbstractAsyncContextManager[None]:
        """Keep transactions from running inside the context."""
        return self._writing

    async def run(self, statements: Mapping[str, Rows], size: TransactionSize) -> None:
        """Run each statement once for each of its rows, as one transaction. Raises sqlite3.Error."""
        if self.run_at_once(statements, size):
            return
        pairs = _with_rows(statements)
        if self._shared is not None and _is_small(pairs, size):
            connection = await self._shared.get()
            try:
                if not self._writing.locked():
                    self._runner.run(self._direct, pairs)
                    return
            finally:
                self._shared.put_nowait(connection)
        async with self._writing:
            await self._connection.executemany(TRANSACTION, pairs)
        if _is_small(pairs, size):
            self._suspected = max(0, self._suspected - 1)
            self._judge()

    def run_at_once(self, statements: Mapping[str, Rows], size: TransactionSize) -> bool:
        """Like ``run``, on this thread. Returns False, and does nothing, if that could hold up the loop."""
        pairs = _with_rows(statements)
        if self._suspected or not _is_small(pairs, size) or self._writing.locked() or self._is_read:
            return False
        try:
            self._runner.run(self._direct, pairs)
        except sqlite3.OperationalError as error:
            self._check_is_locked(error)
            return False
        self._judge()
        return True

    def read(self, sql: str, parameters: Sequence[object], *, is_reader: bool = False) -> list[Any] | None:
        """Read a few rows of the last committed state on this thread. Raises sqlite3.Error.

        Returns None if that could hold up the event loop. With ``is_reader``, the caller has taken the
        connection out of ``shared``.
        """
        if self._reading_us >= READING_US or self._writing.locked() or (self._is_read and not is_reader):
            return None
        if self._suspected_reads:
            self._suspected_reads -= 1
            return None
        try:
            rows = self._runner.read(self._direct, sql, parameters)
        except sqlite3.OperationalError as error:
            self._check_is_locked(error)
            return None
        if not self._reading_us:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._reading_us += self._runner.took_us + 1
        self._judge()
        return rows

    def _begin_turn(self) -> None:
        self._reading_us = 0

    def _check_is_locked(self, error: sqlite3.OperationalError) -> None:
        """Leave the next work to threads if another program has locked the database; raise other errors."""
        if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE != sqlite3.SQLITE_BUSY:
            raise error
        self._suspect()

    def _judge(self) -> None:
        if self._runner.has_stalled and self._shared is None:
            self._suspect()

    def _suspect(self) -> None:
        self._suspected = self._suspected_reads = SUSPECT


def _with_rows(statements: Mapping[str, Rows]) -> list[tuple[str, Rows]]:
    """The statements that have rows."""
    return [(statement, rows) for statement, rows in statements.items() if rows]


def _is_small(pairs: Sequence[tuple[str, Rows]], size: TransactionSize) -> bool:
    count = sum([len(rows) for _, rows in pairs])
    return not size.is_sweep and count <= QUICK_ROWS and size.body_bytes <= QUICK_BYTES
