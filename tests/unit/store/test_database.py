"""Opening the database must not change a single byte of foreign files."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from mocketmq.errors import StoreFailedError, StoreUnavailableError, StoreUnreadableError
from mocketmq.store.database import FILE_NAME, MEMORY, Database
from mocketmq.store.opening import open_database
from mocketmq.store.tables import HEAD_REVISION
from tests.support.patience import HANGING_S


class HeldReads:
    """Holds up reads of ``SELECT held()`` until the context ends; created by :func:`holding`."""

    SQL = "SELECT held()"

    def __init__(self) -> None:
        self.count = 0
        self.begun = asyncio.Event()
        self.go_on = threading.Event()
        self._loop = asyncio.get_running_loop()

    def held(self) -> int:
        """Wait, in the thread of a connection."""
        self.count += 1
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.go_on.wait(HANGING_S)
        return 1


@asynccontextmanager
async def holding(database: Database) -> AsyncIterator[HeldReads]:
    """Hold up reads."""
    reads = HeldReads()
    for connection in database._connections:
        await connection.create_function("held", 0, reads.held)
    try:
        yield reads
    finally:
        reads.go_on.set()


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


async def refused(directory: Path, match: str) -> None:
    """Check that opening is refused twice, and leaves the directory unchanged."""
    before = contents(directory)
    for _ in range(2):
        with pytest.raises(StoreUnreadableError, match=match) as error:
            await open_database(str(directory), "full")
        assert str(directory / FILE_NAME) in str(error.value)
    assert contents(directory) == before


@pytest.mark.parametrize("content", [b"no database at all" * 1_000, b"SQLite format 3\0" + b"\xff" * 5_000])
async def test_an_unreadable_file_is_reported_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    await refused(tmp_path, "cannot be read as a database .* left as it is")


async def test_a_damaged_database_is_reported_and_left_as_it_is(tmp_path: Path) -> None:
    await (await open_database(str(tmp_path), "full")).close()
    file = tmp_path / FILE_NAME
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\xee" * 4_000 + content[4_100:])
    await refused(tmp_path, "malformed.* left as it is")


async def test_the_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    execute(tmp_path / FILE_NAME, "CREATE TABLE invoices (number INTEGER)", "INSERT INTO invoices VALUES (7)")
    await refused(tmp_path, "another program .*'invoices'")


async def test_a_newer_schema_is_left_as_it_is(tmp_path: Path) -> None:
    await (await open_database(str(tmp_path), "full")).close()
    execute(tmp_path / FILE_NAME, "UPDATE alembic_version SET version_num = '9999'")
    await refused(tmp_path, "newer version")


async def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"")
    database = await open_database(str(tmp_path), "full")
    assert await database.rows("SELECT version_num FROM alembic_version") == [(HEAD_REVISION,)]
    await database.close()


@pytest.mark.parametrize("durability", ["full", "normal"])
async def test_commits_are_not_synced_by_sqlite(tmp_path: Path, durability: str) -> None:
    """The setting must never be 0, because SQLite's syncs around a log copy keep the file intact."""
    database = await open_database(str(tmp_path), durability)
    assert await database.rows("PRAGMA synchronous") == [(1,)]
    assert await database.rows("PRAGMA journal_mode") == [("wal",)]
    assert database.is_synced == (durability == "full")
    await database.close()


async def test_a_copy_in_another_journal_mode_gets_a_log(tmp_path: Path) -> None:
    await (await open_database(str(tmp_path), "full")).close()
    execute(tmp_path / FILE_NAME, "PRAGMA journal_mode=DELETE")
    database = await open_database(str(tmp_path), "full")
    await database.transact({"INSERT INTO counters VALUES (?, ?)": [("a", 1)]})
    database.sync()
    assert await database.rows("PRAGMA journal_mode") == [("wal",)]
    await database.close()


@pytest.mark.interpreted
async def test_failed_sqlite_sync_is_reported_as_a_failed_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await open_database(str(tmp_path), "full")
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(database._writer, "run", fail)
    with pytest.raises(StoreFailedError, match=r"^a sync of the disk failed \(disk I/O error\)$"):
        await database.transact({"INSERT INTO counters VALUES (?, ?)": [("a", 1)]})
    await database.close()


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_a_transaction_is_kept_as_a_whole_or_not_at_all(tmp_path: Path, is_in_memory: bool) -> None:
    database = await open_database(MEMORY if is_in_memory else str(tmp_path), "full")
    await database.transact({"INSERT INTO counters VALUES (?, ?)": [("a", 1), ("b", 2)]})
    with pytest.raises(StoreUnavailableError):
        await database.transact(
            {
                "UPDATE counters SET value = ?": [(9,)],
                "INSERT INTO counters VALUES (?, ?)": [("c", 3), ("d", None)],
            }
        )
    await database.transact({"INSERT INTO counters VALUES (?, ?)": []})
    assert await database.rows("SELECT * FROM counters ORDER BY name") == [("a", 1), ("b", 2)]
    await database.close()


@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 32, 33, 41, 77, 200])
async def test_rows_are_inserted_in_order_in_any_batch_size(count: int) -> None:
    """The table has no rowid column of its own, so its implicit rowids show the insertion order."""
    database = await open_database(MEMORY, "full")
    rows = [(count - n, "topic", n, n, n) for n in range(count)]
    await database.transact(
        {
            "CREATE TABLE arrivals (place, topic, a, b, c)": [()],
            "INSERT INTO arrivals (place, topic, a, b, c) VALUES (?, ?, ?,?, ?)": rows,
            "INSERT INTO arrivals VALUES (?, 'other', 0, 0, 0)": [(n,) for n in range(count)],
        }
    )
    stored = await database.rows("SELECT * FROM arrivals ORDER BY rowid")
    assert stored == [*rows, *((n, "other", 0, 0, 0) for n in range(count))]
    with pytest.raises(StoreUnavailableError, match="UNIQUE"):
        await database.transact({"INSERT INTO counters VALUES (?, ?)": [(f"{n % 90}", n) for n in range(91)]})
    assert await database.rows("SELECT * FROM counters") == []
    await database.close()


@pytest.mark.parametrize("count", [1, 9, 32, 77])
async def test_selecting_inserts_are_batched(count: int) -> None:
    """Whatever these statements begin with, the transaction is kept completely or not at all."""
    database = await open_database(MEMORY, "full")
    await database.transact({"INSERT INTO counters VALUES (?, ?)": [(f"{n}", n) for n in range(count)]})
    copy = (
        "WITH copy(name, original) AS (VALUES (?, ?)) INSERT INTO counters"
        " SELECT copy.name, value FROM copy CROSS JOIN counters ON counters.name = original"
    )
    copies = [(f"copy of {n}", f"{n}") for n in range(count)]
    await database.transact({copy: copies})
    stored = await database.rows("SELECT * FROM counters WHERE name LIKE 'copy%'")
    assert sorted(stored) == sorted((f"copy of {n}", n) for n in range(count))
    more = [(f"more of {n}", f"{n}") for n in range(count)]
    with pytest.raises(StoreUnavailableError, match="UNIQUE"):
        await database.transact({copy: [*more, copies[0]]})
    assert await database.rows("SELECT * FROM counters WHERE name LIKE 'more%'") == []
    await database.close()


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_uncommitted_messages_are_invisible(tmp_path: Path, is_in_memory: bool) -> None:
    database = await open_database(MEMORY if is_in_memory else str(tmp_path), "full")
    rows = [(f"{n}", n) for n in range(20_000)]
    writing = asyncio.create_task(database.transact({"INSERT INTO counters VALUES (?, ?)": rows}))
    counts = set()
    while not writing.done():
        counts.add((await database.rows("SELECT count(*) FROM counters"))[0][0])
    await writing
    counts.add((await database.rows("SELECT count(*) FROM counters"))[0][0])
    assert counts <= {0, 20_000}
    await database.close()


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_a_cancelled_reader_does_not_break_the_connection(tmp_path: Path, is_in_memory: bool) -> None:
    database = await open_database(MEMORY if is_in_memory else str(tmp_path), "full")
    async with holding(database) as reads:
        for _ in range(4):  # more reads than connections
            reading = asyncio.create_task(database.rows(reads.SQL))
            await reads.begun.wait()
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
    await database.transact({"INSERT INTO counters VALUES (?, ?)": [("a", 1)]})
    for _ in range(4):
        assert await database.rows("SELECT * FROM counters") == [("a", 1)]
    await database.close()


async def test_a_queued_read_is_cancelled_with_its_reader() -> None:
    database = await open_database(MEMORY, "full")
    async with holding(database) as reads:
        readings = [asyncio.create_task(database.rows(reads.SQL)) for _ in range(20)]
        await reads.begun.wait()
        for reading in readings:
            reading.cancel()
        await asyncio.wait(readings)
    assert await database.rows("SELECT * FROM counters") == []
    assert reads.count == 1
    await database.close()


async def test_a_bad_statement_is_an_error_of_the_store(tmp_path: Path) -> None:
    database = await open_database(str(tmp_path), "full")
    with pytest.raises(StoreUnavailableError, match="no such table"):
        await database.rows("SELECT * FROM missing")
    await database.close()
