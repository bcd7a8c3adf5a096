"""Offsets for a stream of a broker's deliveries: their numbers, which rise in order of delivery."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from mocketmq.errors import StoreUnavailableError
from mocketmq_report.ledger.store_reader import StoreReader

BATCH_ROWS: Final = 20_000
"""Maximum number of deliveries in a micro-batch. After a clock move, each may have its own windows."""

_LATEST: Final = (
    "SELECT max(delivered_offset) AS latest FROM (SELECT delivered_offset FROM deliveries"
    " WHERE delivered_offset > {} ORDER BY delivered_offset LIMIT {})"
)


class DeliverySpan(InputPartition):
    """A range of deliveries: after the first number, up to and including the second."""

    def __init__(self, after: int, last: int) -> None:
        super().__init__((after, last))


class DeliveryOffsets(DataSourceStreamReader):
    """Divides the deliveries of a store into micro-batches; finds none while the store is unreadable."""

    def __init__(self, database: Path) -> None:
        self.database = database

    @abstractmethod
    def first(self, reader: StoreReader) -> int:
        """Return the number of the last delivery before the stream, or -1."""

    @abstractmethod
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the deliveries of a span."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's interface
        with StoreReader(self.database) as reader:
            return {"delivered": self.first(reader)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(BATCH_ROWS)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else -1
        try:
            with StoreReader(self.database) as reader:
                [latest] = reader.table(_LATEST.format(start["delivered"], rows))["latest"].to_pylist()
        except StoreUnavailableError:
            return start
        return start if latest is None else {**start, "delivered": latest}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [] if start == end else [DeliverySpan(start["delivered"], end["delivered"])]
