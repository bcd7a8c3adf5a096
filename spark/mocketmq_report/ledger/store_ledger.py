"""Give a broker's store to Spark as a ledger: the driver reads a small store, Spark's tasks a larger one.

The broker may be running. Each task opens the database file by its path, so the workers of a cluster must see
it where the driver does; if they do not, ``mocketmq export`` writes files that any of them can read.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mocketmq.errors import StoreError
from mocketmq_report.ledger import columns
from mocketmq_report.ledger.frames import DELIVERIES, MOVES, RUNS, BrokenLedgerError, LedgerFrames
from mocketmq_report.ledger.store_snapshot import RANGE_ROWS, OffsetRange, StoreSnapshot, read, take_snapshot
from mocketmq_report.progress import ignore_progress

SMALL_ROWS: Final = 200_000
"""Reading up to so many deliveries takes less time than starting a Python worker."""

_FORMAT: Final = "mocketmq-store"

_Part = tuple[str, list[tuple[int, str]], OffsetRange]
"""A database, the names of its runs by number, and a range of its deliveries."""


class StoreDeliveries(DataSource):
    """The deliveries of stores; the option ``tasks`` says which ranges each task reads."""

    @classmethod
    def name(cls) -> str:
        """The name for ``spark.read.format``."""
        return _FORMAT

    def schema(self) -> StructType:
        """The columns of every ledger."""
        return DELIVERIES

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - as Spark asks
        """Make the reader of the tasks."""
        return _RangeReader(json.loads(self.options["tasks"]))


class _RangeReader(DataSourceReader):
    """Reads some ranges of rows in each task. Spark 4.3 cannot say which columns it needs."""

    def __init__(self, tasks: list[list[_Part]]) -> None:
        self._tasks = tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(each) for each in self._tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for database, runs, span in partition.value:
            yield from read(Path(database), dict(runs), OffsetRange(*span))


def open_store(spark: SparkSession, path: Path, *, as_of_us: int | None = None) -> LedgerFrames:
    """Read a snapshot of a data directory, or of a database file, as :func:`take_snapshot` describes it.

    Raises BrokenLedgerError.
    """
    try:
        store = take_snapshot(path, ignore_progress, as_of_us)
    except StoreError as error:
        raise BrokenLedgerError(str(error)) from error
    return open_stores(spark, [store])


def open_stores(spark: SparkSession, stores: Sequence[StoreSnapshot]) -> LedgerFrames:
    """Join snapshots of stores into one ledger."""
    is_small = sum(store.deliveries for store in stores) <= SMALL_ROWS
    rows = [store.undelivered for store in stores]
    if is_small:
        rows += [pa.Table.from_batches(_read(store), columns.DELIVERIES) for store in stores]
    # In one chunk, since createDataFrame of PySpark 4.3 may lose all chunks of a table but the first.
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
    """Give each task one range, or as many small stores as make up a range."""
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
