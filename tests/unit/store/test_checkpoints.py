"""Checkpoints bound the log and block commits only briefly; a failed checkpoint is retried."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from mocketmq.errors import StoreFailedError
from mocketmq.store import checkpoints as checkpoints_module
from mocketmq.store.checkpoints import LONG, QUICK_US, ROW_BYTES, ROWS, TOO_LONG, Checkpoints
from mocketmq.store.database import FILE_NAME
from mocketmq.store.opening import FRAME_BYTES, open_database
from mocketmq.store.queue import Queue
from tests.support.patience import PATIENCE_S
from tests.unit.store.test_writer import append, running_writer


class Connector:
    """Opens connections after a number of failed attempts."""

    def __init__(self, failures: int) -> None:
        self.attempted = asyncio.Event()
        self.connected = asyncio.Event()
        self._failures = failures

    async def __call__(self) -> aiosqlite.Connection:
        self.attempted.set()
        if self._failures:
            self._failures -= 1
            raise OSError("too many open files")
        connection = await aiosqlite.connect(":memory:")
        self.connected.set()
        return connection


class Log:
    """A fake connection that records how long each copy took, and whether commits could run then."""

    def __init__(self, writing: asyncio.Lock, pages: int, held: int, takes_us: int) -> None:
        self.could_commit: list[bool] = []
        self.now_us = 0
        self._writing = writing
        self._answer = (0, pages, pages - held)
        self._takes_us = takes_us

    async def execute_fetchall(self, sql: str) -> list[tuple[int, int, int]]:
        assert sql == "PRAGMA wal_checkpoint(PASSIVE)"
        self.could_commit.append(not self._writing.locked())
        self.now_us += self._takes_us
        return [self._answer]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("pages", "held", "takes_us", "could_commit"),
    [
        pytest.param(LONG - 1, 0, 0, [True], id="short"),
        pytest.param(LONG, 0, QUICK_US, [True, True, False], id="long, quick disk"),
        pytest.param(LONG, 0, QUICK_US + 1, [True, True], id="long, slow disk"),
        pytest.param(LONG, 1, 0, [True, True], id="long, and somebody reads"),
        pytest.param(TOO_LONG * LONG, 1, QUICK_US + 1, [True, True, False], id="too long"),
    ],
)
async def test_commits_wait_for_quick_or_overdue_checkpoints(
    pages: int, held: int, takes_us: int, could_commit: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    writing = asyncio.Lock()
    log = Log(writing, pages, held, takes_us)
    monkeypatch.setattr(checkpoints_module, "steady_us", lambda: log.now_us)
    connected = asyncio.Event()

    async def connect() -> Any:
        connected.set()
        return log

    checkpoints = Checkpoints(connect, writing)
    async with asyncio.timeout(PATIENCE_S):
        checkpoints.wrote(ROWS)
        await connected.wait()
        await checkpoints.close()
    assert log.could_commit == could_commit


async def test_a_long_message_counts_as_many_rows(tmp_path: Path) -> None:
    queue = Queue(1, "orders", 0)
    async with running_writer(tmp_path) as writer:
        await writer.commit(append(queue))
        assert writer._database._checkpoints._task is None
        await writer.commit(append(queue, b"x" * ROWS * ROW_BYTES))
        assert writer._database._checkpoints._task is not None


async def test_automatic_checkpoints_are_off(tmp_path: Path) -> None:
    """SQLite does not report a failed sync there, so lost data would count as durable."""
    database = await open_database(str(tmp_path), "full")
    for connection in database._connections:
        [row] = await connection.execute_fetchall("PRAGMA wal_autocheckpoint")
        assert row[0] == 0
    await database.close()


async def test_a_connection_that_fails_is_logged_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    connect = Connector(failures=1)
    checkpoints = Checkpoints(connect, asyncio.Lock())
    async with asyncio.timeout(PATIENCE_S):
        checkpoints.wrote(ROWS)
        await connect.attempted.wait()
        assert not connect.connected.is_set()
        checkpoints.wrote(ROWS)
        await connect.connected.wait()
        await checkpoints.close()
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "the write-ahead log could not be copied back: too many open files"


async def test_closing_never_fails(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    close = aiosqlite.Connection.close

    async def fail(connection: aiosqlite.Connection) -> None:
        await close(connection)
        raise OSError("it is gone")

    for failures in (0, 1):
        connect = Connector(failures)
        checkpoints = Checkpoints(connect, asyncio.Lock())
        async with asyncio.timeout(PATIENCE_S):
            checkpoints.wrote(ROWS)
            await connect.attempted.wait()
            with monkeypatch.context() as patched:
                patched.setattr(aiosqlite.Connection, "close", fail)
                for _ in range(2):
                    await checkpoints.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the connection that copies the write-ahead log could not be closed: it is gone",
        "the write-ahead log could not be copied back: too many open files",
    ]


async def test_busy_log_restarts_at_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions follow each other, so no copy reaches the end of the log unless they wait for it."""
    monkeypatch.setattr(checkpoints_module, "ROWS", 40)
    monkeypatch.setattr(checkpoints_module, "LONG", 200)
    database = await open_database(str(tmp_path), "full")
    log = tmp_path / f"{FILE_NAME}-wal"
    headers: set[bytes] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(headers) < 4:
            rows = [(f"{number}", number) for number in range(10)]
            await database.transact({"INSERT OR REPLACE INTO counters VALUES (?, ?)": rows})
            await asyncio.sleep(0)  # the writer also lets others run between its transactions
            with log.open("rb") as file:
                headers.add(file.read(32))
    assert len(await database.rows("SELECT * FROM counters")) == 10
    await database.close()


async def test_log_grown_under_a_reader_is_truncated_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints_module, "ROWS", 40)
    monkeypatch.setattr(checkpoints_module, "LONG", 50)
    usual = TOO_LONG * 50 * FRAME_BYTES
    database = await open_database(str(tmp_path), "full")
    log = tmp_path / f"{FILE_NAME}-wal"

    async def write() -> None:
        rows = [(f"{number}", number) for number in range(10)]
        await database.transact({"INSERT OR REPLACE INTO counters VALUES (?, ?)": rows})
        await asyncio.sleep(0)  # as above

    async with asyncio.timeout(PATIENCE_S):
        with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM counters").fetchall()
            while log.stat().st_size <= 2 * usual:
                await write()
        while log.stat().st_size > usual:
            await write()
    assert len(await database.rows("SELECT * FROM counters")) == 10
    await database.close()


async def test_failed_sync_ends_checkpoints_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(checkpoints_module, "ROWS", 1)
    failed = asyncio.Event()
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC

    fetch = aiosqlite.Connection.execute_fetchall

    async def fail(connection: aiosqlite.Connection, sql: str, *parameters: object) -> object:
        if "wal_checkpoint" not in sql:
            return await fetch(connection, sql, *parameters)
        failed.set()
        raise error

    monkeypatch.setattr(aiosqlite.Connection, "execute_fetchall", fail)
    database = await open_database(str(tmp_path), "full")
    statements = {"INSERT OR REPLACE INTO counters VALUES (?, ?)": [("a", 1)]}
    await database.transact(statements)
    async with asyncio.timeout(PATIENCE_S):
        await failed.wait()
    with pytest.raises(StoreFailedError, match=r"a sync of the disk failed \(disk I/O error\)"):
        await database.transact(statements)
    with pytest.raises(StoreFailedError):
        database.sync()
    await database.close()
    assert len(caplog.records) == 1
