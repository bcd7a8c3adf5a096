"""A broker's store as a ledger: which rows are read, and how damaged stores are reported."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from mocketmq.errors import StoreUnavailableError, StoreUnreadableError
from mocketmq.store.database import FILE_NAME
from mocketmq.store.lock import DirectoryLock
from mocketmq.store.tables import HEAD_REVISION
from mocketmq_report.ledger import columns, sources, spark_rows, store_snapshot
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.store_reader import OLDEST_REVISION, StoreReader
from mocketmq_report.ledger.store_snapshot import read, take_snapshot
from mocketmq_report.progress import ignore_progress
from tests.support.brokers import S, rows
from tests.support.ledger_rows import rows_of
from tests.support.stores import START_US, STORE, MadeStore, leave_store


def look(path: Path, as_of_us: int | None = None) -> store_snapshot.StoreSnapshot:
    return take_snapshot(path, ignore_progress, as_of_us)


def delivered(path: Path) -> list[dict[str, Any]]:
    """Return the deliveries of a store, read without Spark."""
    found = look(path)
    batches = (batch for span in found.ranges for batch in read(found.database, found.names, span))
    return [row for batch in batches for row in batch.to_pylist()]


def name_of(started_wall_us: int) -> str:
    """Compute the name of a run independently."""
    whole, rest = divmod(started_wall_us, S)
    return f"{datetime.fromtimestamp(whole, UTC):%Y%m%dT%H%M%S}.{rest:06}Z"


def expected(data: Path) -> list[dict[str, Any]]:
    """Compute the expected rows of a store's deliveries independently."""
    names = {row["run"]: name_of(row["started_wall_us"]) for row in rows(data, "SELECT * FROM runs")}
    found = []
    for row in rows(data, "SELECT * FROM deliveries ORDER BY delivered_offset"):
        row |= {"run": names[row["run"]], "state": "delivered", "forced": bool(row["forced"])}
        row["message_id"] = row.pop("unique_key")
        found.append({name: row.get(name) for name in columns.DELIVERIES.names})
    return found


@pytest.mark.parametrize("name", ["DELIVERIES", "RUNS", "MOVES"])
def test_arrow_and_spark_have_equal_columns(name: str) -> None:
    assert getattr(columns, name) == to_arrow_schema(getattr(spark_rows, name))


async def test_the_store_of_a_real_broker_is_read(tmp_path: Path) -> None:
    await leave_store(tmp_path)
    found = look(tmp_path)
    assert delivered(tmp_path) == expected(tmp_path)
    assert found.undelivered.num_rows == 5
    first, second = rows(tmp_path, "SELECT * FROM runs")
    names = [name_of(each["started_wall_us"]) for each in (first, second)]
    last_us = max(row["to_us"] for row in rows(tmp_path, "SELECT * FROM clock_moves"))
    same = {"store": names[0], "source": str(tmp_path), "as_of_us": last_us}
    assert found.runs.to_pylist() == [
        {**{column: each.get(column) for column in columns.RUNS.names}, **same, "run": name}
        for each, name in zip((first, second), names, strict=True)
    ]
    assert found.moves.to_pylist() == [
        {name: names[row["run"] - 1] if name == "run" else row[name] for name in columns.MOVES.names}
        for row in rows(tmp_path, "SELECT * FROM clock_moves")
    ]
    times = [row["delivered_us"] for row in expected(tmp_path)]
    assert found.delivered_us == (min(times), max(times))


def test_ranges_cover_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeStore(tmp_path)
    with closing(sqlite3.connect(made.database)) as connection, connection:
        made.deliver(1)
        connection.execute("CREATE TEMP TABLE one AS SELECT * FROM deliveries")
        for offset in range(3, 90, 3):
            connection.execute("UPDATE one SET delivered_offset = ?", (offset,))
            connection.execute("INSERT INTO deliveries SELECT * FROM one")
    offsets = [1, *range(3, 90, 3)]
    monkeypatch.setattr("mocketmq_report.ledger.store_reader.BATCH_ROWS", 4)
    for size, count in ((1, 30), (4, 8), (7, 5), (10, 3), (29, 2), (30, 1), (31, 1)):
        monkeypatch.setattr(store_snapshot, "RANGE_ROWS", size)
        found = look(tmp_path)
        assert len(found.ranges) == len(found.rows_of_ranges) == count
        assert (sum(found.rows_of_ranges), max(found.rows_of_ranges)) == (30, min(size, 30))
        assert [row["delivered_offset"] for row in delivered(tmp_path)] == offsets


def test_a_column_with_leading_nulls_is_read_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocketmq_report.ledger.store_reader.BATCH_ROWS", 2)
    made = MadeStore(tmp_path)
    groups = [None, None, None, "billing", None]
    for number, group in enumerate(groups):
        made.deliver(number, pulled_by=group, pulled_us=group and START_US, forced=number % 2)
    found = delivered(tmp_path)
    assert [(row["pulled_by"], row["pulled_us"]) for row in found] == [(g, g and START_US) for g in groups]
    assert [row["forced"] for row in found] == [False, True, False, True, False]


def test_later_rows_are_excluded(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    made.park(0)
    made.deliver(1, 5)
    ledger = sources.read([str(tmp_path)]).ledger
    made.deliver(2, 0)
    made.pass_to(1, 1)
    found = [(row["state"], row["parked_offset"]) for row in rows_of(ledger)]
    assert sorted(found) == [("delivered", 5), ("pending", 0)]


def test_empty_ledger_is_valid(tmp_path: Path) -> None:
    MadeStore(tmp_path)
    ledger = sources.read([str(tmp_path)]).ledger
    assert (rows_of(ledger), ledger.runs.num_rows, ledger.moves.num_rows) == ([], 1, 0)


def test_a_database_with_another_name_is_read_alone(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    (tmp_path / "delay").write_text("no directory")
    copy = tmp_path / "what is this? 100%#.db"
    copy.write_bytes(made.database.read_bytes())
    found = look(copy)
    assert (found.database, found.name) == (copy, STORE)
    assert found.runs["source"].to_pylist() == [str(copy)]
    assert look(made.database).runs["source"].to_pylist() == [str(made.database)]


# Reading changes nothing


def listing(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.iterdir()}


def test_reading_a_stopped_store_leaves_nothing_behind(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    made.deliver(1)
    before = listing(tmp_path)
    assert list(before) == [FILE_NAME]
    assert len(delivered(tmp_path)) == 1
    assert listing(tmp_path) == before


def test_rows_in_the_write_ahead_log_are_read_and_stay_there(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    with closing(sqlite3.connect(made.database)) as holder:
        holder.execute("SELECT * FROM runs").fetchall()  # keeps the log
        made.deliver(1)
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in (FILE_NAME, f"{FILE_NAME}-wal"):
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    before = listing(copy)
    assert len(delivered(copy)) == 1
    assert {name: listing(copy)[name] for name in before} == before


def test_reader_sees_one_snapshot(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    with closing(sqlite3.connect(made.database)) as holder:
        holder.execute("SELECT * FROM runs").fetchall()  # keeps the log
        made.deliver(1)
        with StoreReader(made.database) as reader:
            assert reader.table("SELECT * FROM deliveries").num_rows == 1
            made.deliver(2)
            made.run("PRAGMA wal_checkpoint(PASSIVE)")
            assert reader.table("SELECT * FROM deliveries").num_rows == 1
        assert len(delivered(tmp_path)) == 2


def test_a_store_is_refused_if_a_broker_starts_on_it_meanwhile(tmp_path: Path) -> None:
    made = MadeStore(tmp_path)
    with StoreReader(made.database) as reader:
        answer = reader.batches("SELECT * FROM runs")
        next(answer)
        os.utime(made.database, ns=(0, 0))
        with pytest.raises(
            StoreUnavailableError,
            match="try again",
        ):
            list(answer)


# The instant of the ledger


def as_of_us(data: Path) -> int:
    """Return the instant against which messages of a store are overdue."""
    first, *others = set(look(data).runs["as_of_us"].to_pylist())
    assert others == []
    return int(first)


def test_ledger_is_as_of_its_latest_stored_instant(tmp_path: Path) -> None:
    made = MadeStore(tmp_path, runs=2)
    start_us = START_US + 3600 * S
    assert as_of_us(tmp_path) == start_us
    made.put("clock_moves", run=2, wall_us=1, from_us=2, to_us=start_us + 1)
    assert as_of_us(tmp_path) == start_us + 1
    made.park(5, store_us=start_us + 2, due_us=start_us + 1000)
    assert as_of_us(tmp_path) == start_us + 2
    made.park(6, store_us=start_us, queue_offset=1)
    made.deliver(9, delivered_us=start_us + 3)
    assert as_of_us(tmp_path) == start_us + 3
    made.intervene(5, at_us=start_us + 4)
    assert as_of_us(tmp_path) == start_us + 4
    assert look(tmp_path, as_of_us=7).runs["as_of_us"].to_pylist() == [7, 7]


def test_ledger_of_a_running_broker_is_as_of_its_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = MadeStore(tmp_path, runs=2)
    start_us = START_US + 3600 * S
    monkeypatch.setattr(store_snapshot, "wall_us", lambda: start_us + 60 * S)

    def set_clock(mode: str) -> None:
        made.run("UPDATE runs SET clock = iif(run = 2, ?, 'x99')", mode)

    with closing(sqlite3.connect(made.database)) as holder:
        holder.execute("SELECT * FROM runs").fetchall()  # keeps the log
        set_clock("real")
        assert as_of_us(tmp_path) == start_us  # no lock
        DirectoryLock(tmp_path).close()
        assert as_of_us(tmp_path) == start_us  # the broker was killed
        with closing(DirectoryLock(tmp_path)):
            assert as_of_us(tmp_path) == start_us + 60 * S
            set_clock("x10")
            assert as_of_us(tmp_path) == start_us + 600 * S
            set_clock("manual")
            assert as_of_us(tmp_path) == start_us
            for second in (40, 50):
                made.put(
                    "clock_moves",
                    run=2,
                    wall_us=start_us + second * S,
                    from_us=start_us,
                    to_us=start_us + second * 100 * S,
                )
            assert as_of_us(tmp_path) == start_us + 5000 * S
            set_clock("x10")
            assert as_of_us(tmp_path) == start_us + 5100 * S
            made.intervene(1, at_us=start_us + 5101 * S)
            assert as_of_us(tmp_path) == start_us + 5101 * S  # never before the last stored time


def test_a_broker_without_a_log_is_not_asked_for_its_lock(tmp_path: Path) -> None:
    MadeStore(tmp_path).run("UPDATE runs SET clock = 'real'")
    with closing(DirectoryLock(tmp_path)):
        assert look(tmp_path).runs["as_of_us"].to_pylist() == [START_US]


# Damage


def cut(data: Path, size: int) -> None:
    with (data / FILE_NAME).open("r+b") as file:
        file.truncate(size if size > 0 else (data / FILE_NAME).stat().st_size + size)


def spoil(data: Path, table: str) -> None:
    """Write zeros over the pages of a table, after the header of the file."""
    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
        [(size,)] = connection.execute("PRAGMA page_size")
    with (data / FILE_NAME).open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(bytes(size))


def log_of_nonsense(data: Path) -> None:
    (data / f"{FILE_NAME}-wal").write_bytes(b"x" * 100)


def sql(statement: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with closing(sqlite3.connect(data / FILE_NAME)) as connection, connection:
            connection.execute(statement)

    return change


def content(data: bytes) -> Callable[[Path], object]:
    return lambda directory: (directory / FILE_NAME).write_bytes(data)


NO_STORE = "a store is the file mocketmq.db in the data directory of a broker"
SCHEMA = "UPDATE alembic_version SET version_num = '{}'"
READS = f"this version of mocketmq reads {OLDEST_REVISION} to {HEAD_REVISION}"
OLDER = "start a broker of this version on it once, which brings it up to date"
NEWER = "read it with the newer version of mocketmq that wrote it"
SPOILT = " is damaged: SQLite finds it malformed; restore it from a copy"
STRANGE = " is damaged: it has rows of a run that is not among its runs; restore it from a copy"


@pytest.mark.parametrize(
    ("breaks", "sentence"),
    [
        (content(b""), f" is empty: {NO_STORE}"),
        (content(b"hello" * 1000), f" is not a database: {NO_STORE}"),
        (
            sql("DROP TABLE alembic_version"),
            " is a database of another program, it has a table 'clock_moves': ",
        ),
        (sql("DROP TABLE runs"), " is damaged: it has no table runs"),
        (sql("DROP TABLE timed_messages"), " is damaged: it has no table timed_messages"),
        (sql("DELETE FROM runs"), " has no runs: no broker was ever started on it"),
        (sql(SCHEMA.format("0001")), f" has the schema 0001, {READS}: {OLDER}"),
        (sql(SCHEMA.format("9999")), f" has the schema 9999, {READS}: {NEWER}"),
        (sql("DELETE FROM alembic_version"), " has the schema of no version, this version of mocketmq reads"),
        (sql("UPDATE deliveries SET run = 7"), STRANGE),
        (sql("INSERT INTO clock_moves VALUES (1, 8, 0, 0, 0)"), STRANGE),
        (lambda data: cut(data, 5000), " is truncated: of [0-9,]+ bytes, 5,000 are there; restore it from a"),
        (lambda data: cut(data, -1), " is truncated: of [0-9,]+ bytes, [0-9,]+ are there; restore it from a"),
        (lambda data: spoil(data, "deliveries"), SPOILT),
        (lambda data: spoil(data, "messages_by_queue"), SPOILT),
        (log_of_nonsense, "-wal has a broken header, so what was stored last cannot be read"),
        (
            lambda data: (data / FILE_NAME).unlink(),
            f"THERE is not a data directory: there is no {FILE_NAME} in",
        ),
    ],
)
def test_broken_stores_are_reported(tmp_path: Path, breaks: Callable[[Path], object], sentence: str) -> None:
    made = MadeStore(tmp_path)
    made.deliver(1)
    breaks(tmp_path)
    where = str(tmp_path) if sentence.startswith("THERE") else str(made.database)
    with pytest.raises(StoreUnreadableError, match=where + sentence.removeprefix("THERE")):
        delivered(tmp_path)


def test_unreadable_stores_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreUnavailableError, match=r"nowhere .*No such file or directory"):
        look(tmp_path / "nowhere")
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(StoreUnavailableError, match=f"{FILE_NAME} .*Is a directory"):
        look(tmp_path)
    made = MadeStore(tmp_path / "data")
    monkeypatch.setattr(
        "mocketmq_report.ledger.store_reader.quote", lambda _: "/nowhere/at/all"
    )  # SQLite's own words
    with pytest.raises(StoreUnavailableError, match=str(made.database)):
        look(tmp_path / "data")


def test_broken_ledger_error_names_the_ledger(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"")
    with pytest.raises(BrokenLedgerError, match=f"{tmp_path}: {tmp_path}/{FILE_NAME} is empty"):
        sources.read([str(tmp_path)])
