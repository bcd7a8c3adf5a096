"""Attaches a snapshot, a database in memory, to the connection that writes."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from mocketmq.store.database import Database

CACHE_KB: Final = 2_000
"""SQLite's default size of a connection's page cache."""
LARGE_CACHE_KB: Final = 32 << 10
"""Size while a snapshot is attached, so that replacing all rows writes most pages to the log only once."""


@asynccontextmanager
async def attached_snapshot(database: Database, content: bytes) -> AsyncIterator[sqlite3.Connection]:
    """Attach a snapshot, given as the bytes of its file, under the name ``snapshot``.

    Statements of :meth:`Database.transact` may change the snapshot. Yields the connection, for use while no
    transaction runs. Must not be cancelled before that.
    """
    direct = database.direct
    try:
        async with _unused_writer(database):
            _detach(direct)
            direct.execute("ATTACH ':memory:' AS snapshot")
            direct.execute(f"PRAGMA main.cache_size=-{LARGE_CACHE_KB}")
            await asyncio.to_thread(direct.deserialize, content, name="snapshot")
        yield direct
    finally:
        async with _unused_writer(database):
            _detach(direct)


@asynccontextmanager
async def _unused_writer(database: Database) -> AsyncIterator[None]:
    """Keep transactions and queries off the connection that writes."""
    async with database.exclusively():
        if not database.is_in_memory:
            yield
            return
        connection = await database.idle.get()  # SQLite cannot detach a database while a query runs
        try:
            yield
        finally:
            database.idle.put_nowait(connection)


def _detach(direct: sqlite3.Connection) -> None:
    """Detach a snapshot, even one that a cancelled or failed caller left behind."""
    if direct.in_transaction:
        direct.rollback()  # SQLite locks the snapshot until the rollback
    if any(name == "snapshot" for _, name, _ in direct.execute("PRAGMA database_list")):
        direct.execute("DETACH snapshot")
        direct.execute(f"PRAGMA main.cache_size=-{CACHE_KB}")
