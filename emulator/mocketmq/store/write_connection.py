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
import itertools
import re
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import aiosqlite

from mocketmq.clock import steady_us
from mocketmq.failpoint import pass_point

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # only Linux and FreeBSD count for each thread
    getrusage = None  # type: ignore[assignment]

QUICK_ROWS: Final = 768
QUICK_BYTES: Final = 256 << 10
"""Maximum numbers of rows, and of bytes in bodies, of a transaction on the event loop: 2 to 4 ms. Enough for
a batch of the timer, whose deliveries have two rows each."""
SLOW_US: Final = 5_000
"""Duration of a transaction from which the file system counts as slow."""
SLOW_COMMIT_US: Final = 2 * SLOW_US
"""The same for the commit of a transaction in the thread. Each of the thread's calls into SQLite may wait for
the interpreter's lock for the 5 ms of ``sys.getswitchinterval``, and a transaction has many calls."""
SUSPECT: Final = 100
"""Number of transactions, and of reads, that use a thread after a slow one of either kind."""
READING_US: Final = 2_000
"""Time for reads in one iteration of the event loop, after which further reads use threads."""

TRANSACTION: Final = "-- transaction"
_LOCK_WAIT_MS: Final = 5_000
_PRIMARY_CODE: Final = 0xFF
_calls: Final = itertools.count()
_TOGETHER: Final = (32, 8)
"""Numbers of rows inserted by one statement. SQLite before 3.32 accepts at most 999 values."""
_VALUES: Final = re.compile(r"VALUES (\([?, ]+\))")

Rows = Sequence[Sequence[Any]]


def times_blocked() -> int:
    """How often this thread has waited for anything but the CPU; a new number if the system does not say."""
    return next(_calls) if getrusage is None else getrusage(RUSAGE_THREAD).ru_nvcsw


class TransactionSize(NamedTuple):
    """The size of a transaction, apart from its number of rows."""

    body_bytes: int = 0
    """Bytes of the bodies of messages, written or copied."""
    is_sweep: bool = False
    """Whether a statement may change many rows."""


class TransactingConnection(sqlite3.Connection):
    """A connection that runs a whole transaction in one call, so that aiosqlite switches threads once.

    ``took_us`` is the duration of the last transaction or ``read``. ``has_stalled`` is True if the file
    system held up the work.
    """

    took_us = 0
    has_stalled = False
    _commit_us = 0

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Like sqlite3's. For ``TRANSACTION``, run ``parameters`` as statements, and wait for locks."""
        if sql != TRANSACTION:
            return super().executemany(sql, parameters)
        self.execute(f"PRAGMA busy_timeout={_LOCK_WAIT_MS}")
        try:
            self.transact(parameters)
            self.has_stalled = self._commit_us > SLOW_COMMIT_US
        finally:
            self.execute("PRAGMA busy_timeout=0")
        return self.cursor()

    def transact(self, statements: Sequence[tuple[str, Rows]]) -> None:
        """Run each statement once for each of its rows, as one transaction. Does not wait for locks."""
        began_us, blocked = steady_us(), times_blocked()
        try:
            self.execute("BEGIN")  # sqlite3 begins a transaction by itself only before some statements
            for statement, rows in statements:
                self._run(statement, rows)
                pass_point("writer.writing")
            pass_point("writer.written")
            committing_us = steady_us()
            self.commit()
            self._commit_us = steady_us() - committing_us
        except BaseException:
            self.rollback()
            raise
        finally:
            self._judge(began_us, blocked)

    def read(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        """Return the rows that ``sql`` selects. Does not wait for locks."""
        began_us, blocked = steady_us(), times_blocked()
        try:
            return self.execute(sql, parameters).fetchall()
        finally:
            self._judge(began_us, blocked)

    def _judge(self, began_us: int, blocked: int) -> None:
        """Set ``took_us`` and ``has_stalled``, given the start and the count of blocks at that time."""
        self.took_us = steady_us() - began_us
        self.has_stalled = self.took_us > SLOW_US and times_blocked() != blocked

    def _run(self, statement: str, rows: Rows) -> None:
        """Insert several rows per call, because each call into SQLite releases and reacquires the GIL."""
        done = 0
        for count in _TOGETHER:
            together = _of_many(statement, count)
            while together is not None and len(rows) - done >= count:
                self.execute(together, [*itertools.chain.from_iterable(rows[done : done + count])])
                done += count
        super().executemany(statement, rows[done:])


@cache
def _of_many(statement: str, count: int) -> str | None:
    """The statement for ``count`` rows; None if the statement has parameters outside of its ``VALUES``."""
    found = _VALUES.findall(statement)
    if len(found) != 1 or found[0].count("?") != statement.count("?"):
        return None
    return _VALUES.sub(lambda row: "VALUES " + ",".join([row[1]] * count), statement)


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
        self._suspected = 0  # number of further transactions that use a thread
        self._suspected_reads = 0  # the same for reads, counted separately because they may come from memory
        self._reading_us = 0  # time spent in reads in this iteration of the event loop

    @property
    def _is_read(self) -> bool:
        return self._shared is not None and self._shared.empty()

    def exclusively(self) -> AbstractAsyncContextManager[None]:
        """Keep transactions from running inside the context."""
        return self._writing

    async def run(self, statements: Sequence[tuple[str, Rows]], count: int, size: TransactionSize) -> None:
        """Run each statement once for each of its rows, as one transaction. Raises sqlite3.Error.

        ``count`` is the number of all rows.
        """
        if self.run_at_once(statements, count, size):
            return
        if self._shared is not None and _is_small(count, size):
            connection = await self._shared.get()
            try:
                if not self._writing.locked():
                    self._direct.transact(statements)
                    return
            finally:
                self._shared.put_nowait(connection)
        async with self._writing:
            await self._connection.executemany(TRANSACTION, statements)
        if _is_small(count, size):
            self._suspected = max(0, self._suspected - 1)
            self._judge()

    def run_at_once(self, statements: Sequence[tuple[str, Rows]], count: int, size: TransactionSize) -> bool:
        """Like ``run``, on this thread. Returns False, and does nothing, if that could hold up the loop."""
        if self._suspected or not _is_small(count, size) or self._writing.locked() or self._is_read:
            return False
        try:
            self._direct.transact(statements)
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
            rows = self._direct.read(sql, parameters)
        except sqlite3.OperationalError as error:
            self._check_is_locked(error)
            return None
        if not self._reading_us:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._reading_us += self._direct.took_us + 1
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
        if self._direct.has_stalled and self._shared is None:
            self._suspect()

    def _suspect(self) -> None:
        self._suspected = self._suspected_reads = SUSPECT


def _is_small(count: int, size: TransactionSize) -> bool:
    return not size.is_sweep and count <= QUICK_ROWS and size.body_bytes <= QUICK_BYTES
