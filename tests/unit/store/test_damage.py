"""Damage of the database, found before a start after an unclean end, and found during use."""

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq.errors import StoreDamagedError, StoreUnavailableError, StoreUnreadableError
from mocketmq.store import damage
from mocketmq.store.damage import (
    Damage,
    find_all_damage,
    find_damage,
    has_commit,
    naming_damage,
    schema_of,
    summary,
)
from mocketmq.store.database import FILE_NAME
from mocketmq.store.opening import open_database
from tests.support.damage import zero_root

KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("INSERT INTO counters VALUES ('a', 1)")
os._exit(0)
"""


async def make_store(data: Path) -> Path:
    database = await open_database(str(data), "full")
    rows = [(f"counter {n}", n) for n in range(1_000)]
    await database.transact({"INSERT INTO counters VALUES (?, ?)": rows})
    await database.close()
    return data / FILE_NAME


def left_by_a_kill(database: Path) -> None:
    """Continue to write in a process that exits without closing the database."""
    subprocess.run([sys.executable, "-c", KILLED, str(database)], check=True)
    assert Path(f"{database}-wal").stat().st_size


def write_log(database: Path) -> bytes:
    """Leave a log with one transaction, and return its content."""
    log = Path(f"{database}-wal")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE counters SET value = value + 1")
        written = log.read_bytes()
    log.write_bytes(written)
    return written


def cut_log(database: Path, content: bytes) -> None:
    Path(f"{database}-wal").write_bytes(content)


def contents(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir()}


@pytest.mark.parametrize("table", ["counters", "topics", "messages"])
async def test_damage_has_the_name_of_its_table(tmp_path: Path, table: str) -> None:
    database = await make_store(tmp_path)
    assert find_damage(database) == []
    zero_root(tmp_path, table)
    for found in (find_damage(database), find_all_damage(database, lambda *_: None)):
        assert {each.table for each in found} == {table}
        assert summary(found).startswith(f"table {table}: ")


async def test_missing_index_row_is_found_by_the_full_check_only(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO queues VALUES (1, 'orders', 0, 0, 0, 0, NULL)")
        connection.execute("PRAGMA writable_schema = ON")
        select = "SELECT * FROM sqlite_master WHERE name = 'queues_by_topic'"
        [row] = connection.execute(select)
        connection.execute("DELETE FROM sqlite_master WHERE name = 'queues_by_topic'")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO queues VALUES (2, 'orders', 1, 0, 0, 0, NULL)")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", row)
    steps: list[tuple[str, int, int | None]] = []
    found = find_all_damage(path, lambda *step: steps.append(step))
    assert Damage("queues", "row 2 missing from index queues_by_topic") in found
    assert steps[0][1:] == (0, len(steps))
    assert [done for _, done, _ in steps] == list(range(len(steps)))


async def test_quoted_damage_is_one_escaped_line(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    for broken in (b"\xff\x1b[2J\n", b"\x1b]0;x\x07\n"):
        content = path.read_bytes()
        at = content.index(b"CREATE TABLE topics")
        path.write_bytes(content[:at] + broken + content[at + len(broken) :])
        [damage] = find_damage(path)
        assert damage.problem.isprintable()
        path.write_bytes(content)


async def test_a_check_changes_no_file(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    before = contents(tmp_path)
    find_damage(path)
    assert contents(tmp_path) == before
    left_by_a_kill(path)
    before = contents(tmp_path)
    find_damage(path)
    assert contents(tmp_path) == before


async def test_a_check_reads_the_log_and_makes_no_index_of_it(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'of the log'")
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            shutil.copy(tmp_path / name, copy / name)
    before = contents(copy)
    for mode in (0o755, 0o555):
        copy.chmod(mode)
        assert find_damage(copy / FILE_NAME) == []
        assert schema_of(copy / FILE_NAME) == "of the log"
        assert contents(copy) == before
    copy.chmod(0o755)


@pytest.mark.parametrize("kept", [1, 31, 32, 56, 32 + 24 + 4_095, None], ids=str)
async def test_a_check_leaves_a_log_without_a_commit(tmp_path: Path, kept: int | None) -> None:
    """The log's only transaction is cut anywhere before its end, or the log is zeros."""
    path = await make_store(tmp_path)
    whole = write_log(path)
    assert has_commit(path)
    cut_log(path, bytes(100) if kept is None else whole[:kept])
    before = contents(tmp_path)
    assert not has_commit(path)
    assert find_damage(path) == []
    assert contents(tmp_path) == before


@pytest.mark.parametrize("is_suspect", [False, True])
async def test_after_a_kill_a_damaged_store_is_refused_and_left_as_it_is(
    tmp_path: Path, is_suspect: bool
) -> None:
    path = await make_store(tmp_path)
    if not is_suspect:  # only the log shows it
        left_by_a_kill(path)
    zero_root(tmp_path, "topics")
    before = contents(tmp_path)
    with pytest.raises(StoreUnreadableError) as refused:
        await open_database(str(tmp_path), "full", is_suspect=is_suspect)
    said = str(refused.value)
    assert f"{path} is damaged: table topics: " in said
    assert "left as it is. Restore it from a copy" in said
    assert f"mocketmq verify --data {tmp_path}" in said
    assert contents(tmp_path) == before


async def test_orderly_end_skips_the_check(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = await make_store(tmp_path)
    zero_root(tmp_path, "kv_configs")
    with caplog.at_level(logging.INFO):
        await (await open_database(str(tmp_path), "full")).close()
    assert not caplog.records
    assert find_damage(path)


@pytest.mark.parametrize(("quick_s", "lines"), [(damage.QUICK_S, 1), (0, 2)])
async def test_checks_are_logged_and_long_ones_report_progress(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    quick_s: float,
    lines: int,
) -> None:
    left_by_a_kill(await make_store(tmp_path))
    monkeypatch.setattr(damage, "QUICK_S", quick_s)
    with caplog.at_level(logging.INFO):
        await (await open_database(str(tmp_path), "full")).close()
    assert [each.getMessage().partition(str(tmp_path))[0] for each in caplog.records] == [
        "the last run was not shut down cleanly: checking ",
        "the last run was not shut down cleanly: checked ",
    ][-lines:]


async def test_damage_found_is_logged_once_and_ends_writing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await make_store(tmp_path)
    zero_root(tmp_path, "topics")
    database = await open_database(str(tmp_path), "full")
    insert = "INSERT INTO counters VALUES (?, ?)"
    await database.transact({insert: [("before", 1)]})
    database.check_damage()
    for _ in range(2):
        with pytest.raises(StoreDamagedError) as met:
            await database.rows("SELECT * FROM topics")
        assert str(tmp_path / FILE_NAME) in str(met.value)
        assert f"mocketmq verify --data {tmp_path}" in str(met.value)
    with pytest.raises(StoreDamagedError, match="is damaged"):
        await database.transact({insert: [("after", 1)]})
    with pytest.raises(StoreDamagedError):
        database.check_damage()
    assert await database.rows("SELECT name FROM counters WHERE name IN ('before', 'after')") == [("before",)]
    assert [each.levelno for each in caplog.records] == [logging.CRITICAL]
    await database.close()


async def test_a_write_that_finds_damage_reports_it(tmp_path: Path) -> None:
    await make_store(tmp_path)
    zero_root(tmp_path, "topics")
    database = await open_database(str(tmp_path), "full")
    with pytest.raises(StoreDamagedError):
        await database.transact({"DELETE FROM topics WHERE name = ?": [("orders",)]})
    await database.close()


async def test_invalid_utf_8_is_damage(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"counter 7", b"counter \xff"))
    database = await open_database(str(tmp_path), "full")
    with pytest.raises(StoreDamagedError, match=r"is damaged \(a text is not UTF-8\)"):
        await database.rows("SELECT name FROM counters")
    await database.close()


async def test_duplicate_key_is_refused_with_its_reason(tmp_path: Path) -> None:
    await make_store(tmp_path)
    database = await open_database(str(tmp_path), "full")
    with pytest.raises(StoreUnavailableError, match=r"UNIQUE .*mocketmq verify --data "):
        await database.transact({"INSERT INTO counters VALUES (?, ?)": [("counter 1", 1)]})
    await database.close()


@pytest.mark.parametrize(
    "raised", [ValueError("nonsense"), StoreUnavailableError("the store cannot be written")]
)
async def test_a_start_that_fails_on_a_damaged_store_names_the_damage(
    tmp_path: Path, raised: Exception
) -> None:
    path = await make_store(tmp_path)
    zero_root(tmp_path, "groups")
    with pytest.raises(StoreUnreadableError, match=r"is damaged: table groups: .*Restore it"):
        async with naming_damage(path):
            raise raised


async def test_a_failed_start_on_an_intact_store_keeps_its_error(tmp_path: Path) -> None:
    path = await make_store(tmp_path)
    with pytest.raises(ValueError, match=r"^nonsense$"):
        async with naming_damage(path):
            raise ValueError("nonsense")
    with pytest.raises(StoreUnavailableError) as refused:
        async with naming_damage(path):
            raise StoreUnavailableError("the disk is full; nothing of this request was kept")
    assert str(refused.value).startswith(f"cannot start on {path}: the disk is full; make room on its disk")


async def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.mkdir()
    with pytest.raises(StoreUnavailableError) as refused:
        await open_database(str(tmp_path), "full")
    assert str(refused.value).startswith(
        f"cannot open {path}: it is a directory; allowed: a database file. Move"
    )
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(StoreUnavailableError, match=os.strerror(40)):
        await open_database(str(tmp_path), "full")


async def test_failed_opening_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that outlives the loop prints a stack trace, because it cannot notify the loop."""
    monkeypatch.setattr("mocketmq.store.opening.check_file", lambda _: None)
    (tmp_path / FILE_NAME).mkdir()
    before = set(threading.enumerate())
    with pytest.raises(StoreUnavailableError, match="unable to open"):
        await open_database(str(tmp_path), "full")
    assert set(threading.enumerate()) <= before


def test_a_missing_file_has_no_damage(tmp_path: Path) -> None:
    assert find_damage(tmp_path / FILE_NAME) == []


def test_foreign_file_is_damage_of_no_table(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(bytes(4_096))
    assert find_damage(tmp_path / FILE_NAME) == [Damage(None, "file is not a database")]
