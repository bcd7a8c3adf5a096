"""Stores, exports, files and folders are read as one ledger."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.ledger import sources
from mocketmq_report.ledger.columns import MOVES, OPTIONAL, RUNS
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.sources import LedgerReading
from mocketmq_report.progress import ignore_progress
from tests.support.ledger_rows import rows_of
from tests.support.ledgers import DAY_US, START_US, run_name, write_parquet, write_store

ROWS = 200
LEAST = "message_id,due_us,delivered_us\n"


def counts(reading: LedgerReading) -> dict[str, int]:
    return dict(Counter(row["run"] for row in rows_of(reading.ledger)))


def runs(reading: LedgerReading) -> dict[str, dict[str, Any]]:
    rows = reading.ledger.runs.to_pylist()
    found = {row["run"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_export_survives_a_round_trip(spark: SparkSession, tmp_path: Path) -> None:
    shape = write_parquet(tmp_path / "e[1]", ROWS, days=2, runs=3)
    move = {"run": run_name(shape.start_us), "wall_us": 1, "from_us": 2, "to_us": 3}
    pq.write_table(
        pa.Table.from_pylist([move]), tmp_path / "e[1]" / "moves" / f"{run_name(shape.start_us)}.parquet"
    )
    reading = sources.read([str(tmp_path / "e[1]")], lambda: spark)
    read = reading.ledger
    assert (reading.broken, reading.warnings) == ([], [])
    assert (read.runs.schema, read.moves.schema) == (RUNS, MOVES)
    written = [
        row | dict.fromkeys(OPTIONAL) | {"run": path.parent.name.removeprefix("run=")}
        for path in (tmp_path / "e[1]").glob("deliveries/*/*/*.parquet")
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    found = rows_of(read)
    key = "parked_offset", "attempt", "delivered_us"
    assert len(found) == ROWS

    def order(row: dict[str, Any]) -> list[str]:
        return [str(row[name]) for name in key]

    assert sorted(found, key=order) == sorted(written, key=order)
    assert read.moves.to_pylist() == [move]
    assert list(runs(reading)) == [run_name(us) for us in shape.starts_us]
    first = runs(reading)[run_name(shape.start_us)]
    assert (first["source"], first["as_of_us"]) == (str(tmp_path / "e[1]"), shape.end_us)


def test_a_run_missing_from_an_export_is_shown_by_name(tmp_path: Path) -> None:
    write_parquet(tmp_path, ROWS)
    write_parquet(tmp_path, ROWS, start_us=START_US + DAY_US)
    first, second = run_name(START_US), run_name(START_US + DAY_US)
    (tmp_path / "runs" / f"{second}.parquet").unlink()
    report = run(ReportRunner(None), Job([str(tmp_path)]), ignore_progress)
    assert {each.run: (each.clock, each.as_of_us is None) for each in report.header.runs} == {
        first: ("real", False),
        second: ("unknown", True),
    }
    assert all(each.deliveries > ROWS * 0.9 for each in report.header.runs)


def test_sources_of_every_kind_form_one_ledger(spark: SparkSession, tmp_path: Path) -> None:
    for n in range(3):
        write_parquet(tmp_path / "nightly" / f"e{n}", ROWS, start_us=START_US + n * DAY_US)
        write_store(tmp_path / "nightly" / "s" / f"s{n}", ROWS, start_us=START_US + (3 + n) * DAY_US)
    (tmp_path / "nightly" / "mine.csv").write_text(f"{LEAST}A,5,6\n")
    (tmp_path / "nightly" / "README").write_text("about these")
    reading = sources.read([str(tmp_path / "nightly")], lambda: spark)
    names = [run_name(START_US + n * DAY_US) for n in range(6)]
    assert set(runs(reading)) == {*names, "mine"}
    found = counts(reading)
    assert [found[name] for name in names[:3]] == [ROWS] * 3
    assert all(ROWS * 0.9 < found[name] < ROWS for name in names[3:])
    assert found["mine"] == 1
    assert (reading.broken, reading.warnings) == ([], [])
    one_by_one = [
        tmp_path / "nightly" / name for name in ("e0", "e1", "e2", "s/s0", "s/s1/mocketmq.db", "s/s2")
    ]
    data = [*map(str, one_by_one), (tmp_path / "nightly").as_uri(), f"{tmp_path}/nightly/s/../mine.csv"]
    again = sources.read(data, lambda: spark)
    assert counts(again) == found


def test_duplicate_run_is_read_from_the_fuller_source(spark: SparkSession, tmp_path: Path) -> None:
    old, new, store = tmp_path / "old", tmp_path / "new", tmp_path / "store"
    write_parquet(old, ROWS, days=1, runs=2)
    write_parquet(new, ROWS * 2, days=3, runs=3)  # its first run continues the run of the other two
    write_store(store, ROWS, days=1, runs=2)
    reading = sources.read([str(old), str(new), str(store)], lambda: spark)
    first, half = run_name(START_US), run_name(START_US + DAY_US // 2)
    found = counts(reading)
    alone = counts(sources.read([str(new)], lambda: spark))
    assert {name: found[name] for name in alone} == alone
    assert set(found) - set(alone) == {half}
    assert found[half] == counts(sources.read([str(old)], lambda: spark))[half]
    assert runs(reading)[first]["source"] == str(new)
    assert reading.warnings == [
        f"1 of the 2 runs of {old} are also in {new}, and are counted there only",
        f"2 of the 2 runs of {store} are also in {new}, {old}, and are counted there only",
    ]


def test_runs_of_files_are_derived_from_their_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x.csv").write_text(f"{LEAST}A,90,95\nB,200,\nC,10,999999999999999999\n")
    (tmp_path / "b" / "x.csv").write_text(f"{LEAST}A,5,6\n")
    (tmp_path / "b" / "empty.csv").write_text(LEAST)
    (tmp_path / "b" / "y.csv").write_text(
        "message_id,due_us,delivered_us,acked_us,run,version,clock,host,profile\n"
        "A,5,6,8,r1,5.3.2,real,lab,rocket\nB,5,7,,r1,,,,\nC,5,,,r2,5.3.1,x10,,\n"
    )
    reading = sources.read([str(tmp_path)], lambda: spark)
    assert counts(reading) == {"a/x.csv": 3, "b/x.csv": 1, "r1": 2, "r2": 1}
    unknown = dict.fromkeys(RUNS.names, "unknown") | dict.fromkeys(
        ("started_wall_us", "started_us", "as_of_us")
    )
    of_y = {"source": str(tmp_path / "b" / "y.csv")}
    assert runs(reading) == {
        "a/x.csv": unknown
        | {"run": "a/x.csv", "store": "a/x.csv", "source": str(tmp_path / "a" / "x.csv"), "as_of_us": 95},
        "b/x.csv": unknown
        | {"run": "b/x.csv", "store": "b/x.csv", "source": str(tmp_path / "b" / "x.csv"), "as_of_us": 6},
        "empty": unknown | {"run": "empty", "store": "empty", "source": str(tmp_path / "b" / "empty.csv")},
        "r1": unknown
        | {
            "run": "r1",
            "store": "r1",
            "version": "5.3.2",
            "host": "lab",
            "profile": "rocket",
            "clock": "real",
        }
        | {"as_of_us": 8}
        | of_y,
        "r2": unknown | {"run": "r2", "store": "r2", "version": "5.3.1", "clock": "x10"} | of_y,
    }
    assert reading.warnings == ["the runs are of different versions: 5.3.1 (1), 5.3.2 (1)"]
    assert reading.ledger.moves.num_rows == 0
    at = sources.read([str(tmp_path)], lambda: spark, as_of_us=150)
    assert {run["as_of_us"] for run in runs(at).values()} == {150}


def test_ignored_columns_are_named_once(spark: SparkSession, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text(f"colour,{LEAST.strip()},late\n1,A,5,6,1\n")
    (tmp_path / "d.csv").write_text(f"colour,{LEAST}1,A,5,6\n")
    reading = sources.read([str(tmp_path)], lambda: spark)
    assert reading.warnings == [
        f"{tmp_path}/a.csv and 2 more: ignored colour, late",
        f"{tmp_path}/d.csv: ignored colour",
    ]


def test_the_as_of_time_considers_stores_too(spark: SparkSession, tmp_path: Path) -> None:
    write_store(tmp_path / "s", ROWS)
    write_parquet(tmp_path / "e", ROWS, start_us=START_US - DAY_US)
    at_us = START_US + 5 * DAY_US
    reading = sources.read([str(tmp_path)], lambda: spark, as_of_us=at_us)
    assert [run["as_of_us"] for run in runs(reading).values()] == [at_us] * 2


ALLOWED = (
    "allowed are a data directory of mocketmq, what mocketmq export wrote, a file with the columns of"
    " docs/ledger-format.md (CSV (.csv), JSON lines (.jsonl, .ndjson) and Parquet (.parquet), the texts also"
    " compressed), and a folder of these"
)


def test_unreadable_sources_are_all_reported(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(BrokenLedgerError) as broken:
        data = [str(tmp_path / name) for name in ("none", "empty", "notes.txt")]
        sources.read([*data, "nowhere://x/y", "nowhere:x"], lambda: spark)
    assert str(broken.value) == (
        f"there is nothing that can be read: {tmp_path}/none: it cannot be read: No such file or"
        f" directory; {tmp_path}/empty: there is no ledger in it: {ALLOWED};"
        f" {tmp_path}/notes.txt: there is no ledger in it: {ALLOWED}; nowhere://x/y: it cannot be read:"
        ' No FileSystem for scheme "nowhere"; nowhere:x: it cannot be read:'
        " No such file or directory"
    )
