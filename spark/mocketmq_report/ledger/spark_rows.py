"""The sources that only Spark can read: URLs with the settings of their file systems, and text files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mocketmq_report.ledger import external_files
from mocketmq_report.ledger.columns import UNKNOWN
from mocketmq_report.ledger.extent import Extent
from mocketmq_report.ledger.external_files import ExternalFile
from mocketmq_report.ledger.frames import DELIVERIES, in_spark
from mocketmq_report.ledger.hurry import hurried
from mocketmq_report.ledger.part import Columns
from mocketmq_report.ledger.places import Place
from mocketmq_report.ledger.quality import UNREADABLE, faults
from mocketmq_report.ledger.rows import Rows

_FEW: Final = 200_000  # rows
_LITTLE: Final = 20_000_000  # bytes
HAPPENED: Final = [name for name in DELIVERIES.names if name.endswith("_us") and name != "due_us"]


class SparkRows(NamedTuple):
    """Rows that Spark reads, as a part that only Spark can carry work to. It may divide it."""

    frame: DataFrame
    rows: int

    def selected(self, columns: Columns) -> DataFrame:
        """These columns, and why rows are unreadable."""
        names = [*columns.needed, *columns.in_doubt]
        return self.frame.select(*names, *({UNREADABLE} & {*self.frame.columns}))

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Read all rows here."""
        yield from self.selected(columns).toArrow().to_batches()

    def mapped(
        self, columns: Columns, work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ) -> list[bytes]:
        """What ``work`` makes of the rows that each task reads."""
        with hurried(self.frame.sparkSession, self.rows <= _FEW):
            rows = self.selected(columns).mapInArrow(work, "made binary").collect()
        return [row.made for row in rows]


def exported(spark: SparkSession, folders: Sequence[Place]) -> DataFrame:
    """The deliveries in ``day=…/run=…`` below each folder."""
    paths = [folder.pattern for folder in folders]
    reader = spark.read.option("pathGlobFilter", "*.parquet").schema(DELIVERIES)
    if len(paths) == 1:
        return reader.parquet(*paths).select(*DELIVERIES.names)
    # Spark makes columns of the names of folders only if all are below one folder.
    run = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/run=", -1), "/", 1)
    read = reader.option("recursiveFileLookup", "true").parquet(*paths)
    return read.withColumn("run", run).select(*DELIVERIES.names)


def extent_of(frame: DataFrame) -> Extent:
    """The extent of some rows, of which Parquet files have most in their footers."""
    row = frame.agg(F.count("*"), F.min("delivered_us"), F.max("delivered_us")).collect()[0]
    return Extent(row[0], row[1] or 0, row[2] or 0)


def small_table(spark: SparkSession, parts: Sequence[Place], schema: pa.Schema) -> pa.Table:
    """The rows of small files."""
    return spark.read.schema(in_spark(schema)).parquet(*(part.pattern for part in parts)).toArrow()


def joined(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of all, with a reason why a row is unreadable where one has it."""
    if any(UNREADABLE in frame.columns for frame in frames):
        nothing = F.lit(None).cast("string")
        frames = [
            frame if UNREADABLE in frame.columns else frame.withColumn(UNREADABLE, nothing)
            for frame in frames
        ]
    return reduce(DataFrame.unionAll, frames)


def foreign(spark: SparkSession, files: Sequence[ExternalFile]) -> DataFrame:
    """The rows of files from elsewhere."""
    return external_files.rows(spark, files).select(*DELIVERIES.names, UNREADABLE)


def runs_of(spark: SparkSession, files: Sequence[ExternalFile]) -> tuple[list[dict[str, Any]], Extent]:
    """A row of RUNS for each run that the files name, and for each file without rows; and their extent."""
    frame = external_files.rows(spark, files)
    with hurried(spark, sum(part.size for file in files for part in file.parts) < _LITTLE):
        made = frame.mapInArrow(_runs_in, in_spark(_RUNS_FOUND)).toArrow()
    texts = ("source", *external_files.ABOUT_RUN)
    how = [(texts[0], "min"), *((name, "max") for name in (*texts[1:], "as_of_us", "last_us"))]
    found = made.group_by("run").aggregate([*how, ("rows", "sum"), ("first_us", "min")]).to_pylist()
    runs = [
        {"run": run["run"]} | {name: run[f"{name}_{by}"] for name, by in how if name != "last_us"}
        for run in found
    ]
    extent = Extent(
        sum(run["rows_sum"] for run in found),
        min((run["first_us_min"] for run in found if run["first_us_min"] is not None), default=0),
        max((run["last_us_max"] for run in found if run["last_us_max"] is not None), default=0),
    )
    empty = {str(file.place): file.run for file in files}
    for run in runs:
        empty.pop(run["source"], None)
    runs += [{"run": run, "source": source, "as_of_us": None} for source, run in empty.items()]
    said = dict.fromkeys((*external_files.ABOUT_RUN, "levels", "durability"), UNKNOWN)
    told = [
        said | {name: what for name, what in run.items() if what is not None} | {"store": run["run"]}
        for run in runs
    ]
    return told, extent


_RUNS_FOUND: Final = pa.schema(
    [(name, pa.string()) for name in ("run", "source", *external_files.ABOUT_RUN)]
    + [(name, pa.int64()) for name in ("as_of_us", "rows", "first_us", "last_us")]
)


def _runs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the rows of a batch that can be used say about their runs."""
    for batch in batches:
        rows = Rows.of([batch])
        table = rows.where(faults(rows).is_null().to_numpy(zero_copy_only=False)).table
        times = [table[name].combine_chunks() for name in HAPPENED]
        columns = {name: table[name].cast(pa.string()) for name in _RUNS_FOUND.names[:6]}
        columns |= {
            "as_of_us": pc.max_element_wise(*times),
            "rows": pa.repeat(pa.scalar(1, pa.int64()), table.num_rows),
            **dict.fromkeys(("first_us", "last_us"), table["delivered_us"]),
        }
        how = [("rows", "sum"), ("first_us", "min")]
        how += [(name, "min") for name in ("source",)]
        how += [(name, "max") for name in (*external_files.ABOUT_RUN, "as_of_us", "last_us")]
        found = pa.table(columns).group_by("run").aggregate(how)
        names = {f"{name}_{by}": name for name, by in how}
        told = found.rename_columns([names.get(name, name) for name in found.column_names])
        yield from told.select(_RUNS_FOUND.names).cast(_RUNS_FOUND).to_batches()
