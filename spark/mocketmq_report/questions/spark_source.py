"""The ledger as a data source of Spark, ``mocketmq``, for batches and streams.

::

    register(spark)
    spark.read.format("mocketmq").load("mocketmq-data").filter("level = 3")
    spark.readStream.format("mocketmq").load("mocketmq-data")

A batch query reads what reports read, with a task for each part of the ledger. Spark passes comparisons with
constants to the source, which leaves out row groups of exports and lets SQLite select a store's deliveries.
Spark passes no columns to Python sources, so all are read.

A stream has the deliveries of one data directory, in order, each once. The stream often has a delivery before
a consumer has pulled the message, so ``pulled_us`` and ``acked_us`` are mostly null in streams.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mocketmq.errors import InvalidArgumentError, StoreUnreadableError
from mocketmq.store.database import FILE_NAME
from mocketmq_report.ledger.delivery_offsets import DeliveryOffsets
from mocketmq_report.ledger.ledger import StoreRange
from mocketmq_report.ledger.spark_rows import in_spark
from mocketmq_report.ledger.store_reader import StoreReader
from mocketmq_report.ledger.store_snapshot import OffsetRange, run_names
from mocketmq_report.questions.ledger_tables import TableSelection, read_ledger, selection

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    In: "in",
}
_LAST: Final = "SELECT coalesce(max(delivered_offset), -1) AS last FROM deliveries"
_STARTS: Final = ("earliest", "latest")


def register(spark: SparkSession) -> None:
    """Register the source ``mocketmq`` in a session, and make Spark pass filters to Python data sources."""
    spark.conf.set(_PUSHDOWN, "true")
    spark.dataSource.register(LedgerSource)


class LedgerSource(DataSource):
    """A table of the ledger at the path or paths passed to ``load``.

    Options: ``table`` is ``deliveries`` (the default), ``runs``, ``moves`` or ``faults``; a stream's
    ``startingOffsets`` is ``earliest`` (the default) or ``latest``.
    """

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "mocketmq"

    def schema(self) -> StructType:
        """The columns of the table, as docs/ledger-format.md describes them."""
        return in_spark(self._selection().schema)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's interface
        return _LedgerReader(self._paths(), self._selection())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's interface
        if (table := self._selection().table) != "deliveries":
            raise InvalidArgumentError("the table of a stream", table, "deliveries")
        start = self.options.get("startingOffsets", _STARTS[0])
        if start not in _STARTS:
            raise InvalidArgumentError("startingOffsets", start, ", ".join(_STARTS))
        paths = self._paths()
        database = Path(paths[0], FILE_NAME).absolute()
        if len(paths) > 1 or not database.is_file():
            raise InvalidArgumentError("the path of a stream", ", ".join(paths), "one data directory")
        return _DeliveryReader(database, start)

    def _selection(self) -> TableSelection:
        return selection(self.options.get("table", "deliveries"))

    def _paths(self) -> list[str]:
        if "path" in self.options:
            return [self.options["path"]]
        paths: list[str] = json.loads(self.options.get("paths", "[]"))
        if not paths:
            raise InvalidArgumentError("the path", "missing", 'a path, as in load("mocketmq-data")')
        return paths


class _LedgerReader(DataSourceReader):
    """Reads a table of a ledger, part by part."""

    def __init__(self, paths: Sequence[str], selected: TableSelection) -> None:
        self._paths = paths
        self._selected = selected

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's interface
        """Take over comparisons with constants; Spark applies all others."""
        where: list[tuple[str, str, Any]] = []
        for each in filters:
            condition = _condition(each)
            if condition is None:
                yield each
            else:
                where.append(condition)
        table, columns, _ = self._selected
        self._selected = selection(table, columns, where)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(part) for part in self._selected.parts(read_ledger(self._paths))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._selected.batches(partition.value)


class _DeliveryReader(DeliveryOffsets, SupportsTriggerAvailableNow):
    """Reads new deliveries of one store, whose name is part of the offsets."""

    def __init__(self, database: Path, start: str) -> None:
        super().__init__(database)
        self._start = start
        self._end: int | None = None  # with Trigger.AvailableNow

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's interface
        return {**super().initialOffset(), "store": self._runs()[0]}

    def first(self, reader: StoreReader) -> int:
        return -1 if self._start == "earliest" else _last(reader)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's interface
        with StoreReader(self.database) as reader:
            self._end = _last(reader)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        found = super().latestOffset(start, limit)
        if self._end is None:
            return found
        return {**found, "delivered": max(min(found["delivered"], self._end), start["delivered"])}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        store, names = self._runs()
        if store != start["store"]:
            raise StoreUnreadableError(
                f"{self.database} is the store {store}, but the stream began on the store {start['store']}:"
                " use a new checkpoint"
            )
        span = OffsetRange(start["delivered"] + 1, end["delivered"])
        return [InputPartition(StoreRange(str(self.database), names, span, 0))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return selection().batches(partition.value)

    def _runs(self) -> tuple[str, dict[int, str]]:
        """Return the name of the store, and the names of its runs by number."""
        with StoreReader(self.database) as reader:
            reader.check()
            names = run_names(reader.table("SELECT run, started_wall_us FROM runs ORDER BY run"))
        return names[min(names)], names


def _last(reader: StoreReader) -> int:
    last: int = reader.table(_LAST)["last"][0].as_py()
    return last


def _condition(given: Filter) -> tuple[str, str, Any] | None:
    """Return a filter as a condition; None for a filter that Spark has to apply."""
    negated = isinstance(given, Not)
    inner = given.child if isinstance(given, Not) else given
    if isinstance(inner, IsNull | IsNotNull):
        is_null = isinstance(inner, IsNull) != negated
        return (*inner.attribute, "is null" if is_null else "is not null", None)  # type: ignore[return-value]
    operator = _COMPARISONS.get(type(inner))
    if operator is None or (isinstance(inner, EqualNullSafe) and (negated or inner.value is None)):
        return None
    if negated and operator != "=":
        return None
    [column] = inner.attribute  # type: ignore[attr-defined]
    return column, "!=" if negated else operator, inner.value  # type: ignore[attr-defined]
