"""``marked_broker MARKS LOG python -m mocketmq …``: runs the command, noting the activities of its process.

The broker's parts are wrapped from outside, so the broker has no code for this. ``LOG`` is SQLite's
write-ahead log. Marks are saved to the file ``MARKS`` when the broker has stopped.
"""

import asyncio
import gc
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import aiosqlite

from mocketmq.clock import wall_us
from mocketmq.store import database
from mocketmq.store.checkpoints import Checkpoints
from mocketmq.store.transacting_connection import TransactingConnection
from mocketmq.store.transaction_runner import TransactionRunner
from tests.bench.causes import COMMIT, COPY, READ, RESTART, STOPPED, SYNC, TO_LOOP, TO_THREAD, TRANSACTION
from tests.bench.marks import Marks, Stopwatch

_HEADER_BYTES = 32
_IN_THREAD = {"executemany", "_execute_fetchall"}
"""Functions that aiosqlite calls in a connection's thread."""
_READING = "_execute_fetchall"


def mark(marks: Marks, log: Path) -> None:
    """Wrap every activity that may delay a delivery in this process."""
    gc.callbacks.append(marks.collecting)
    _mark_loop(marks)
    _mark_threads(marks)
    _mark_transactions(marks)
    _mark_commits(marks, log)
    _mark_copies(marks)
    sync = database._sync

    def synced(descriptor: int) -> None:
        began_us = wall_us()
        sync(descriptor)
        marks.add(SYNC, began_us, wall_us())
        marks.counts["syncs"] += 1

    setattr(database, "_sync", synced)  # noqa: B010 - it is final to all others


def _mark_loop(marks: Marks) -> None:
    serve = import_module("mocketmq.cli.serve")
    run = serve._run

    async def watched(*arguments: Any) -> None:
        watching = asyncio.create_task(marks.watch_loop())
        try:
            await run(*arguments)
        finally:
            watching.cancel()

    setattr(serve, "_run", watched)  # noqa: B010 - a module


def _mark_threads(marks: Marks) -> None:
    execute: Callable[..., Awaitable[Any]] = aiosqlite.Connection._execute

    async def marked(
        connection: aiosqlite.Connection, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        if fn.__name__ not in _IN_THREAD or str(args[0]).startswith("PRAGMA"):
            return await execute(connection, fn, *args, **kwargs)
        taken_us = ended_us = 0

        def timed() -> Any:
            nonlocal taken_us, ended_us
            stopwatch = Stopwatch()
            taken_us = stopwatch.begin_us
            try:
                return fn(*args, **kwargs)
            finally:
                ended_us, state = stopwatch.stop()
                if fn.__name__ == _READING:
                    marks.add(f"{READ} {state}", taken_us, ended_us)
                    marks.counts[READ] += 1

        put_us = wall_us()
        try:
            return await execute(connection, timed)
        finally:
            if ended_us:
                marks.add(TO_THREAD, put_us, taken_us)
                marks.add(TO_LOOP, ended_us, wall_us())

    setattr(aiosqlite.Connection, "_execute", marked)  # noqa: B010 - a method


def _mark_transactions(marks: Marks) -> None:
    run = TransactionRunner.run

    def marked(runner: TransactionRunner, connection: sqlite3.Connection, statements: Any) -> None:
        stopwatch = Stopwatch()
        try:
            run(runner, connection, statements)
        finally:
            ended_us, state = stopwatch.stop()
            marks.add(f"{TRANSACTION} {state}", stopwatch.begin_us, ended_us)
            marks.counts[TRANSACTION] += 1

    setattr(TransactionRunner, "run", marked)  # noqa: B010 - a method


def _mark_commits(marks: Marks, log: Path) -> None:
    file = -1
    header = b""

    def commit(connection: sqlite3.Connection) -> None:
        nonlocal file, header
        stopwatch = Stopwatch()
        sqlite3.Connection.commit(connection)
        end_us, state = stopwatch.stop()
        if file < 0:
            with suppress(FileNotFoundError):
                file = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
        before, header = header, os.pread(file, _HEADER_BYTES, 0) if file >= 0 else b""
        if before not in (b"", header):
            marks.counts["restarts of the log"] += 1
            marks.add(RESTART, stopwatch.begin_us, end_us)
        else:
            marks.add(f"{COMMIT} {state}", stopwatch.begin_us, end_us)

    setattr(TransactingConnection, "commit", commit)  # noqa: B010 - a method


def _mark_copies(marks: Marks) -> None:
    for name, kind in (("_copy", COPY), ("_copy_alone", STOPPED)):
        setattr(Checkpoints, name, _timed(marks, kind, getattr(Checkpoints, name)))


def _timed(marks: Marks, kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
    async def timed(*arguments: Any) -> Any:
        began_us = wall_us()
        try:
            return await method(*arguments)
        finally:
            marks.add(kind, began_us, wall_us())
            marks.counts[kind] += 1

    return timed


def main() -> None:
    """Run the command."""
    _, file, log, *command = sys.argv
    sys.argv = command[command.index("mocketmq") :]
    marks = Marks()
    mark(marks, Path(log))
    try:
        import_module("mocketmq.cli").main()
    finally:
        marks.save(Path(file))


if __name__ == "__main__":
    main()
