"""The data source ``mocketmq``: batches, filters and streams."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import Filter, GreaterThanOrEqual, LessThan

from mocketmq_report.ledger.spark_rows import DELIVERIES, MOVES, RUNS
from mocketmq_report.questions.arrow import read_arrow
from mocketmq_report.questions.spark_source import LedgerSource, register
from tests.support.ledgers import DAY_US, START_US, write_parquet, write_store
from tests.support.stores import MadeStore


@pytest.fixture(scope="module")
def own(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    register(session)
    return session


def load(own: SparkSession, *data: Path, table: str = "deliveries") -> DataFrame:
    paths = [str(each) for each in data]
    reader = own.read.format("mocketmq").option("table", table)
    return reader.load(paths[0] if len(paths) == 1 else paths)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export."""
    folder = tmp_path_factory.mktemp("source") / "exported"
    write_parquet(folder, 2_000, days=3, runs=2)
    return folder


@pytest.mark.parametrize("write", [write_parquet, write_store])
def test_spark_reads_the_rows_that_arrow_has(
    own: SparkSession, tmp_path: Path, write: Callable[..., object]
) -> None:
    data = tmp_path / "data"
    write(data, 500, days=3, runs=2)
    assert load(own, data).schema == DELIVERIES
    order = ["parked_offset", "delivered_offset"]
    expected = read_arrow(data).sort_by([(name, "ascending") for name in order]).to_pylist()
    assert rows(load(own, data).orderBy(*order, "state")) == sorted(
        expected, key=lambda row: (row["parked_offset"], row["delivered_offset"] or -1, row["state"])
    )
    assert load(own, data, table="runs").schema == RUNS
    assert load(own, data, table="moves").schema == MOVES
    assert rows(load(own, data, table="runs")) == read_arrow(data, table="runs").to_pylist()


@pytest.mark.parametrize(
    ("condition", "where"),
    [
        (
            f"level = 3 AND due_us >= {START_US + DAY_US} AND due_us < {START_US + 2 * DAY_US}",
            [("level", "=", 3), ("due_us", ">=", START_US + DAY_US), ("due_us", "<", START_US + 2 * DAY_US)],
        ),
        (
            "topic IN ('orders', 'payments') AND NOT topic = 'orders' AND level IS NULL",
            [("topic", "in", ["payments"]), ("level", "is null", None)],
        ),
        (
            "acked_us IS NOT NULL AND level <=> 5 AND NOT forced",
            [("acked_us", "is not null", None), ("level", "=", 5), ("forced", "=", False)],
        ),
    ],
)
def test_filters_are_applied_by_the_source(
    own: SparkSession, data: Path, condition: str, where: list[tuple[str, str, Any]]
) -> None:
    found = load(own, data).filter(condition)
    assert found.count() == read_arrow(data, where=where).num_rows
    assert not has_filter(found)


def test_other_filters_are_applied_by_spark(own: SparkSession, data: Path) -> None:
    found = load(own, data).filter("topic LIKE 'ord%' AND NOT level <=> 3 AND level NOT IN (4, 5)")
    is_meant = [
        row["topic"] == "orders" and row["level"] not in (None, 3, 4, 5)
        for row in read_arrow(data).to_pylist()
    ]
    assert found.count() == sum(is_meant)
    assert has_filter(found)


def has_filter(frame: DataFrame) -> bool:
    """Return whether Spark filters rows itself."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return re.search(r"\bFilter\b", plan) is not None


def test_days_that_do_not_match_are_no_tasks(tmp_path: Path) -> None:
    write_parquet(tmp_path, 2_000, days=3)
    source = LedgerSource({"path": str(tmp_path)})
    reader = source.reader(source.schema())
    assert len(reader.partitions()) == 4  # the last has the pending messages
    of_the_second_day: list[Filter] = [
        GreaterThanOrEqual(("due_us",), START_US + DAY_US),
        LessThan(("due_us",), START_US + 2 * DAY_US),
    ]
    assert not list(reader.pushFilters(of_the_second_day))
    assert len(reader.partitions()) == 1


def test_several_paths_are_one_ledger(own: SparkSession, tmp_path: Path) -> None:
    write_parquet(tmp_path / "monday", 60)
    write_parquet(tmp_path / "tuesday", 40, start_us=START_US + DAY_US)
    assert load(own, tmp_path / "monday", tmp_path / "tuesday").count() == 100


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"path": "nowhere"}, "nowhere: it cannot be read: No such file or directory"),
        ({"path": "s3a://bucket/ledger"}, "s3a://bucket/ledger is not on this machine"),
        (
            {"path": "nowhere", "table": "rows"},
            "the table is 'rows'; allowed: deliveries, runs, moves, faults",
        ),
        ({}, "the path is 'missing'; allowed: a path"),
    ],
)
def test_errors_say_what_is_wrong(own: SparkSession, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException) as caught:
        own.read.format("mocketmq").options(**options).load().count()
    assert sentence in str(caught.value)


class Stream:
    """A query that reads what there is, and can be started again from its checkpoint."""

    def __init__(self, own: SparkSession, folder: Path) -> None:
        self._own = own
        self._folder = folder
        self.batches: list[list[int]] = []

    def read(self, data: Path, **options: str) -> list[int]:
        """Return the numbers of the new deliveries."""
        before = len(self.batches)
        query = (
            self._own.readStream.format("mocketmq")
            .options(**options)
            .load(str(data))
            .writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [number for batch in self.batches[before:] for number in batch]

    def _take(self, frame: DataFrame, _batch: int) -> None:
        self.batches.append([row["delivered_offset"] for row in rows(frame)])


@pytest.fixture
def stream(own: SparkSession, tmp_path: Path) -> Stream:
    return Stream(own, tmp_path)


def begin_next_day(store: MadeStore, run: int) -> None:
    """Add a run that began a day after the first."""
    store.put(
        "runs",
        run=run,
        started_wall_us=START_US + DAY_US,
        started_us=START_US,
        version="0.1.0",
        host="there",
        profile="exact",
        clock="real",
        levels="1s",
        durability="full",
    )


def test_a_stream_has_each_delivery_once(stream: Stream, tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data")
    for number in (1, 3, 5):
        store.deliver(number)
    assert stream.read(store.data) == [1, 3, 5]
    assert stream.read(store.data) == []
    begin_next_day(store, run=2)
    store.deliver(9, run=2)
    store.deliver(10, run=2)
    assert stream.read(store.data) == [9, 10]


def test_a_stream_divides_a_backlog(stream: Stream, tmp_path: Path) -> None:
    write_store(tmp_path / "data", 25_000)
    numbers = stream.read(tmp_path / "data")
    assert numbers == sorted(set(numbers))
    assert len(numbers) == read_arrow(tmp_path / "data", where=[("state", "=", "delivered")]).num_rows
    assert [len(batch) for batch in stream.batches if batch] == [20_000, len(numbers) - 20_000]


def test_a_stream_may_begin_at_the_latest_delivery(stream: Stream, tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data")
    store.deliver(1)
    assert stream.read(store.data, startingOffsets="latest") == []
    store.deliver(3)
    assert stream.read(store.data, startingOffsets="latest") == [3]


def test_a_stream_does_not_go_on_in_another_store(stream: Stream, tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data")
    store.deliver(1)
    assert stream.read(store.data) == [1]
    shutil.rmtree(store.data)
    other = MadeStore(tmp_path / "data", runs=0)
    begin_next_day(other, run=1)
    other.deliver(5)
    with pytest.raises(StreamingQueryException, match="but the stream began on the store 20261101T000000"):
        stream.read(other.data)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"table": "runs"}, "the table of a stream is 'runs'; allowed: deliveries"),
        ({"startingOffsets": "5"}, "startingOffsets is '5'; allowed: earliest, latest"),
        ({}, "the path of a stream is"),
    ],
)
def test_what_is_no_stream_is_refused(
    own: SparkSession, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises((AnalysisException, StreamingQueryException)) as caught:
        Stream(own, tmp_path).read(tmp_path, **options)
    assert sentence in str(caught.value)
