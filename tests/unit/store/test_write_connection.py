"""Small transactions and reads run on the event loop's thread, only where that cannot hold up the loop."""

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mocketmq.errors import StoreUnavailableError
from mocketmq.store import transaction_runner
from mocketmq.store.database import FILE_NAME, MEMORY, Database
from mocketmq.store.opening import open_database
from mocketmq.store.transaction_runner import SLOW_COMMIT_US, SLOW_US
from mocketmq.store.write_connection import QUICK_BYTES, QUICK_ROWS, READING_US, SUSPECT, TransactionSize
from tests.support.patience import HANGING_S

pytestmark = pytest.mark.interpreted  # replaces what measures time

SAVE = "INSERT OR REPLACE INTO counters VALUES (?, ?)"
ROW = ("a", 1)
READ = "SELECT * FROM counters"
SMALL = TransactionSize()
CROSSED = "SELECT count(*) FROM counters a, counters b, counters c WHERE a.value + b.value < c.value"
"""Takes about a second with 300 counters."""


@pytest.fixture(autouse=True)
def no_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, some transactions and reads would take long."""
    monkeypatch.setattr(transaction_runner, "steady_us", lambda: 0)


@pytest.fixture(params=["file", "memory"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    data = str(tmp_path) if request.param == "file" else MEMORY
    opened = await open_database(data, "full")
    yield opened
    await opened.close()


async def is_direct(database: Database, rows: int = 1, size: TransactionSize = SMALL) -> bool:
    """Run a transaction, and return whether it ended within one turn of the event loop."""
    writing = asyncio.create_task(database.transact({SAVE: [ROW] * rows}, size))
    await asyncio.sleep(0)
    is_done = writing.done()
    await writing
    return is_done


async def is_read_directly(database: Database) -> bool:
    """Read a few rows, and return whether the read ended within one turn of the event loop."""
    reading = asyncio.create_task(database.rows(READ, are_few=True))
    await asyncio.sleep(0)
    is_done = reading.done()
    await reading
    return is_done


async def test_only_small_transactions_run_on_the_loop(database: Database) -> None:
    assert await is_direct(database)
    assert await is_direct(database, QUICK_ROWS, TransactionSize(QUICK_BYTES))
    assert not await is_direct(database, QUICK_ROWS + 1)
    assert not await is_direct(database, 1, TransactionSize(QUICK_BYTES + 1))
    assert not await is_direct(database, 1, TransactionSize(is_sweep=True))
    assert await is_direct(database)


on_file = pytest.mark.parametrize("database", ["file"], indirect=True)


class Stalls:
    """How long each step of a transaction or read takes, and whether its thread is blocked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.takes_us = SLOW_US + 1
        self.is_blocked = True
        self._now_us = self._blocked = 0
        monkeypatch.setattr(transaction_runner, "steady_us", self._steady_us)
        monkeypatch.setattr(transaction_runner, "times_blocked", self._times_blocked)

    def _steady_us(self) -> int:
        self._now_us += self.takes_us
        return self._now_us

    def _times_blocked(self) -> int:
        self._blocked += self.is_blocked
        return self._blocked


@on_file
async def test_a_slow_file_system_is_left_to_the_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    assert await is_direct(database)
    stalls.takes_us = SLOW_COMMIT_US + 1
    assert not await is_direct(database)
    # A thread that waits for the interpreter is no stall. Otherwise, busy threads would keep all work.
    stalls.takes_us = SLOW_COMMIT_US
    assert [await is_direct(database) for _ in range(SUSPECT + 1)] == [False] * SUSPECT + [True]


@pytest.mark.parametrize("database", ["memory"], indirect=True)
async def test_a_store_in_memory_is_never_held_up_by_a_file_system(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stalls(monkeypatch)
    assert [await is_direct(database) for _ in range(2)] == [True, True]
    assert [await is_read_directly(database) for _ in range(2)] == [True, True]


async def test_a_transaction_that_only_waits_for_the_cpu_is_not_held_up_by_the_file_system(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    stalls.is_blocked = False
    assert [await is_direct(database) for _ in range(2)] == [True, True]


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not count for each thread")
def test_a_thread_that_waits_counts_as_blocked() -> None:
    before = transaction_runner.times_blocked()
    time.sleep(0.001)
    assert transaction_runner.times_blocked() > before


async def test_the_loop_does_not_wait_for_the_lock_of_another_program(tmp_path: Path) -> None:
    database = await open_database(str(tmp_path), "full")
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
    database = await open_database(MEMORY, "full")
    await database.transact({SAVE: [(f"{number}", number) for number in range(300)]})
    reading = asyncio.create_task(database.rows(CROSSED))
    await asyncio.sleep(0)
    assert not await is_direct(database)
    assert len(await reading) == 1
    assert await is_direct(database)
    await database.close()


async def test_work_that_waited_for_a_read_of_a_store_in_memory_runs_on_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it used the thread, the work that arrives meanwhile would do so too, and so on."""
    threads = []

    def noted() -> int:
        threads.append(threading.current_thread())
        return 0

    database = await open_database(MEMORY, "full")
    await database.transact({SAVE: [(f"{number}", number) for number in range(300)]})
    monkeypatch.setattr(transaction_runner, "times_blocked", noted)
    reading = asyncio.create_task(database.rows(CROSSED))
    await asyncio.sleep(0)
    read, _ = await asyncio.gather(
        database.rows(READ + " LIMIT 1", are_few=True), database.transact({SAVE: [ROW]})
    )
    assert reading.done()
    assert len(read) == 1
    assert threads
    assert {*threads} == {threading.main_thread()}
    await database.close()


async def test_a_refused_transaction_leaves_nothing_behind(database: Database) -> None:
    with pytest.raises(StoreUnavailableError):
        await database.transact({SAVE: [ROW], "INSERT INTO counters VALUES (?, ?)": [("b", 1), ("b", 2)]})
    assert await database.rows("SELECT * FROM counters") == []
    assert await is_direct(database)


async def test_few_rows_are_read_on_the_loop_as_last_committed(database: Database) -> None:
    assert await is_read_directly(database)
    await database.transact({SAVE: [ROW]})
    assert await database.rows(READ, are_few=True) == await database.rows(READ) == [ROW]


async def test_no_read_on_the_loop_sees_a_transaction_that_a_thread_runs(database: Database) -> None:
    writing = asyncio.create_task(database.transact({SAVE: [ROW] * (QUICK_ROWS + 1)}))
    await asyncio.sleep(0)
    assert not await is_read_directly(database)
    await writing
    assert await is_read_directly(database)


@on_file
async def test_reads_of_a_slow_file_system_are_left_to_threads(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    assert await is_read_directly(database)
    assert not await is_read_directly(database)
    assert not await is_direct(database), "a transaction would stall as well"
    stalls.takes_us = 0
    assert [await is_read_directly(database) for _ in range(SUSPECT)] == [False] * (SUSPECT - 1) + [True]


@on_file
async def test_reads_do_not_make_a_slow_file_system_trusted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalls = Stalls(monkeypatch)
    assert await is_direct(database)
    stalls.takes_us = 0
    for _ in range(2 * SUSPECT):
        await is_read_directly(database)
    assert not await is_direct(database)


async def test_a_cancelled_read_of_a_store_in_memory_keeps_the_connection() -> None:
    database = await open_database(MEMORY, "full")
    await database.transact({SAVE: [(f"{number}", number) for number in range(300)]})
    reading = asyncio.create_task(database.rows(CROSSED))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not await is_read_directly(database)
    assert await is_read_directly(database)
    await database.close()


async def test_reads_of_one_turn_of_the_loop_take_little_time(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    Stalls(monkeypatch).takes_us = READING_US // 2
    readings = [asyncio.create_task(database.rows(READ, are_few=True)) for _ in range(3)]
    await asyncio.sleep(0)
    assert [reading.done() for reading in readings] == [True, True, False]
    await asyncio.gather(*readings)
    assert await is_read_directly(database)


async def test_a_read_on_the_loop_reports_an_error_like_one_in_a_thread(database: Database) -> None:
    for are_few in (True, False):
        with pytest.raises(StoreUnavailableError, match="the store cannot be read: no such table: absent"):
            await database.rows("SELECT * FROM absent", are_few=are_few)
