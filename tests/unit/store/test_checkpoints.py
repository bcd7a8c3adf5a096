"""Checkpoints: they bound the log; a copy that fails is logged and tried again, and never hinders a stop."""

import asyncio
import logging
import sqlite3
from pathlib import Path

import aiosqlite
import pytest

from mocketmq.errors import StoreFailedError
from mocketmq.store import checkpoints as checkpoints_module
from mocketmq.store.checkpoints import ROWS, Checkpoints
from mocketmq.store.database import FILE_NAME, Database
from tests.support.patience import PATIENCE_S


class Connector:
    """Opens connections, after so many attempts that fail."""

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


async def test_a_connection_that_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
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


async def test_a_log_that_never_rests_is_written_from_its_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction follows the other, so no copy finds the log at its end unless they wait for it."""
    monkeypatch.setattr(checkpoints_module, "ROWS", 40)
    monkeypatch.setattr(checkpoints_module, "LONG", 200)
    database = await Database.open(str(tmp_path), "full")
    log = tmp_path / f"{FILE_NAME}-wal"
    headers: set[bytes] = set()
    async with asyncio.timeout(PATIENCE_S):
        while len(headers) < 4:
            rows = [(f"{number}", number) for number in range(10)]
            await database.transact({"INSERT OR REPLACE INTO counters VALUES (?, ?)": rows})
            with log.open("rb") as file:
                headers.add(file.read(32))
    assert len(await database.rows("SELECT * FROM counters")) == 10
    await database.close()


async def test_after_a_failed_sync_nothing_is_copied_written_or_called_durable(
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
    database = await Database.open(str(tmp_path), "full")
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
