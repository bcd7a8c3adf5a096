"""Damaged, empty, mixed or nonsensical data gives a clear error, and good data next to it is read."""

import csv
import gzip
import io
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mocketmq.errors import RefusedError
from mocketmq_report.document import BrokenSource, Drop
from mocketmq_report.ledger import quality, sources
from mocketmq_report.ledger.ledger import BrokenLedgerError
from tests.support.ledger_rows import quality_of, rows_of
from tests.support.ledgers import DAY_US, START_US, write_parquet, write_store

DOC = Path(__file__).parents[3] / "docs" / "ledger-format.md"
LEAST = "message_id,due_us,delivered_us\n"


def reasons(broken: list[BrokenSource]) -> dict[str, str]:
    return {Path(each.source).name: each.reason for each in broken}


@pytest.mark.parametrize("runs", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_broken_source_does_not_hide_others(tmp_path: Path, runs: int) -> None:
    write_store(tmp_path / "s", 50)
    for n in range(runs):
        (tmp_path / f"n{n}.csv").write_text(f"{LEAST}m{n},5,6\n")
    (tmp_path / "n4.csv").write_text("id,due,late\n")
    reading = sources.read([str(tmp_path)])
    assert list(reasons(reading.broken)) == ["n4.csv"]
    assert reading.broken[0].reason.startswith("it has no column message_id; found: id, due, late; needed:")
    assert reading.ledger.runs.num_rows == runs
    assert sum(row["run"].startswith("n") for row in rows_of(reading.ledger)) == runs - 1


def test_damaged_sources_are_named_and_others_are_read(tmp_path: Path) -> None:
    write_store(tmp_path / "good", 500)
    shutil.copytree(tmp_path / "good", tmp_path / "cut")
    with (tmp_path / "cut" / "mocketmq.db").open("r+b") as file:
        file.truncate(50_000)
    for n, name in enumerate(("e0", "e1", "e2", "e3", "e4")):
        write_parquet(tmp_path / name, 50, start_us=START_US + (n + 1) * DAY_US)
    (part,) = (tmp_path / "e0").glob("deliveries/day=2026-11-02/*/*.parquet")
    part.write_bytes(part.read_bytes()[:1_000])
    (part,) = (tmp_path / "e1").glob("deliveries/day=2026-11-03/*/*.parquet")
    pq.write_table(pq.read_table(part, partitioning=None).drop_columns(["due_us", "state"]), part)
    shutil.rmtree(tmp_path / "e2" / "runs")
    next((tmp_path / "e3" / "runs").iterdir()).unlink()
    packed = gzip.compress((LEAST + "".join(f"m{n * n},5,6\n" for n in range(20_000))).encode())
    (tmp_path / "packed.csv.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "whole.csv.gz").write_bytes(packed)
    reading = sources.read([str(tmp_path)])
    found = reasons(reading.broken)
    assert set(found) == {"cut", "e0", "e1", "e2", "e3", "packed.csv.gz"}
    assert re.fullmatch(
        r".*/cut/mocketmq.db is truncated: of [\d,]+ bytes, 50,000 are there; .*", found["cut"]
    )
    assert re.fullmatch("part-0.parquet: it is damaged, or no Parquet file: .+", found["e0"])
    assert found["e1"] == "part-0.parquet has no column due_us, state"
    assert found["e2"] == "the export has no folder runs"
    assert found["e3"] == "the folder runs of an export is empty"
    assert found["packed.csv.gz"].startswith("it cannot be read: ")
    assert "\n" not in found["packed.csv.gz"]
    read = {Path(row["source"]).name for row in reading.ledger.runs.to_pylist()}
    assert read == {"good", "e4", "whole.csv.gz"}
    judged = quality_of(reading.ledger)
    assert judged.kept == judged.read > 20_500


def test_a_truncated_store_is_reported_in_a_sentence(tmp_path: Path) -> None:
    write_store(tmp_path, 500)
    with (tmp_path / "mocketmq.db").open("r+b") as file:
        file.truncate(50_000)
    with pytest.raises(BrokenLedgerError, match=" is truncated: "):
        sources.read([str(tmp_path)])


def test_empty_ledgers_are_read(tmp_path: Path) -> None:
    write_store(tmp_path / "s", 0)
    write_parquet(tmp_path / "e", 0, start_us=START_US + DAY_US)
    (tmp_path / "x.csv").write_text(LEAST)
    for data, runs in ((tmp_path, 3), (tmp_path / "s", 1), (tmp_path / "e", 1), (tmp_path / "x.csv", 1)):
        reading = sources.read([str(data)])
        judged = quality_of(reading.ledger)
        assert (reading.ledger.runs.num_rows, judged.read, reading.broken) == (runs, 0, [])
        quality.check(judged)


def test_mixed_versions_are_named(tmp_path: Path) -> None:
    for n, version in enumerate(("0.2.0", "0.1.0", "0.2.0")):
        write_store(tmp_path / str(n), 10, version=version, start_us=START_US + n * DAY_US)
    reading = sources.read([str(tmp_path)])
    assert reading.warnings == ["the runs are of different versions: 0.1.0 (1), 0.2.0 (2)"]


def test_negative_and_missing_times_are_dropped_and_too_many_refused(tmp_path: Path) -> None:
    bad = ["A,-5,6", "B,,6", ",5,6", "C,5,-6", "D,soon,6", "E,5,300000000000000000", "F,5"]
    (tmp_path / "x.csv").write_text(LEAST + "".join(f"m{n},5,6\n" for n in range(93)) + "\n".join(bad))
    judged = quality_of(sources.read([str(tmp_path / "x.csv")]).ledger)
    assert (judged.read, judged.kept) == (100, 93)
    assert judged.dropped == [
        Drop(reason=reason, rows=1)
        for reason in (
            "delivered_us is beyond the year 9999",
            "delivered_us is negative",
            "due_us is negative",
            "due_us is not a whole number of 64 bits",
            "more or fewer values than columns",
            "no due_us",
            "no message_id",
        )
    ]
    quality.check(judged, 0.07)
    with pytest.raises(RefusedError, match=r"^7 of 100 rows \(7.00%\) .*1%"):
        quality.check(judged)


def test_documented_example_is_read_as_described(tmp_path: Path) -> None:
    text = DOC.read_text()
    example = re.search(r"```csv\n(.+?)```", text, re.DOTALL)
    assert example
    (tmp_path / "orders.csv").write_text(example[1])
    reading = sources.read([str(tmp_path / "orders.csv")])
    assert (reading.broken, reading.warnings) == ([], [])
    assert quality_of(reading.ledger).kept == len(list(csv.DictReader(io.StringIO(example[1])))) == 4
    rows = [
        (
            *(row[name] for name in ("message_id", "state", "scheme", "topic")),
            row["delivered_us"] and row["delivered_us"] - row["due_us"],
            row["run"],
        )
        for row in rows_of(reading.ledger)
    ]
    assert sorted(rows) == [
        ("A1", "delivered", "levels", "orders", 310, "orders"),
        ("A2", "delivered", "levels", "orders", 2_750, "orders"),
        ("A3", "delivered", "absolute", "payments", 120_000, "orders"),
        ("A4", "pending", "levels", "orders", None, "orders"),
    ]
    assert reading.ledger.runs["as_of_us"][0].as_py() < 1_795_219_210_000_000
