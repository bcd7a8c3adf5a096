"""Reads stores, exports, external files, and folders of these as one ledger.

A store is a data directory of mocketmq. An export is the folder that ``mocketmq export`` writes, with
``deliveries/day=…/run=…/*.parquet``, ``runs/*.parquet``, ``moves/*.parquet`` and, for consumers' faults,
``faults/*.parquet``. Unreadable sources are left out and named. A run in several sources counts once. Sources
of one kind are read together, so that a hundred sources make one plan.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from mocketmq.errors import StoreError
from mocketmq.store.database import FILE_NAME
from mocketmq_report.document import BrokenSource
from mocketmq_report.ledger import external_files, external_parts, external_runs
from mocketmq_report.ledger.columns import DELIVERIES, MOVES, OPTIONAL, RUNS, STRUCK, UNKNOWN
from mocketmq_report.ledger.external_files import FORMATS, ExternalFile, parse_name
from mocketmq_report.ledger.external_runs import LookForRuns
from mocketmq_report.ledger.ledger import (
    BrokenLedgerError,
    Extent,
    Ledger,
    LedgerPart,
    Loaded,
    StoreRange,
    WithoutRuns,
    row_groups,
)
from mocketmq_report.ledger.places import DataLocation, Places, SparkStarter, files
from mocketmq_report.ledger.quality import UNREADABLE
from mocketmq_report.ledger.store_snapshot import StoreSnapshot, take_snapshot
from mocketmq_report.ledger.work import Carrier, carry_here
from mocketmq_report.progress import ignore_progress

_ALLOWED: Final = (
    "allowed are a data directory of mocketmq, what mocketmq export wrote, a file with the columns of"
    f" docs/ledger-format.md ({FORMATS}), and a folder of these"
)
_FOLDERS: Final = {"deliveries": DELIVERIES, "runs": RUNS, "moves": MOVES, "faults": STRUCK}
"""The folders of an export."""
_DEPTH: Final = 5  # maximum depth of nested folders
_PART_ROWS: Final = 500_000
_LITTLE: Final = 20_000_000  # maximum bytes of text for Python to read instead of Spark


class LedgerReading(NamedTuple):
    """A ledger with unread rows."""

    ledger: Ledger
    broken: list[BrokenSource]
    warnings: list[str]  # sentences


class _ExportFolder(NamedTuple):
    place: DataLocation
    deliveries: DataLocation
    files: list[DataLocation]
    runs: list[DataLocation]
    moves: list[DataLocation]
    struck: list[DataLocation]


class _SourceOfRuns(NamedTuple):
    """A store or an export. Its runs may also be in another source."""

    name: str
    runs: list[dict[str, Any]]
    moves: list[dict[str, Any]]
    struck: list[dict[str, Any]]
    deliveries: _ExportFolder | StoreSnapshot


def read(
    data: Sequence[str],
    spark: SparkStarter | None = None,
    carry: Carrier = carry_here,
    *,
    as_of_us: int | None = None,
) -> LedgerReading:
    """Read paths and URLs as one ledger. Raises BrokenLedgerError if none is readable.

    Reads runs, clock moves and undelivered messages of stores immediately, and, by ``carry``, all external
    files. URLs need Spark; without Spark they are left out and named. Undelivered messages due by
    ``as_of_us`` are overdue; by default, the latest instant of each run decides.
    """
    finder = _SourceFinder(spark)
    for each in data:
        finder.look(each)
    sources = [*_exports(finder), *_stores(finder, as_of_us)]
    warnings: list[str] = []
    repeated = _repeated(sources, warnings)
    found = _Found()
    for source in sources:
        found.add(source, repeated[source.name])
    runs = [run for each in sources for run in each.runs if run["run"] not in repeated[each.name]]
    moves = [move for each in sources for move in each.moves if move["run"] not in repeated[each.name]]
    struck = [row for each in sources if not repeated[each.name] for row in each.struck]
    files = external_files.named_apart(finder.files)
    rest = [file for file in files if not all(map(external_files.is_for_python, file.parts))]
    by_python = _by_python(finder, found, [file for file in files if file not in rest], runs, carry)
    if rest or found.folders:
        _by_spark(finder, found, rest, runs)
    warnings += _ignored([*by_python, *rest])
    if not found.parts and not runs:
        raise BrokenLedgerError(
            "there is nothing that can be read: "
            + "; ".join(f"{each.source}: {each.reason}" for each in finder.broken)
        )
    if as_of_us is not None:
        runs = [run | {"as_of_us": as_of_us} for run in runs]
    warnings += _versions(runs)
    ledger = Ledger(
        found.parts,
        pa.Table.from_pylist(runs, RUNS),
        pa.Table.from_pylist(moves, MOVES),
        found.extent,
        pa.Table.from_pylist(struck, STRUCK),
    )
    return LedgerReading(ledger, finder.broken, warnings)


class _Found:
    """The parts of a ledger, and their extent."""

    def __init__(self) -> None:
        self.parts: list[LedgerPart] = []
        self.folders: list[tuple[_ExportFolder, set[str]]] = []  # exports at URLs, with the runs to leave out
        self.extent = Extent(0, 0, 0)

    def add(self, source: _SourceOfRuns, repeated: set[str]) -> None:
        """Add the parts of a store or an export, without repeated runs."""
        if isinstance(source.deliveries, StoreSnapshot):
            self._add_store(source.deliveries, frozenset(repeated))
        elif source.deliveries.place.local is None:
            self.folders.append((source.deliveries, repeated))
        else:
            for file in source.deliveries.files:
                self._add_file(file, repeated)

    def cover(self, extent: Extent) -> None:
        """Extend the extent to these further rows."""
        both = [each for each in (self.extent, extent) if each.delivered_to_us]
        self.extent = Extent(
            self.extent.rows + extent.rows,
            min((each.delivered_from_us for each in both), default=0),
            max((each.delivered_to_us for each in both), default=0),
        )

    def _add_store(self, store: StoreSnapshot, repeated: frozenset[str]) -> None:
        if repeated.issuperset(store.names.values()):
            return
        database = str(store.database.absolute())
        parts: list[StoreRange | Loaded] = [
            StoreRange(database, store.names, span, rows)
            for span, rows in zip(store.ranges, store.rows_of_ranges, strict=True)
        ]
        parts.append(Loaded(store.undelivered))
        self.parts += [WithoutRuns(part, repeated) for part in parts] if repeated else parts
        self.cover(Extent(sum(part.rows for part in parts), *store.delivered_us))

    def _add_file(self, file: DataLocation, repeated: set[str]) -> None:
        run = _run_of(file)
        if run in repeated:
            return
        metadata = pq.read_metadata(str(file))
        for part in row_groups(str(file), run, metadata, _PART_ROWS):
            self.parts.append(part)
            self.cover(part.extent)


def _by_spark(
    finder: "_SourceFinder", found: _Found, external: Sequence[ExternalFile], runs: list[dict[str, Any]]
) -> None:
    """Add the rows that only Spark can read as the last part, and the runs of files."""
    from mocketmq_report.ledger import spark_rows  # noqa: PLC0415 - only if Spark is needed

    spark = finder.places.spark()
    frames = []
    for folder, repeated in found.folders:
        frame = spark_rows.exported(spark, [folder.deliveries])
        frames.append(frame.filter(~frame["run"].isin(*repeated)) if repeated else frame)
        found.cover(spark_rows.extent_of(frames[-1]))
    good, their_runs = _readable_by_spark(finder, external)
    if good:
        frames.append(spark_rows.external(spark, good).select(*DELIVERIES.names, UNREADABLE))
        _add_runs(found, runs, their_runs, good)
    if frames:
        found.parts.append(spark_rows.SparkRows(spark_rows.joined(frames), found.extent.rows))


def _readable_by_spark(
    finder: "_SourceFinder", files: Sequence[ExternalFile]
) -> tuple[list[ExternalFile], pa.Table]:
    """Return the files that Spark can read to the end, and their runs."""
    from mocketmq_report.ledger import spark_rows  # noqa: PLC0415
    from mocketmq_report.ledger.hadoop_places import FAILURES, reason_of  # noqa: PLC0415

    spark, good = finder.places.spark(), list(files)
    try:
        return good, spark_rows.runs_of(spark, good)
    except FAILURES:  # find the unreadable files
        for file in files:
            try:
                spark_rows.runs_of(spark, [file])
            except FAILURES as error:
                finder.leave_out(file.place, f"it cannot be read: {reason_of(error)}")
                good.remove(file)
    return good, spark_rows.runs_of(spark, good)


def _by_python(
    finder: "_SourceFinder",
    found: _Found,
    files: Sequence[ExternalFile],
    runs: list[dict[str, Any]],
    carry: Carrier,
) -> list[ExternalFile]:
    """Add the files that Python can read to the end, and their runs. Returns these files."""
    size = sum(place.size for file in files for place in file.parts)
    carry = carry_here if size < _LITTLE else carry
    owners: list[ExternalFile] = []
    parts: list[LedgerPart] = []
    for file in files:
        of_file = list(external_parts.parts_of(file))
        owners += [file] * len(of_file)
        parts += of_file
    looked = carry(LookForRuns(), dict(enumerate(parts)))
    if looked.broken:
        reasons = {owners[number]: why for number, why in looked.broken.items()}
        for file, why in reasons.items():
            finder.leave_out(file.place, why)
        return _by_python(finder, found, [file for file in files if file not in reasons], runs, carry)
    found.parts += parts
    _add_runs(found, runs, looked.runs, files)
    return list(files)


def _add_runs(
    found: _Found, runs: list[dict[str, Any]], of_files: pa.Table, files: Sequence[ExternalFile]
) -> None:
    told, extent = external_runs.runs(of_files, {str(file.place): file.run for file in files})
    runs += told
    found.cover(extent)


class _SourceFinder:
    """Finds stores, exports and files, each once, and records which are broken."""

    def __init__(self, spark: SparkStarter | None) -> None:
        self.broken: list[BrokenSource] = []
        self.stores: list[DataLocation] = []
        self.exports: list[_ExportFolder] = []
        self.files: list[ExternalFile] = []
        self.places = Places(spark)
        self._seen: set[str] = set()

    def look(self, data: str) -> None:
        """Look at a path or URL, and inside folders."""
        try:
            place = self.places.find_data(data)
        except BrokenLedgerError as error:
            self.leave_out(data, error)
            return
        if not self._look(place, _DEPTH):
            self.leave_out(place, f"there is no ledger in it: {_ALLOWED}")

    def leave_out(self, source: object, reason: object) -> None:
        """Record an unreadable source."""
        self.broken.append(BrokenSource(source=str(source), reason=str(reason)))

    def _look(self, place: DataLocation, depth: int) -> bool:
        """Add the ledgers at or below a path. Returns whether there are any ledgers, readable or broken."""
        try:
            if parse_name(place.name):
                if self._is_new(place):
                    self._add_file(place)
                return True
            if not place.is_folder:
                if is_store := place.name.endswith(".db"):
                    self._add_store(place)
                return is_store
            inside = {each.name: each for each in self.places.inside(place)}
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

    def _is_new(self, place: DataLocation) -> bool:
        is_new = place.url not in self._seen
        self._seen.add(place.url)
        return is_new

    def _add_file(self, place: DataLocation) -> None:
        if all(map(external_files.is_for_python, files(self.places, place) if place.is_folder else [place])):
            self.files.append(external_files.inspect(self.places, place))
            return
        places = self.places.hadoop()
        self.files.append(external_files.inspect(places, places.find_data(place.url)))

    def _add_store(self, database: DataLocation) -> None:
        if database.local is None:
            raise BrokenLedgerError(
                "a store can be read only on its own machine; use mocketmq export, and report on the export"
            )
        if self._is_new(database):
            self.stores.append(database)

    def _export(self, place: DataLocation, inside: dict[str, DataLocation]) -> _ExportFolder:
        """Check the columns of all files of an export."""
        found: dict[str, list[DataLocation]] = {}
        for name, schema in _FOLDERS.items():
            folder = inside.get(name)
            if folder is None and name == "faults":  # absent without consumer faults, or in an old export
                found[name] = []
                continue
            if folder is None or not folder.is_folder:
                raise BrokenLedgerError(f"the export has no folder {name}")
            found[name] = [file for file in files(self.places, folder) if file.name.endswith(".parquet")]
            for file in found[name]:
                self._check(file, set(schema.names) - ({"run", *OPTIONAL} if name == "deliveries" else set()))
        if found["deliveries"] and not found["runs"]:
            raise BrokenLedgerError("the folder runs of an export is empty")
        return _ExportFolder(place, inside["deliveries"], *(found[name] for name in _FOLDERS))

    def _check(self, file: DataLocation, needed: set[str]) -> None:
        try:
            missing = sorted(needed.difference(self.places.parquet_columns(file)))
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
        runs, moves, struck = (table.to_pylist() for table in (store.runs, store.moves, store.struck))
        opened.append(_SourceOfRuns(str(path), runs, moves, struck, store))
    return opened


def _exports(finder: _SourceFinder) -> list[_SourceOfRuns]:
    return [
        _SourceOfRuns(
            str(export.place),
            _runs(export, _rows(finder, export.runs, RUNS)),
            _rows(finder, export.moves, MOVES),
            _rows(finder, export.struck, STRUCK),
            export,
        )
        for export in finder.exports
    ]


def _runs(export: _ExportFolder, told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs of an export. If the export was killed, only the names of some may be known."""
    runs = {run: dict.fromkeys(RUNS.names) | {"run": run, "store": run} for run in map(_run_of, export.files)}
    runs |= {row["run"]: row for row in told}
    return [row | {"source": str(export.place)} for row in runs.values()]


def _run_of(file: DataLocation) -> str:
    """Return the run of the deliveries in a file of an export."""
    return unquote(file.url.split("/")[-2].removeprefix("run="))


def _rows(finder: _SourceFinder, small: Sequence[DataLocation], schema: pa.Schema) -> list[dict[str, Any]]:
    here = [pq.ParquetFile(file.local).read(schema.names) for file in small if file.local]
    there = [file for file in small if not file.local]
    if there:
        from mocketmq_report.ledger import spark_rows  # noqa: PLC0415 - only if Spark is needed

        here.append(spark_rows.small_table(finder.places.spark(), there, schema))
    return [row for table in here for row in table.to_pylist()]


def _repeated(sources: Sequence[_SourceOfRuns], warnings: list[str]) -> dict[str, set[str]]:
    """Find the runs to leave out of each source, because another source has later data of them."""
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


def _ignored(good: Iterable[ExternalFile]) -> list[str]:
    """Make a warning for each set of ignored columns."""
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
