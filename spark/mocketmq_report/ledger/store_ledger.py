"""A broker's own store as a ledger, whether the broker runs or not: read here if it is small, else by Spark.

Each of Spark's tasks opens the database file by its path, so a cluster's workers have to see it where the
driver does; where they do not, ``mocketmq export`` writes what any of them can read.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from mocketmq.errors import StoreError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mocketmq_report.ledger import columns
from mocketmq_report.ledger.frames import DELIVERIES, MOVES, RUNS, BrokenLedgerError, LedgerFrames
from mocketmq_report.ledger.store_snapshot import RANGE_ROWS, OffsetRange, StoreSnapshot, read, take_snapshot
from mocketmq_report.progress import ignore_progress

SMALL_ROWS: Final = 200_000
"""Deliveries that are read sooner than a worker for Python is started."""

_FORMAT: Final = "mocketmq-store"

_Part = tuple[str, list[tuple[int, str]], OffsetRange]
"""A database, the names of its runs by number, and which rows of it."""


class StoreDeliveries(DataSource):
    """What was delivered, by the option ``tasks`` of :func:`open_stores`."""

    @classmethod
    def name(cls) -> str:
        """What ``spark.read.format`` calls it."""
        return _FORMAT

    def schema(self) -> StructType:
        """Always the same columns."""
        return DELIVERIES

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - as Spark asks
        """What reads them."""
        return _RangeReader(json.loads(self.options["tasks"]))


class _RangeReader(DataSourceReader):
    """Reads some ranges of rows in each task; Spark 4.3 has no way to tell which columns it needs."""

    def __init__(self, tasks: list[list[_Part]]) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(each) for each in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for database, runs, span in partition.value:
            yield from read(Path(database), dict(runs), OffsetRange(*span))


def open_store(spark: SparkSession, path: Path, *, as_of_us: int | None = None) -> LedgerFrames:
    """The ledger of a data directory, or of a database file, as it is now; later rows are not in it.

    Everything is looked at before this returns, as :func:`.store.take_snapshot` says; ``as_of_us`` is its.
    Raises BrokenLedgerError.
    """
    try:
        store = take_snapshot(path, ignore_progress, as_of_us)
    except StoreError as error:
        raise BrokenLedgerError(str(error)) from error
    return open_stores(spark, [store])


def open_stores(spark: SparkSession, stores: Sequence[StoreSnapshot]) -> LedgerFrames:
    """One or more stores, as they were when they were looked at, as one ledger."""
    is_small = sum(store.deliveries for store in stores) <= SMALL_ROWS
    rows = [store.undelivered for store in stores]
    if is_small:
        rows += [pa.Table.from_batches(_read(store), columns.DELIVERIES) for store in stores]
    # Combined, since createDataFrame of PySpark 4.3 may lose all chunks of a table but the first.
    here, runs, moves = (
        pa.concat_tables(tables).combine_chunks()
        for tables in (rows, [store.runs for store in stores], [store.moves for store in stores])
    )
    ledger = LedgerFrames(
        spark.createDataFrame(here, DELIVERIES),
        spark.createDataFrame(runs, RUNS),
        spark.createDataFrame(moves, MOVES),
    )
    if is_small:
        return ledger
    spark.dataSource.register(StoreDeliveries)
    delivered = spark.read.format(_FORMAT).option("tasks", json.dumps(_tasks(stores))).load()
    return ledger._replace(deliveries=delivered.union(ledger.deliveries) if here.num_rows else delivered)


def _read(store: StoreSnapshot) -> Iterator[pa.RecordBatch]:
    for span in store.ranges:
        yield from read(store.database, store.names, span)


def _tasks(stores: Sequence[StoreSnapshot]) -> list[list[_Part]]:
    """A range in each task; of small stores, which are one range, as many as make up a range."""
    tasks: list[list[_Part]] = []
    room = 0
    for store in stores:
        parts = [(str(store.database.absolute()), list(store.names.items()), span) for span in store.ranges]
        if len(parts) == 1 and store.deliveries <= room:
            tasks[-1] += parts
        else:
            tasks += [[part] for part in parts]
            room = RANGE_ROWS if len(parts) == 1 else 0
        room -= store.deliveries
    return tasks
