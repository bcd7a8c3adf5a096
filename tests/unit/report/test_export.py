"""Exports: where rows go, which files are replaced, and what a kill leaves."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from mocketmq.errors import StoreError, StoreUnavailableError, StoreUnreadableError
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_report.ledger import columns, export, store_snapshot
from mocketmq_report.ledger.export import Exported
from mocketmq_report.progress import ignore_progress
from tests.support.brokers import S
from tests.support.delayed_files import made
from tests.support.stores import START_US, STORE, MadeStore, leave_store

DAY_US = 86_400 * S
SECOND = "20261101T010000.000000Z"
"""Name of the second run of a made store."""


def write(data: Path, out: Path) -> Exported:
    return export.export(data, out, ignore_progress)


def files(out: Path) -> list[str]:
    """Return every file of a folder, even hidden files."""
    return sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())


def offsets(out: Path) -> dict[str, list[int | None]]:
    """Return the delivery numbers in each file, in order."""
    found = {}
    for path in sorted((out / "deliveries").rglob("*.parquet")):
        numbers = pq.ParquetFile(path).read(["delivered_offset"])["delivered_offset"]
        found[str(path.relative_to(out / "deliveries"))] = numbers.to_pylist()
    return found


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """Return all rows that a reader finds in a folder."""
    rows: list[dict[str, Any]] = ds.dataset(out / name, partitioning="hive").to_table().to_pylist()
    return rows


def two_days(data: Path) -> MadeStore:
    """Create a store with deliveries 1 to 6 over two days and runs, and one pending message."""
    made_store = MadeStore(data, runs=2)
    for number in range(1, 7):
        due_us = START_US + (DAY_US if number in (3, 5, 6) else 10)
        made_store.deliver(number, 100 + number, due_us=due_us, run=1 if number < 5 else 2)
    made_store.park(50, due_us=START_US + DAY_US)
    return made_store


def test_rows_are_by_day_and_run_in_order_of_delivery(tmp_path: Path) -> None:
    two_days(tmp_path / "data")
    out = tmp_path / "deep" / "out"
    done = write(tmp_path / "data", out)
    assert offsets(out) == {
        f"day=2026-11-01/run={STORE}/part-00000.parquet": [1, 2, 4],
        f"day=2026-11-02/run={STORE}/part-00000.parquet": [3],
        f"day=2026-11-02/run={SECOND}/part-00000.parquet": [5, 6, None],
    }
    assert files(out) == [
        *(f"deliveries/{name}" for name in offsets(out)),
        f"moves/{STORE}.parquet",
        f"runs/{STORE}.parquet",
    ]
    assert done == Exported(7, 2, sum((out / name).stat().st_size for name in files(out)), 5)


def test_long_numbers_are_differences_and_other_columns_codes(tmp_path: Path) -> None:
    two_days(tmp_path / "data")
    write(tmp_path / "data", tmp_path / "out")
    for path in (tmp_path / "out" / "deliveries").rglob("*.parquet"):
        group = pq.read_metadata(path).row_group(0)
        found = {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}
        for name, each in found.items():
            is_long = name.endswith(("_us", "_offset"))
            assert ("DELTA_BINARY_PACKED" in each.encodings) is is_long, name
            is_coded = not is_long and name not in ("message_id", "forced")
            assert each.has_dictionary_page is is_coded, name


async def test_an_export_has_the_rows_of_the_store(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    await leave_store(data)
    done = write(data, out)
    found = store_snapshot.take_snapshot(data, ignore_progress)
    expected = [
        row
        for span in found.ranges
        for batch in store_snapshot.read(found.database, found.names, span)
        for row in batch.to_pylist()
    ] + found.undelivered.to_pylist()
    read = [{name: row[name] for name in columns.DELIVERIES.names} for row in table(out, "deliveries")]
    assert sorted(read, key=str) == sorted(expected, key=str)
    assert done.rows == len(expected) == 10
    assert pq.read_table(out / "runs").equals(found.runs)
    assert pq.read_table(out / "moves").equals(found.moves)
    [first, *_] = (out / "deliveries").rglob("*.parquet")
    file = pq.ParquetFile(first)
    assert file.schema_arrow.names == [name for name in columns.DELIVERIES.names if name != "run"]
    assert file.schema_arrow.field("level").type == "int32"
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_an_empty_ledger_has_runs_and_no_deliveries(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data")
    out = tmp_path / "out"
    assert write(tmp_path / "data", out)[:2] == (0, 1)
    assert files(out) == [f"moves/{STORE}.parquet", f"runs/{STORE}.parquet"]
    assert (out / "deliveries").is_dir()
    assert [row["run"] for row in table(out, "runs")] == [STORE]


def test_due_times_after_the_last_day_are_on_that_day(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data")
    for number, due_ms in enumerate([9 * 10**14, 253_402_300_799_999, 0], start=1):
        made(f"K{number}", number=number, due_ms=due_ms).put(tmp_path / "data" / FOLDER)
    write(tmp_path / "data", tmp_path / "out")
    assert {row["message_id"]: str(row["day"]) for row in table(tmp_path / "out", "deliveries")} == {
        "K1": "9999-12-31",
        "K2": "9999-12-31",
        "K3": "1970-01-01",
    }


def test_memory_and_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "GROUP_ROWS", 4)
    monkeypatch.setattr(export, "OPEN_FILES", 1)
    monkeypatch.setattr("mocketmq_report.ledger.store_reader.BATCH_ROWS", 1)
    data, out = tmp_path / "data", tmp_path / "out"
    made_store = MadeStore(data)
    days = [0, 0, 1, 0, 1, 1, 1, 0, 0, 1, 0]
    for number, day in enumerate(days):
        made_store.deliver(number, due_us=START_US + day * DAY_US)
    assert write(data, out).rows == len(days)
    # Whenever four rows are buffered, the rows of the day with the most are written.
    assert offsets(out) == {
        f"day=2026-11-01/run={STORE}/part-00000.parquet": [0, 1, 3],
        f"day=2026-11-01/run={STORE}/part-00001.parquet": [7, 8, 10],
        f"day=2026-11-02/run={STORE}/part-00000.parquet": [2, 4, 5, 6],
        f"day=2026-11-02/run={STORE}/part-00001.parquet": [9],
    }
    monkeypatch.setattr(export, "OPEN_FILES", 2)
    write(data, out)
    assert list(offsets(out).values()) == [[0, 1, 3, 7, 8, 10], [2, 4, 5, 6, 9]]
    [first, _] = sorted((out / "deliveries").rglob("*.parquet"))
    file = pq.ParquetFile(first)
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [3, 3]


# Repeated exports


def test_exporting_again_replaces_the_files_of_that_store(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = two_days(tmp_path / "first")
    other = MadeStore(tmp_path / "other")
    other.run("UPDATE runs SET started_wall_us = started_wall_us + 1")
    other.deliver(7)
    write(other.data, out)
    others = files(out)
    write(first.data, out)
    assert len(files(out)) == len(others) + 5
    first.run("DELETE FROM deliveries WHERE delivered_offset IN (3, 5, 6)")
    first.run("DELETE FROM messages")
    first.deliver(8, due_us=START_US)
    assert write(first.data, out)[:2] == (4, 2)
    day = "day=2026-11-01"
    assert offsets(out) == {
        f"{day}/run={STORE}/part-00000.parquet": [1, 2, 4, 8],
        f"{day}/run={STORE[:-2]}1Z/part-00000.parquet": [7],
    }
    assert not (out / "deliveries" / "day=2026-11-02").exists()
    assert set(others) < set(files(out))
    assert sorted(row["store"] for row in table(out, "runs")) == [STORE, STORE, f"{STORE[:-2]}1Z"]
    assert write(first.data, out) == write(first.data, out)


class KilledError(BaseException):
    """Simulates a kill in the middle of an export."""


def test_export_has_a_file_of_requests_hit_by_faults(tmp_path: Path) -> None:
    store, out = two_days(tmp_path / "data"), tmp_path / "out"
    hit = "INSERT INTO fault_hits (at_us, fault, do, door, operation, topic, group_name, to_us) VALUES "
    store.run(f"{hit} (1, 'busy', 'refuse', 'http', 'receive', 'orders', 'g', NULL)")
    store.run(f"{hit} (2, 'gone', 'broker-away', '', 'every request', NULL, NULL, 7)")
    store.run(f"{hit} (3, 'busy', 'refuse', 'http', 'send', 'orders', NULL, NULL)")
    write(store.data, out)
    rows = {row["fault"]: row for row in table(out, "faults")}
    assert rows["busy"] == {
        **{"store": STORE, "at_us": 1, "to_us": None, "fault": "busy", "do": "refuse"},
        **{"operation": "receive", "topic": "orders", "group": "g"},
    }
    assert (len(rows), rows["gone"]["to_us"], rows["gone"]["topic"]) == (2, 7, None)
    store.run("DELETE FROM fault_hits")
    write(store.data, out)
    assert not list((out / "faults").iterdir())


def test_kill_while_writing_keeps_the_last_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_store, out = two_days(tmp_path / "data"), tmp_path / "out"
    write(made_store.data, out)
    before = files(out)
    made_store.deliver(9)
    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # nothing tidies up after a kill

    def kill(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(export, "_move", kill)
        write(made_store.data, out)
    left = [name for name in files(out) if name not in before]
    assert len(left) == 5
    assert all(name.startswith(f".{STORE}.part/") for name in left)
    assert len(table(out, "deliveries")) == 7
    assert len(table(out, "runs")) == 2
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    write(made_store.data, out)
    assert files(out) == before
    assert len(table(out, "deliveries")) == 8


@pytest.mark.parametrize("moved", range(5))
def test_kill_while_moving_is_detected_and_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    made_store, out = two_days(tmp_path / "data"), tmp_path / "out"
    write(made_store.data, out)
    made_store.deliver(9, due_us=START_US)
    left, rename, replace = moved, Path.rename, Path.replace

    def counted(path: Path, target: Path, move: Any) -> Path:
        nonlocal left
        if not left:
            raise KilledError
        left -= 1
        moved_to: Path = move(path, target)
        return moved_to

    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(Path, "rename", lambda path, target: counted(path, target, rename))
        patch.setattr(Path, "replace", lambda path, target: counted(path, target, replace))
        write(made_store.data, out)
    assert list((out / "runs").iterdir()) == []
    assert len(offsets(out)) == min(moved, 3)
    write(made_store.data, out)
    delivered = [row["delivered_offset"] for row in table(out, "deliveries")]
    assert sorted(filter(None, delivered)) == [1, 2, 3, 4, 5, 6, 9]
    assert len(table(out, "runs")) == 2


# Failures


def test_an_unwritable_folder_is_reported(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnavailableError, match=r"file/out.*Not a directory"):
        write(tmp_path / "data", tmp_path / "file" / "out")


def test_a_broken_store_is_reported_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_store, out = two_days(tmp_path / "data"), tmp_path / "out"
    write(made_store.data, out)
    before = files(out)

    def fail(*_: object) -> None:
        raise StoreUnavailableError("gone in between")

    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(export, "read", fail)
        write(made_store.data, out)
    assert files(out) == before
    made_store.run("DELETE FROM runs")
    with pytest.raises(StoreUnreadableError):
        write(made_store.data, out)
    assert files(out) == before


def test_progress_is_reported(tmp_path: Path) -> None:
    two_days(tmp_path / "data")
    told: list[tuple[str, int, int | None]] = []
    export.export(tmp_path / "data", tmp_path / "out", lambda *step: told.append(step))
    assert told == [
        ("looking at deliveries", 6, None),
        ("exporting deliveries", 0, 7),
        ("exporting deliveries", 6, 7),
    ]


def test_neither_spark_nor_java_is_needed(tmp_path: Path) -> None:
    MadeStore(tmp_path / "data").deliver(1)
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from pathlib import Path; from mocketmq_report.ledger.export import export\n"
        "print(export(Path(sys.argv[1]), Path(sys.argv[2]), lambda *_: None).rows)"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "data"), str(tmp_path / "out")]
    done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
