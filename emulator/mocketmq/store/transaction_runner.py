"""Runs transactions and quick reads on a connection, and notices whether the file system was slow."""

import itertools
import re
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from mocketmq.clock import steady_us
from mocketmq.failpoint import pass_point

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # only Linux and FreeBSD count for each thread
    getrusage = None  # type: ignore[assignment]

SLOW_US: Final = 5_000
"""Duration of a transaction, or of a sync, from which the file system counts as slow."""
SLOW_COMMIT_US: Final = 2 * SLOW_US
"""The same for the commit of a transaction in the thread. Each of the thread's calls into SQLite may wait for
the interpreter's lock for the 5 ms of ``sys.getswitchinterval``, and a transaction has many calls."""

_LOCK_WAIT_MS: Final = 5_000
_calls: Final = itertools.count()
_TOGETHER: Final = (32, 8)
"""Numbers of rows inserted by one statement. SQLite before 3.32 accepts at most 999 values."""
_VALUES: Final = re.compile(r"VALUES (\([?, ]+\))")

Rows = Sequence[Sequence[Any]]


def times_blocked() -> int:
    """How often this thread has waited for anything but the CPU; a new number if the system does not say."""
    return next(_calls) if getrusage is None else getrusage(RUSAGE_THREAD).ru_nvcsw


class TransactionRunner:
    """Runs the transactions and the quick reads of one connection, each in one call.

    ``took_us`` is the duration of the last one. ``has_stalled`` is True if the file system held it up.
    """

    def __init__(self) -> None:
        self.took_us = 0
        self.has_stalled = False
        self._commit_us = 0

    def run(self, connection: sqlite3.Connection, statements: Sequence[tuple[str, Rows]]) -> None:
        """Run each statement once for each of its rows, as one transaction. Does not wait for locks."""
        began_us, blocked = steady_us(), times_blocked()
        try:
            if len(statements) == 1 and len(statements[0][1]) == 1:
                self._run_alone(connection, *statements[0])
            else:
                self._run_together(connection, statements)
        except BaseException:
            connection.rollback()
            raise
        finally:
            self._judge(began_us, blocked)

    def _run_alone(self, connection: sqlite3.Connection, statement: str, rows: Rows) -> None:
        """Run a statement for its only row. SQLite makes that a transaction by itself, in one call."""
        pass_point("writer.writing")
        pass_point("writer.written")
        began_us = steady_us()
        connection.execute(statement, rows[0])
        self._commit_us = steady_us() - began_us

    def _run_together(self, connection: sqlite3.Connection, statements: Sequence[tuple[str, Rows]]) -> None:
        connection.execute("BEGIN")
        for statement, rows in statements:
            _run(connection, statement, rows)
            pass_point("writer.writing")
        pass_point("writer.written")
        committing_us = steady_us()
        connection.commit()
        self._commit_us = steady_us() - committing_us

    def run_in_thread(self, connection: sqlite3.Connection, statements: Sequence[tuple[str, Rows]]) -> None:
        """Like ``run``, but wait for locks."""
        connection.execute(f"PRAGMA busy_timeout={_LOCK_WAIT_MS}")
        try:
            self.run(connection, statements)
            self.has_stalled = self._commit_us > SLOW_COMMIT_US
        finally:
            connection.execute("PRAGMA busy_timeout=0")

    def read(self, connection: sqlite3.Connection, sql: str, parameters: Sequence[object]) -> list[Any]:
        """Return the rows that ``sql`` selects. Does not wait for locks."""
        began_us, blocked = steady_us(), times_blocked()
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            self._judge(began_us, blocked)

    def _judge(self, began_us: int, blocked: int) -> None:
        """Set ``took_us`` and ``has_stalled``, given the start and the count of blocks at that time."""
        self.took_us = steady_us() - began_us
        self.has_stalled = self.took_us > SLOW_US and times_blocked() != blocked


def _run(connection: sqlite3.Connection, statement: str, rows: Rows) -> None:
    """Insert several rows per call, because each call into SQLite releases and reacquires the GIL."""
    done = 0
    for count in _TOGETHER:
        if len(rows) - done < count or (together := _of_many(statement, count)) is None:
            continue
        while len(rows) - done >= count:
            connection.execute(together, [*itertools.chain.from_iterable(rows[done : done + count])])
            done += count
    if done < len(rows):
        sqlite3.Connection.executemany(connection, statement, rows[done:])


@cache
def _of_many(statement: str, count: int) -> str | None:
    """The statement for ``count`` rows; None if the statement has parameters outside of its ``VALUES``."""
    found = _VALUES.findall(statement)
    if len(found) != 1 or found[0].count("?") != statement.count("?"):
        return None
    return _VALUES.sub(lambda row: "VALUES " + ",".join([row[1]] * count), statement)
