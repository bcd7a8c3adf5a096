"""Small transactions run on the event loop's thread, and only where that cannot hold up the loop."""

import asyncio
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mocketmq.errors import StoreUnavailableError
from mocketmq.store import write_connection
from mocketmq.store.database import FILE_NAME, MEMORY, Database
from mocketmq.store.write_connection import QUICK_BYTES, QUICK_ROWS, SLOW_US, SUSPECT, TransactionSize
from tests.support.patience import HANGING_S

SAVE = "INSERT OR REPLACE INTO counters VALUES (?, ?)"
ROW = ("a", 1)
SMALL = TransactionSize()


@pytest.fixture(params=["file", "memory"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    data = str(tmp_path) if request.param == "file" else MEMORY
    opened = await Database.open(data, "full")
    yield opened
    await opened.close()


async def is_direct(database: Database, rows: int = 1, size: TransactionSize = SMALL) -> bool:
    """Run a transaction, and return whether it ended within one turn of the event loop."""
    writing = asyncio.create_task(database.transact({SAVE: [ROW] * rows}, size))
    await asyncio.sleep(0)
    is_done = writing.done()
    await writing
    return is_done


async def test_only_small_transactions_run_on_the_loop(database: Database) -> None:
    assert await is_direct(database)
    assert await is_direct(database, QUICK_ROWS, TransactionSize(QUICK_BYTES))
    assert not await is_direct(database, QUICK_ROWS + 1)
    assert not await is_direct(database, 1, TransactionSize(QUICK_BYTES + 1))
    assert not await is_direct(database, 1, TransactionSize(is_sweep=True))
    assert await is_direct(database)


class Stalls:
    """How long each transaction takes, and whether its thread is blocked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.takes_us = SLOW_US + 1
        self.is_blocked = True
        self._now_us = self._blocked = 0
        monkeypatch.setattr(write_connection, "steady_us", self._steady_us)
        monkeypatch.setattr(write_connection, "times_blocked", self._times_blocked)

    def _steady_us(self) -> int:
        self._now_us += self.takes_us
        return self._now_us

    def _times_blocked(self) -> int:
        self._blocked += self.is_blocked
        return self._blocked


async def test_a_slow_file_system_is_left_to_the_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    assert await is_direct(database)
    assert not await is_direct(database)
    stalls.takes_us = SLOW_US
    assert [await is_direct(database) for _ in range(SUSPECT + 1)] == [False] * SUSPECT + [True]


async def test_a_transaction_that_only_waits_for_the_cpu_is_not_held_up_by_the_file_system(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    stalls.is_blocked = False
    assert [await is_direct(database) for _ in range(2)] == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not count for each thread")
def test_a_thread_that_waits_counts_as_blocked() -> None:
    before = write_connection.times_blocked()
    time.sleep(0.001)
    assert write_connection.times_blocked() > before


async def test_the_loop_does_not_wait_for_the_lock_of_another_program(tmp_path: Path) -> None:
    database = await Database.open(str(tmp_path), "full")
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(database.transact({SAVE: [ROW]}))
    await asyncio.sleep(0)
    assert not writing.done()
    other.execute("ROLLBACK")
    async with asyncio.timeout(HANGING_S):
        await writing
    assert await database.rows("SELECT * FROM counters") == [ROW]
    other.close()
    await database.close()


async def test_a_transaction_waits_for_a_read_of_a_store_in_memory() -> None:
    """Both use one connection, which would read what is not committed yet."""
    database = await Database.open(MEMORY, "full")
    await database.transact({SAVE: [(f"{number}", number) for number in range(300)]})
    crossed = "SELECT count(*) FROM counters a, counters b, counters c WHERE a.value + b.value < c.value"
    reading = asyncio.create_task(database.rows(crossed))
    await asyncio.sleep(0)
    assert not await is_direct(database)
    assert reading.done()
    assert await is_direct(database)
    await database.close()


async def test_a_refused_transaction_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(StoreUnavailableError):
        await database.transact({SAVE: [ROW], "INSERT INTO counters VALUES (?, ?)": [("b", 1), ("b", 2)]})
    assert await database.rows("SELECT * FROM counters") == []
    assert await is_direct(database)
