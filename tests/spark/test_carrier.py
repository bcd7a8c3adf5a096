"""Reports are the same whether Spark, Spark's own readers or this process carries the kernel to the data."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mocketmq.errors import EmulatorError
from mocketmq.store.database import FILE_NAME
from mocketmq_report.carrier import ExecutorError, SparkCarrier
from mocketmq_report.document import Report
from mocketmq_report.job import Job, ReportRunner, run
from mocketmq_report.ledger import external_files, places, sources
from mocketmq_report.ledger.columns import DELIVERIES
from mocketmq_report.ledger.ledger import Columns, Loaded
from mocketmq_report.ledger.spark_rows import SparkRows
from mocketmq_report.ledger.work import Work
from mocketmq_report.progress import ignore_progress
from tests.support.ledgers import Shape, write_parquet, write_store
from tests.support.spark import Running

BROKERS = ("broker-a", "broker-b")

WRITING = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1])
names = [row[1] for row in store.execute("PRAGMA table_info(deliveries)")]
later = [f"{name} + 1000000" if name in ("delivered_offset", "parked_offset") else name for name in names]
into = f"deliveries ({', '.join(names)})"
added = store.execute(f"INSERT INTO {into} SELECT {', '.join(later)} FROM deliveries")
assert added.rowcount > 1000
store.commit()
"""
"""A broker that continues to deliver."""


def figures(report: Report) -> bytes:
    """Return a report without its time and its producer."""
    report.header.created_wall_us, report.header.spark = 0, ""
    return msgspec.json.format(msgspec.json.encode(report))


def write_cluster(folder: Path, rows: int, **shape: Any) -> Shape:
    """Write a data directory whose last run had two brokers."""
    made = write_store(folder, rows, **shape)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute(f"UPDATE runs SET brokers = '{','.join(BROKERS)}' WHERE run = {made.runs}")
    return made


def write_csv(folder: Path, rows: int, **shape: Any) -> Shape:
    """Write an export, and separately its deliveries as an external file without the runs."""
    made = write_parquet(folder, rows, **shape)
    deliveries = pq.read_table(folder / "deliveries").drop_columns(["day", "run"])
    pa_csv.write_csv(deliveries, folder / "all.csv")
    shutil.rmtree(folder / "deliveries")
    return made


@pytest.mark.parametrize("write", [write_store, write_parquet, write_csv, write_cluster])
def test_a_quick_report_has_the_same_figures(
    spark: SparkSession, tmp_path: Path, write: Callable[..., Shape]
) -> None:
    write(tmp_path, 3_000, runs=2, days=2)
    by_spark = run(ReportRunner(Running(spark)), Job([str(tmp_path)]), ignore_progress)
    quick = run(ReportRunner(None), Job([str(tmp_path)]), ignore_progress)
    assert (by_spark.header.spark, quick.header.spark) == (spark.version, "none")
    assert by_spark.lateness[0].measured > 2_500
    brokers = [row.name for row in by_spark.lateness if row.dimension == "broker"]
    assert brokers == (list(BROKERS) if write is write_cluster else [])
    assert figures(by_spark) == figures(quick)


@pytest.mark.parametrize("has_text", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_data_read_only_by_spark_has_the_same_figures(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_text: bool
) -> None:
    for name, start in (("one", 0), ("two", 3)):
        write_parquet(tmp_path / name, 1_500, start_us=(1 + start) * 86_400_000_000, days=2)
    if has_text:
        (tmp_path / "mine.csv").write_text("message_id,due_us,delivered_us\nA,5,6\nB,5,x\nC,7,8\n")
    quick = run(ReportRunner(None), Job([str(tmp_path)]), ignore_progress)
    monkeypatch.setattr(places, "is_here", lambda _: False)  # as if the files were at a URL
    monkeypatch.setattr(places.DataLocation, "local", None)
    monkeypatch.setattr(external_files, "is_for_python", lambda _: False)
    job = Job([tmp_path.as_uri()], title=tmp_path.name)
    reading = sources.read(job.data, lambda: spark)
    assert [type(part) for part in reading.ledger.parts] == [SparkRows]
    found = run(ReportRunner(Running(spark)), job, ignore_progress)
    for each in found.header.runs:
        each.source = each.source.removeprefix("file:")
    assert figures(found) == figures(quick)


def test_paths_needing_spark_are_named_without_it(tmp_path: Path) -> None:
    write_store(tmp_path / "store", 50)
    (tmp_path / "mine.csv").write_text("message_id,due_us,delivered_us\nA,5,6\n")
    (tmp_path / "packed.csv.lz4").write_bytes(b"as Hadoop packs it")
    reading = sources.read([str(tmp_path)])
    assert [(Path(each.source).name, each.reason) for each in reading.broken] == [
        ("packed.csv.lz4", "only Spark can read it: report without --quick")
    ]
    assert reading.ledger.runs.num_rows == 2


def damage(folder: Path) -> Path:
    """Change bytes in the middle of an export's file, whose end stays intact."""
    path = next(folder.glob("deliveries/*/*/*.parquet"))
    column = pq.ParquetFile(path).metadata.row_group(0).column(DELIVERIES.names.index("due_us"))
    with path.open("r+b") as file:
        file.seek(column.data_page_offset + column.total_compressed_size // 2)
        file.write(b"\xff" * 64)
    return path


@pytest.mark.parametrize("is_quick", [True, False])
def test_damage_within_a_file_is_reported_in_a_sentence(
    spark: SparkSession, tmp_path: Path, is_quick: bool
) -> None:
    write_parquet(tmp_path, 3_000)
    path = damage(tmp_path)
    with pytest.raises(EmulatorError, match=f"^{re.escape(str(path))} is damaged") as found:
        run(ReportRunner(None if is_quick else Running(spark)), Job([str(tmp_path)]), ignore_progress)
    assert "\n" not in str(found.value)


class _Killed:
    """Work whose process is killed, as by a system that runs out of memory."""

    def columns(self, part: int) -> Columns:  # noqa: ARG002
        return Columns((), ())

    def on(self, part: int, batches: object) -> int:  # noqa: ARG002
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def join(self, made: object) -> int:  # noqa: ARG002
        return 0


def test_repeatedly_killed_tasks_are_reported_in_a_sentence(spark: SparkSession) -> None:
    work: Work[int] = _Killed()
    parts = {0: Loaded(DELIVERIES.empty_table())}
    with pytest.raises(ExecutorError):
        SparkCarrier(lambda: spark.sparkContext)(work, parts)


@pytest.mark.parametrize("is_quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_store_written_meanwhile_is_reported_as_of_the_start(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    write_store(tmp_path, 3_000)
    job = Job([str(tmp_path)], as_of_us=1_900_000_000_000_000)
    before = run(ReportRunner(None), job, ignore_progress)
    read = sources.read

    def read_and_write(*arguments: Any, **options: Any) -> Any:
        found = read(*arguments, **options)
        subprocess.run([sys.executable, "-c", WRITING, str(tmp_path / FILE_NAME)], check=True)
        return found

    monkeypatch.setattr(sources, "read", read_and_write)
    meanwhile = run(ReportRunner(None if is_quick else Running(spark)), job, ignore_progress)
    assert figures(meanwhile) == figures(before)


class _Lacking:
    """Work that needs a module that is not installed."""

    def columns(self, part: int) -> Columns:  # noqa: ARG002
        return Columns((), ())

    def on(self, part: int, batches: object) -> int:  # noqa: ARG002
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    def join(self, made: object) -> int:  # noqa: ARG002
        return 0


def test_module_missing_on_executors_is_named(spark: SparkSession) -> None:
    work: Work[int] = _Lacking()
    parts = {0: Loaded(DELIVERIES.empty_table())}
    with pytest.raises(ExecutorError, match="numpy"):
        SparkCarrier(lambda: spark.sparkContext)(work, parts)
