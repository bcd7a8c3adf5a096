"""Checkpoints: a copy that fails is logged and tried again, and never hinders a stop."""

import asyncio
import logging

import aiosqlite
import pytest

from mocketmq.store.checkpoints import ROWS, Checkpoints
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
    checkpoints = Checkpoints(connect)
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
        checkpoints = Checkpoints(connect)
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
