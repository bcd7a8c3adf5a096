"""Read stores, exports, files from elsewhere, and folders of all of these as one ledger.

A store is a data directory of mocketmq. An export is the folder that ``mocketmq export`` writes, with
``deliveries/day=…/run=…/*.parquet``, ``runs/*.parquet`` and ``moves/*.parquet``. Sources that cannot be read
are left out and named. A run that is in several sources is counted once. Sources of one kind are read
together, so that a hundred of them make one plan.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from mocketmq.errors import StoreError
from mocketmq.store.database import FILE_NAME
from mocketmq_report.document import BrokenSource
from mocketmq_report.ledger import columns, external_files
from mocketmq_report.ledger.external_files import ExternalFile
from mocketmq_report.ledger.frames import DELIVERIES, MOVES, RUNS, BrokenLedgerError, LedgerFrames
from mocketmq_report.ledger.hadoop_files import FAILURES, HadoopFiles, HadoopPath, file_of_row, reason_of
from mocketmq_report.ledger.quality import UNREADABLE, kept
from mocketmq_report.ledger.store_ledger import open_stores
from mocketmq_report.ledger.store_snapshot import StoreSnapshot, take_snapshot
from mocketmq_report.progress import ignore_progress

UNKNOWN: Final = "unknown"
"""Stands for facts about a run that a file from elsewhere lacks."""

_ALLOWED: Final = (
    "allowed are a data directory of mocketmq, what mocketmq export wrote, a file with the columns of"
    f" docs/ledger-format.md ({external_files.FORMATS}), and a folder of these"
)
_DEPTH: Final = 5  # of nested folders


class LedgerReading(NamedTuple):
    """A ledger that was read. ``quality`` has not yet looked at its rows."""

    ledger: LedgerFrames
    broken: list[BrokenSource]
    warnings: list[str]  # sentences
    is_cheap: bool  # to read several times, as only exports are: their columns are read singly


class _ExportFolder(NamedTuple):
    place: HadoopPath
    deliveries: HadoopPath
    runs: list[HadoopPath]
    moves: list[HadoopPath]


class _SourceOfRuns(NamedTuple):
    """A store or an export. Its runs may be in another one as well."""

    name: str
    runs: list[dict[str, Any]]
    moves: list[dict[str, Any]]
    deliveries: HadoopPath | StoreSnapshot


def read(spark: SparkSession, data: Sequence[str], *, as_of_us: int | None = None) -> LedgerReading:
    """Read paths and URLs as one ledger. Raises BrokenLedgerError when none of them can be read.

    Runs, clock moves, undelivered messages of stores and all files from elsewhere are read before this
    returns. What is due by ``as_of_us`` and not delivered is overdue; by default by the latest instant of
    each run.
    """
    finder = _SourceFinder(spark)
    for each in data:
        finder.look(each)
    sources = [*_exports(spark, finder.exports), *_stores(finder, as_of_us)]
    warnings: list[str] = []
    repeated = _repeated(sources, warnings)
    frames = _frames(spark, sources, repeated)
    runs = [run for each in sources for run in each.runs if run["run"] not in repeated[each.name]]
    moves = [move for each in sources for move in each.moves if move["run"] not in repeated[each.name]]
    good, foreign, found = _foreign(spark, finder)
    if foreign is not None:
        frames = [frame.withColumn(UNREADABLE, F.lit(None).cast("string")) for frame in frames]
        frames.append(foreign)
        runs += found
        warnings += _ignored(good)
    if not frames:
        raise BrokenLedgerError(
            "there is nothing that can be read: "
            + "; ".join(f"{each.source}: {each.reason}" for each in finder.broken)
        )
    if as_of_us is not None:
        runs = [run | {"as_of_us": as_of_us} for run in runs]
    warnings += _versions(runs)
    ledger = LedgerFrames(
        reduce(DataFrame.unionAll, frames),
        spark.createDataFrame(pa.Table.from_pylist(runs, columns.RUNS), RUNS),
        spark.createDataFrame(pa.Table.from_pylist(moves, columns.MOVES), MOVES),
    )
    is_cheap = foreign is None and all(isinstance(each.deliveries, HadoopPath) for each in sources)
    return LedgerReading(ledger, finder.broken, warnings, is_cheap)


class _SourceFinder:
    """Finds stores, exports and files, each once, and notes which are broken."""

    def __init__(self, spark: SparkSession) -> None:
        self.broken: list[BrokenSource] = []
        self.stores: list[HadoopPath] = []
        self.exports: list[_ExportFolder] = []
        self.files: list[ExternalFile] = []
        self._places = HadoopFiles(spark)
        self._seen: set[str] = set()

    def look(self, data: str) -> None:
        """Look at a path or URL, and into folders."""
        try:
            place = self._places.find(data)
        except BrokenLedgerError as error:
            self.leave_out(data, error)
            return
        if not self._look(place, _DEPTH):
            self.leave_out(place, f"there is no ledger in it: {_ALLOWED}")

    def leave_out(self, source: object, reason: object) -> None:
        """Note a source that cannot be read."""
        self.broken.append(BrokenSource(source=str(source), reason=str(reason)))

    def _look(self, place: HadoopPath, depth: int) -> bool:
        """Add the ledgers at or below a path. Returns whether there are any, even broken ones."""
        try:
            if external_files.is_file(place):
                if self._is_new(place):
                    self.files.append(external_files.inspect(self._places, place))
                return True
            if not place.is_folder:
                if is_store := place.name.endswith(".db"):
                    self._add_store(place)
                return is_store
            inside = {each.name: each for each in self._places.inside(place)}
            if FILE_NAME in inside:
                self._add_store(inside[FILE_NAME])
                return True
            if "deliveries" in inside:
                if self._is_new(place):
                    self.exports.append(self._export(place, inside))
                return True
        except BrokenLedgerError as error:
            self.leave_out(place, error)
            return True
        found = [self._look(each, depth - 1) for each in inside.values()] if depth else []
        return any(found)

    def _is_new(self, place: HadoopPath) -> bool:
        is_new = place.url not in self._seen
        self._seen.add(place.url)
        return is_new

    def _add_store(self, database: HadoopPath) -> None:
        if database.local is None:
            raise BrokenLedgerError(
                "a store is read on the machine where it is: write it with mocketmq export, and read that"
            )
        if self._is_new(database):
            self.stores.append(database)

    def _export(self, place: HadoopPath, inside: dict[str, HadoopPath]) -> _ExportFolder:
        """Check the columns of all files of an export."""
        found = {}
        for name, schema in (("deliveries", DELIVERIES), ("runs", RUNS), ("moves", MOVES)):
            folder = inside.get(name)
            if folder is None or not folder.is_folder:
                raise BrokenLedgerError(f"the folder {name} of an export is not there")
            found[name] = [file for file in self._places.files(folder) if file.name.endswith(".parquet")]
            for file in found[name]:
                self._check(file, set(schema.names) - ({"run"} if name == "deliveries" else set()))
        if found["deliveries"] and not found["runs"]:
            raise BrokenLedgerError("the folder runs of an export is empty")
        return _ExportFolder(place, inside["deliveries"], found["runs"], found["moves"])

    def _check(self, file: HadoopPath, needed: set[str]) -> None:
        try:
            missing = sorted(needed.difference(self._places.parquet_columns(file)))
        except BrokenLedgerError as error:
            raise BrokenLedgerError(f"{file.name}: {error}") from error
        if missing:
            raise BrokenLedgerError(f"{file.name} has no column {', '.join(missing)}")


def _stores(finder: _SourceFinder, as_of_us: int | None) -> list[_SourceOfRuns]:
    opened = []
    for place in finder.stores:
        path = Path(str(place))
        path = path.parent if path.name == FILE_NAME else path
        try:
            store = take_snapshot(path, ignore_progress, as_of_us)
        except StoreError as error:
            finder.leave_out(path, error)
            continue
        opened.append(_SourceOfRuns(str(path), store.runs.to_pylist(), store.moves.to_pylist(), store))
    return opened


def _exports(spark: SparkSession, exports: Sequence[_ExportFolder]) -> list[_SourceOfRuns]:
    runs = _by_file(spark, [file for export in exports for file in export.runs], RUNS)
    moves = _by_file(spark, [file for export in exports for file in export.moves], MOVES)
    return [
        _SourceOfRuns(
            str(export.place),
            [row | {"source": str(export.place)} for file in export.runs for row in runs.get(file.uri, [])],
            [row for file in export.moves for row in moves.get(file.uri, [])],
            export.deliveries,
        )
        for export in exports
    ]


def _by_file(
    spark: SparkSession, parts: Sequence[HadoopPath], schema: StructType
) -> dict[str, list[dict[str, Any]]]:
    """The rows of small files, which are read together."""
    found: dict[str, list[dict[str, Any]]] = {}
    if parts:
        read = spark.read.schema(schema).parquet(*(part.pattern for part in parts))
        for row in _dicts(read.withColumn("file", file_of_row())):
            found.setdefault(row.pop("file"), []).append(row)
    return found


def _repeated(sources: Sequence[_SourceOfRuns], warnings: list[str]) -> dict[str, set[str]]:
    """The runs that are left out of each source, since another one knows them until later."""
    repeated: dict[str, set[str]] = {}
    owners: dict[str, str] = {}
    for each in sorted(
        sources, key=lambda each: -max((run["as_of_us"] or 0 for run in each.runs), default=0)
    ):
        again = {run["run"] for run in each.runs} & set(owners)
        repeated[each.name] = again
        if again:
            others = ", ".join(sorted({owners[run] for run in again}))
            what = f"{len(again)} of the {len(each.runs)} runs of {each.name}"
            warnings.append(f"{what} are also in {others}, and are counted there only")
        owners |= {run["run"]: each.name for run in each.runs if run["run"] not in again}
    return repeated


def _frames(
    spark: SparkSession, sources: Sequence[_SourceOfRuns], repeated: dict[str, set[str]]
) -> list[DataFrame]:
    """The deliveries of stores and exports, without repeated runs."""
    frames = _deliveries(spark, [each for each in sources if not repeated[each.name]])
    for each in sources:
        again = repeated[each.name]
        if 0 < len(again) < len(each.runs):
            frames += [frame.filter(~F.col("run").isin(*again)) for frame in _deliveries(spark, [each])]
    return frames


def _deliveries(spark: SparkSession, sources: Sequence[_SourceOfRuns]) -> list[DataFrame]:
    """Deliveries: one frame of all stores and one of all exports."""
    stores = [each.deliveries for each in sources if isinstance(each.deliveries, StoreSnapshot)]
    folders = [each.deliveries for each in sources if isinstance(each.deliveries, HadoopPath)]
    frames = [open_stores(spark, stores).deliveries] if stores else []
    return [*frames, _exported(spark, folders)] if folders else frames


def _exported(spark: SparkSession, folders: Sequence[HadoopPath]) -> DataFrame:
    """The deliveries in ``day=…/run=…`` below each folder."""
    paths = [folder.pattern for folder in folders]
    reader = spark.read.option("pathGlobFilter", "*.parquet").schema(DELIVERIES)
    if len(paths) == 1:
        return reader.parquet(*paths).select(*DELIVERIES.names)
    # Spark makes columns of the names of folders only if all are below one folder.
    run = F.substring_index(F.substring_index(F.col("_metadata.file_path"), "/run=", -1), "/", 1)
    read = reader.option("recursiveFileLookup", "true").parquet(*paths)
    return read.withColumn("run", run).select(*DELIVERIES.names)


def _foreign(
    spark: SparkSession, finder: _SourceFinder
) -> tuple[list[ExternalFile], DataFrame | None, list[dict[str, Any]]]:
    """The files from elsewhere that can be read to the end, with their rows and runs."""
    good = _named_apart(finder.files)
    if not good:
        return [], None, []
    try:
        runs = _runs_of(spark, good)
    except FAILURES:  # find out in which file
        runs = []
        for file in list(good):
            try:
                runs += _runs_of(spark, [file])
            except FAILURES as error:
                finder.leave_out(file.place, f"it cannot be read: {reason_of(error)}")
                good.remove(file)
    if not good:
        return [], None, []
    return good, external_files.rows(spark, good).select(*DELIVERIES.names, UNREADABLE), runs


def _named_apart(found: Sequence[ExternalFile]) -> list[ExternalFile]:
    """Name runs apart whose files have the same name: by folder too, or else by the whole path."""
    named = list(found)
    for name_of in (lambda place: "/".join(place.url.split("/")[-2:]), str):
        counts = Counter(file.run for file in named)
        named = [file if counts[file.run] == 1 else file._replace(run=name_of(file.place)) for file in named]
    return named


def _runs_of(spark: SparkSession, good: Sequence[ExternalFile]) -> list[dict[str, Any]]:
    """A row of RUNS for each run that the files name, and for each file without rows."""
    happened = [name for name in DELIVERIES.names if name.endswith("_us") and name != "due_us"]
    rows = kept(external_files.rows(spark, good))
    found = rows.groupBy("run").agg(
        F.min("source").alias("source"),
        *(F.max(name).alias(name) for name in external_files.ABOUT_RUN),
        F.max(F.greatest(*happened)).alias("as_of_us"),
    )
    runs = _dicts(found)
    empty = {str(file.place): file.run for file in good}
    for run in runs:
        empty.pop(run["source"], None)
    runs += [{"run": run, "source": source, "as_of_us": None} for source, run in empty.items()]
    said = dict.fromkeys((*external_files.ABOUT_RUN, "levels", "durability"), UNKNOWN)
    return [
        said | {name: what for name, what in run.items() if what is not None} | {"store": run["run"]}
        for run in runs
    ]


def _ignored(good: Iterable[ExternalFile]) -> list[str]:
    """A warning for each set of ignored columns."""
    sources: dict[tuple[str, ...], list[str]] = {}
    for file in good:
        if file.ignored:
            sources.setdefault(tuple(file.ignored), []).append(str(file.place))
    return [
        f"{source}{f' and {len(others)} more' if others else ''}: ignored {', '.join(names)}"
        for names, (source, *others) in sources.items()
    ]


def _versions(runs: Iterable[dict[str, Any]]) -> list[str]:
    counts = Counter(run["version"] for run in runs if run["version"] not in (None, UNKNOWN))
    if len(counts) < 2:
        return []
    said = ", ".join(f"{version} ({count})" for version, count in sorted(counts.items()))
    return [f"the runs are of different versions: {said}"]


def _dicts(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]
