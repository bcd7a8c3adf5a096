"""Opens the SQLite file, and upgrades its schema."""

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Thread, current_thread
from typing import Any, Final

import aiosqlite

from mocketmq.errors import StoreUnreadableError
from mocketmq.failpoint import pass_point
from mocketmq.store import checkpoints
from mocketmq.store.damage import ERRORS, check_file, check_log, check_pages, has_log, opening_error
from mocketmq.store.database import FILE_NAME, MEMORY, Database
from mocketmq.store.disk import is_volatile
from mocketmq.store.tables import HEAD_REVISION, SCHEMA
from mocketmq.store.transacting_connection import TransactingConnection

READERS = 2
JOIN_S = 1.0
"""Time to wait for the thread of a connection that failed to open. Older aiosqlite polls every 0.1 s."""
FRAME_BYTES = 4_120
"""Size of a page in the write-ahead log, including the page's header."""
_ROWS_AT_ONCE: Final = 64
"""Chunk size of iterated cursors: aiosqlite's default. No query here iterates."""


async def open_database(data: str, durability: str, *, is_suspect: bool = False) -> Database:
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
    connect_reader = partial(_connect, path, pragmas)
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
    return Database(connections, direct[0], connect_reader, path, log_path)


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
        # Without an isolation level, sqlite3 begins no transaction by itself.
        connection = sqlite3.connect(path, factory=TransactingConnection, isolation_level=None, **options)
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
