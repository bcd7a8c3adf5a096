"""Sources that only Spark can read: URLs of other file systems, and rare compression formats."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mocketmq_report.ledger import columns, external_runs
from mocketmq_report.ledger.external_files import WRONG, ExternalFile
from mocketmq_report.ledger.external_values import ROWS, rows
from mocketmq_report.ledger.hadoop_places import file_of_row
from mocketmq_report.ledger.ledger import Columns, Extent
from mocketmq_report.ledger.places import DataLocation
from mocketmq_report.ledger.quality import UNREADABLE

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.bool_(): BooleanType(),
}


def in_spark(schema: pa.Schema) -> StructType:
    """Convert a schema to Spark's form."""
    return StructType([StructField(field.name, _SPARK_TYPES[field.type]) for field in schema])


DELIVERIES: Final = in_spark(columns.DELIVERIES)
RUNS: Final = in_spark(columns.RUNS)
MOVES: Final = in_spark(columns.MOVES)


_FEW: Final = 200_000  # rows
_LITTLE: Final = 20_000_000  # bytes
_HURRIED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for little data, because compiling and dividing the work would take longer than the work."""
_CORRUPT: Final = "_corrupt_record"
_OPTIONS: Final = {
    "csv": {
        "header": "true",
        "escape": '"',
        "columnPruning": "false",  # with pruning, two queries may differ on whether a row is corrupt
    },
    "json": {},
    "parquet": {},
}


class SparkRows(NamedTuple):
    """Rows that Spark reads: a part that only Spark can read, and may divide."""

    frame: DataFrame
    rows: int

    def selected(self, columns: Columns) -> DataFrame:
        """Select these columns, and the reasons why rows are unreadable."""
        names = [*columns.needed, *columns.in_doubt]
        return self.frame.select(*names, *({UNREADABLE} & {*self.frame.columns}))

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Read all rows into this process."""
        yield from self.selected(columns).toArrow().to_batches()

    def mapped(
        self, columns: Columns, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ) -> list[bytes]:
        """Return the results of ``work`` on the rows of each task."""
        with hurried(self.frame.sparkSession, self.rows <= _FEW):
            rows = self.selected(columns).mapInArrow(work, "made binary").collect()
        return [row.made for row in rows]


def exported(spark: SparkSession, folders: Sequence[DataLocation]) -> DataFrame:
    """Return the deliveries in ``day=…/run=…`` below each folder."""
    paths = [folder.pattern for folder in folders]
    reader = spark.read.option("pathGlobFilter", "*.parquet").schema(DELIVERIES)
    if len(paths) == 1:
        return reader.parquet(*paths).select(*DELIVERIES.names)
    # Spark reads columns from folder names only below a single common folder.
    run = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/run=", -1), "/", 1)
    read = reader.option("recursiveFileLookup", "true").parquet(*paths)
    return read.withColumn("run", run).select(*DELIVERIES.names)


def extent_of(frame: DataFrame) -> Extent:
    """Compute the extent of some rows, mostly from the footers of Parquet files."""
    row = frame.agg(F.count("*"), F.min("delivered_us"), F.max("delivered_us")).collect()[0]
    return Extent(row[0], row[1] or 0, row[2] or 0)


def small_table(spark: SparkSession, parts: Sequence[DataLocation], schema: pa.Schema) -> pa.Table:
    """Read the rows of small files."""
    return spark.read.schema(in_spark(schema)).parquet(*(part.pattern for part in parts)).toArrow()


def joined(frames: Sequence[DataFrame]) -> DataFrame:
    """Join the rows of all sources, with the reasons why rows are unreadable."""
    if any(UNREADABLE in frame.columns for frame in frames):
        nothing = F.lit(None).cast("string")
        frames = [
            frame if UNREADABLE in frame.columns else frame.withColumn(UNREADABLE, nothing)
            for frame in frames
        ]
    return reduce(DataFrame.unionAll, frames)


def external(spark: SparkSession, files: Sequence[ExternalFile]) -> DataFrame:
    """Read the rows of external files, as ``external_values.ROWS``.

    Files with equal columns are read together, so that a hundred files make one plan.
    """
    alike: dict[object, list[ExternalFile]] = {}
    for file in files:
        columns = file.columns if file.kind == "csv" else tuple(file.known.items())
        alike.setdefault((file.kind, columns), []).append(file)
    return reduce(DataFrame.unionAll, [_external(spark, group) for group in alike.values()])


def runs_of(spark: SparkSession, files: Sequence[ExternalFile]) -> pa.Table:
    """Find the runs of external files, as ``external_runs.FOUND``."""
    if not files:
        return external_runs.FOUND.empty_table()
    with hurried(spark, sum(part.size for file in files for part in file.parts) < _LITTLE):
        made = external(spark, files).mapInArrow(_runs_in, in_spark(external_runs.FOUND)).toArrow()
    return external_runs.joined([made])


def _external(spark: SparkSession, files: Sequence[ExternalFile]) -> DataFrame:
    """Read the rows of files with equal columns."""
    kind, known = files[0].kind, files[0].known
    schema = StructType()
    for place, (name, held) in enumerate(files[0].columns):
        if name in known:
            schema.add(name, held)
        elif kind == "csv":  # CSV columns are matched by position
            schema.add(f"_c{place}", "string")
    if kind in WRONG:
        schema.add(_CORRUPT, "string")
    reader = spark.read.format(kind).schema(schema).options(**_OPTIONS[kind])
    read = _with_source(spark, reader.load([part.pattern for file in files for part in file.parts]), files)
    return read.mapInArrow(partial(_rows_in, tuple(known), WRONG.get(kind)), in_spark(ROWS))


def _with_source(spark: SparkSession, read: DataFrame, files: Sequence[ExternalFile]) -> DataFrame:
    """Add ``file_run`` and ``file`` of each row's file."""
    if len(files) == 1:
        return read.withColumns({"file_run": F.lit(files[0].run), "file": F.lit(str(files[0].place))})
    table = [
        {"uri": part.uri, "file_run": file.run, "file": str(file.place)}
        for file in files
        for part in file.parts
    ]
    sources = spark.createDataFrame(pa.Table.from_pylist(table))
    return read.withColumn("uri", file_of_row()).join(F.broadcast(sources), "uri")


def _rows_in(
    known: Sequence[str], wrong: str | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        reasons = pa.nulls(len(batch), pa.string())
        if wrong is not None:
            reasons = pc.if_else(batch[_CORRUPT].is_valid(), wrong, reasons)
        raw = {name: batch[name] for name in known}
        yield rows(raw, len(batch), reasons, batch["file_run"], batch["file"])


def _runs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from external_runs.found_in(batch).to_batches()


@contextmanager
def hurried(spark: SparkSession, is_little: bool = True) -> Iterator[None]:
    """Use the settings for little data inside the context, if ``is_little``."""
    settings = _HURRIED if is_little else {}
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
