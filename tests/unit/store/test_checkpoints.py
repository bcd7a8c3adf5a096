"""Checkpoints: a copy that fails is logged and tried again, and never hinders a stop."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from mocketmq.store.checkpoints import ROWS, Checkpoints
from tests.support.patience import PATIENCE_S


class Connector:
    """Opens connections, after so many attempts that fail."""

    def __init__(self, engine: AsyncEngine, failures: int) -> None:
        self.attempted = asyncio.Event()
        self.connected = asyncio.Event()
        self._engine = engine
        self._failures = failures

    async def __call__(self) -> AsyncConnection:
        self.attempted.set()
        if self._failures:
            self._failures -= 1
            raise OSError("too many open files")
        connection = await self._engine.connect()
        self.connected.set()
        return connection


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'any.db'}")
    yield engine
    await engine.dispose()


async def test_a_connection_that_fails_is_logged_and_tried_again(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    connect = Connector(engine, failures=1)
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


async def test_closing_never_fails(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = AsyncConnection.close

    async def fail(connection: AsyncConnection) -> None:
        await close(connection)
        raise OSError("it is gone")

    for failures in (0, 1):
        connect = Connector(engine, failures)
        checkpoints = Checkpoints(connect)
        async with asyncio.timeout(PATIENCE_S):
            checkpoints.wrote(ROWS)
            await connect.attempted.wait()
            with monkeypatch.context() as patched:
                patched.setattr(AsyncConnection, "close", fail)
                for _ in range(2):
                    await checkpoints.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the connection that copies the write-ahead log could not be closed: it is gone",
        "the write-ahead log could not be copied back: too many open files",
    ]
