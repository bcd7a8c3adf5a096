"""Rollups: measurements as Parquet, for reports after the ledger is gone.

A rollup is a directory with a folder for each table: ``lateness`` has counts in bins by run, level, scheme,
topic and minute, ``runs`` and ``moves`` come from the ledger, and the other tables are partial tables.
Rollups merge when they are read together. Counts and percentiles are the same as in a single rollup of all
rows, except that

- a message with deliveries in two rollups counts in both, and violations of order between two rollups go
  unnoticed, so keep the runs of a store in one rollup;
- counts up to limits other than ``CUTOFFS_US`` omit the bin of the limit;
- steps of time are at least minutes;
- causes refer to the ``on_time_us`` of the time when the rollups were written.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from mocketmq_report.compute import outcomes, timeline, worst
from mocketmq_report.compute.kernel import EMPTY
from mocketmq_report.compute.one_pass import Measurements
from mocketmq_report.compute.partial import Shape, coded, merge
from mocketmq_report.compute.summary import SHAPES, without_codes
from mocketmq_report.compute.tables import CUTOFFS_US
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import DataLocation, Places
from mocketmq_report.ledger.table_files import TableFiles
from mocketmq_report.progress import ProgressCallback, ignore_progress

_CAUSES: Final = ("late", "waits", "busy")
"""Tables that rollups of earlier versions lack."""
_KEPT: Final = ("outcomes", "stages", "herds", "disorder", *_CAUSES)
"""Tables that are kept as they were measured."""
_ADDED: Final[dict[str, dict[str, str | int | bool | None]]] = {
    "stages": {"group": None},
    "waits": {
        **{"struck": None, "is_held": True, "group": None},
        **dict.fromkeys(("time", "held", "most_held", "most_rest"), 0),
    },
    "disorder": {"scheme": "levels"},
    "lateness": {"broker": None},
}
"""Columns that tables of earlier versions lack, with the value that a missing column means."""
_TABLES: Final = (*_KEPT, "lateness", "again", "worst", "runs", "moves")
_ABOUT: Final = "about"
"""Name of the table that says whether the other tables are complete."""


class BrokenRollupError(BrokenLedgerError):
    """A rollup is unreadable, alone or together with another."""


class Rollup(NamedTuple):
    """One rollup, or several merged ones."""

    measured: Measurements
    runs: pa.Table
    moves: pa.Table


def find_rollups(places: Places, data: Sequence[str]) -> list[str]:
    """Find rollups at paths and URLs, or in folders there. Returns an empty list if all are ledgers.

    Raises BrokenRollupError if some paths are rollups and others are not.
    """
    found: list[str] = []
    others: list[str] = []
    for each in data:
        try:
            inside = _rollups(places, places.find_data(each))
        except BrokenLedgerError:
            inside = []  # the caller reads the path as a ledger, which raises the error
        found += inside
        others += [] if inside else [each]
    if found and others:
        raise BrokenRollupError(
            f"rollups cannot be reported together with other data: {others[0]} is not a rollup; leave it out,"
            " or roll it up first"
        )
    return found


def _rollups(places: Places, place: DataLocation) -> list[str]:
    """Return the path itself if it is a rollup, or the folders in it if all of them are rollups."""
    if _is_one(places, place):
        return [str(place)]
    folders = [each for each in places.inside(place) if each.is_folder] if place.is_folder else []
    return [str(each) for each in folders] if all(_is_one(places, each) for each in folders) else []


def _is_one(places: Places, place: DataLocation) -> bool:
    return place.is_folder and any(each.name == _ABOUT for each in places.inside(place))


def save(
    measured: Measurements,
    runs: pa.Table,
    moves: pa.Table,
    path: str,
    files: TableFiles,
    progress: ProgressCallback,
) -> None:
    """Write a rollup of the measurements, with lateness by minute, replacing an earlier one."""
    tables = {name: getattr(measured.summary, name) for name in _KEPT}
    tables |= {"lateness": measured.summary.minutes, "again": measured.again, "worst": measured.worst}
    tables |= {"runs": runs, "moves": moves}
    _mark(files, path, is_whole=False)
    for done, name in enumerate(_TABLES):
        progress("rolling up", done, len(_TABLES))
        files.write(tables[name], f"{path}/{name}")
    _mark(files, path, is_whole=True)


def load(paths: Sequence[str], files: TableFiles, progress: ProgressCallback = ignore_progress) -> Rollup:
    """Merge rollups. Raises BrokenRollupError if a rollup is incomplete, or if two have the same run."""
    about = _read(files, paths, _ABOUT)
    for path, is_whole in zip(about["path"].to_pylist(), about["is_whole"].to_pylist(), strict=True):
        if not is_whole:
            raise BrokenRollupError(
                f"the rollup {path} was not written to its end; write it again from the ledger"
            )
    runs = _read(files, paths, "runs")
    for run, count in sorted(Counter(runs["run"].to_pylist()).items()):
        if count > 1:
            raise BrokenRollupError(
                f"run {run} is in more than one of the rollups and would be counted twice;"
                " give only one of them"
            )
    extent = outcomes.extent(_read(files, paths, "outcomes"))
    span_us = extent.delivered_to_us - extent.delivered_from_us
    step_us = max(timeline.step_us(span_us), timeline.MINUTE_US)
    has_causes = "has_causes" in about.column_names and all(about["has_causes"].to_pylist())
    names = [name for name in _KEPT if has_causes or name not in _CAUSES]
    found = []
    for done, path in enumerate(paths):
        progress("reading", done, len(paths))
        found.append(_summary(files, path, names, step_us))
    summary = {name: _together([each[name] for each in found], SHAPES[name]) for name in found[0]}
    late = worst.worst_of(_read(files, paths, "worst").select(worst.ROWS.names).cast(worst.ROWS))
    measured = Measurements(
        without_codes(EMPTY._replace(**summary)),
        _read(files, paths, "again"),
        late,
        is_exact=False,
        split_us=CUTOFFS_US,
        step_us=step_us,
    )
    return Rollup(measured, runs, _read(files, paths, "moves"))


def _summary(files: TableFiles, path: str, names: Sequence[str], step_us: int) -> dict[str, pa.Table]:
    """Read the tables of one rollup without the minutes, because a year's minutes do not fit into memory."""
    minutes = _of_now("lateness", _read(files, [path], "lateness"))
    found = {name: _of_now(name, _read(files, [path], name)) for name in names} | {"lateness": minutes}
    merged = {name: merge([coded([table], SHAPES[name])], SHAPES[name]) for name, table in found.items()}
    return merged | {"timeline": timeline.of_minutes(minutes, step_us)}


def _together(tables: Sequence[pa.Table], shape: Shape) -> pa.Table:
    """Join the tables of several rollups, which have no run in common."""
    return pa.concat_tables(tables) if "run" in shape.keys else merge(tables, shape)


def _read(files: TableFiles, paths: Sequence[str], name: str) -> pa.Table:
    try:
        return files.read([f"{path}/{name}" for path in paths])
    except BrokenLedgerError as error:
        raise BrokenRollupError(f"the rollups cannot be read: {error}") from error


def _of_now(name: str, table: pa.Table) -> pa.Table:
    """Add the columns that earlier versions lacked to a table."""
    for column, meant in _ADDED.get(name, {}).items():
        if column not in table.column_names:
            kind = pa.string() if meant is None else None
            table = table.append_column(column, pa.repeat(pa.scalar(meant, kind), table.num_rows))
    return table


def _mark(files: TableFiles, path: str, *, is_whole: bool) -> None:
    files.write(pa.table({"path": [path], "is_whole": [is_whole], "has_causes": [True]}), f"{path}/{_ABOUT}")
