"""Streams the deliveries of a running broker, and counts them in windows of the broker's time.

An offset of the stream is the number of a delivery. Delivery times never go back within a store, so no row is
late for its window, and Spark keeps no state of past windows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from mocketmq.store.database import FILE_NAME
from mocketmq_report.compute.bins import highest, lowest
from mocketmq_report.ledger.delivery_offsets import DeliveryOffsets
from mocketmq_report.ledger.store_reader import StoreReader
from mocketmq_report.live.status import NO_LEVEL

STEPS: Final = 12
"""Number of steps of a window: a window slides by its length divided by this number."""

_DELIVERIES: Final = (
    f"SELECT coalesce(level, {NO_LEVEL}) AS level, delivered_us - due_us AS late_us, delivered_us"
    " FROM deliveries WHERE delivered_offset > {} AND delivered_offset <= {} AND forced = 0"
)
OLDER: Final = (
    "SELECT delivered_offset FROM deliveries WHERE delivered_us < {} ORDER BY delivered_offset DESC LIMIT 1"
)
"""Query for the number of the last delivery before an instant."""
_SINCE: Final = (
    f"SELECT coalesce(level, {NO_LEVEL}) AS level, delivered_us - due_us AS late_us, delivered_us"
    f" FROM deliveries WHERE delivered_offset > coalesce(({OLDER}), -1) AND forced = 0"
)


class DeliveryStream(DataSource):
    """The deliveries of the store in the data directory ``path``, from ``since_us`` on."""

    @classmethod
    def name(cls) -> str:
        """The name for ``spark.readStream.format``."""
        return "mocketmq-deliveries"

    def schema(self) -> StructType:
        """Each delivery's level or ``NO_LEVEL``, its lateness and instant, and its bin's highest value."""
        names = ("level", "late_us", "delivered_us", "bin_us")
        return StructType([StructField(name, LongType()) for name in names])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - as Spark asks
        """Make the reader of the stream."""
        return _StreamReader(Path(self.options["path"]) / FILE_NAME, int(self.options["since_us"]))


class _StreamReader(DeliveryOffsets):
    """Reads the lateness of new deliveries."""

    def __init__(self, database: Path, since_us: int) -> None:
        super().__init__(database)
        self._since_us = since_us

    def first(self, reader: StoreReader) -> int:
        older = reader.table(OLDER.format(self._since_us))["delivered_offset"].to_pylist()
        return older[0] if older else -1

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with StoreReader(self.database) as reader:
            for batch in reader.batches(_DELIVERIES.format(*partition.value)):
                bins = highest(lowest(batch["late_us"].to_numpy()))
                yield pa.RecordBatch.from_arrays(
                    [*batch.columns, pa.array(bins)], [*batch.schema.names, "bin_us"]
                )


def windows(deliveries: DataFrame, window_us: int) -> DataFrame:
    """Count deliveries and their lateness by level and window; empty windows have no row.

    ``window_us`` must be a multiple of ``STEPS``. A percentile is the highest value of its bin, or the
    greatest of all values if that is less. Bins keep the state of a window small.
    """
    at = F.window("at", f"{window_us} microseconds", f"{window_us // STEPS} microseconds")
    return (
        deliveries.withColumn("at", F.timestamp_micros("delivered_us"))
        .withWatermark("at", "0 seconds")
        .groupBy(at, "level")
        .agg(
            F.count("*").alias("deliveries"),
            F.count_if(F.col("late_us") < 0).alias("early"),
            F.max("late_us").alias("max_us"),
            _percentile(0.5).alias("p50_us"),
            _percentile(0.99).alias("p99_us"),
        )
        .select(F.unix_micros("window.start").alias("from_us"), "*")
        .drop("window")
    )


def _percentile(share: float) -> Column:
    """Make an aggregate that computes the percentile by nearest rank from ``bin_us``."""
    high = F.expr(f"percentile_disc({share}) WITHIN GROUP (ORDER BY bin_us)").cast("long")
    return F.least(high, F.max("late_us"))


def first_count(data: Path, since_us: int, window_us: int) -> list[Row]:
    """Count the deliveries of a data directory since an instant like ``windows``, but without Spark.

    Used until Spark has started. Raises StoreError.
    """
    with StoreReader(data / FILE_NAME) as reader:
        found = reader.table(_SINCE.format(since_us))
    if not found.num_rows:
        return []
    levels, late, at = (column.to_numpy() for column in found.columns)
    step_us = window_us // STEPS
    steps = at // step_us * step_us
    rows = []
    for level in np.unique(levels):
        for from_us in np.unique(steps[levels == level][:, None] - step_us * np.arange(STEPS)):
            held = np.sort(late[(levels == level) & (steps >= from_us) & (steps < from_us + window_us)])
            rows.append(_row(int(level), int(from_us), held))
    return rows


def _row(level: int, from_us: int, late: np.ndarray) -> Row:
    """Make a window's row; ``late`` is the sorted lateness of its deliveries."""
    at = [-(-share * len(late) // 100) - 1 for share in (50, 99)]  # by nearest rank
    p50_us, p99_us = np.minimum(highest(lowest(late[at])), late[-1]).tolist()
    return Row(
        from_us=from_us,
        level=level,
        deliveries=len(late),
        early=int(np.count_nonzero(late < 0)),
        max_us=int(late[-1]),
        p50_us=p50_us,
        p99_us=p99_us,
    )
