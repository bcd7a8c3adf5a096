"""Keep what was measured as Parquet: a rollup, from which reports are made when the ledger is gone.

A rollup is a directory with a folder for each table: ``lateness`` has counts in bins by run, level, scheme,
topic and minute, ``runs`` and ``moves`` are those of the ledger, and the rest are partial tables. Rollups
are merged by reading them together. Counts and percentiles are those of one rollup of all rows, except that

- a message with deliveries in different rollups counts in each of them, and disorder between two is not
  noticed: the runs of a store belong in one rollup;
- counts up to a limit that is not one of ``CUTOFFS_US`` leave out the bin of the limit;
- steps of time are at least minutes;
- causes are of deliveries later than ``on_time_us`` was when the rollups were written.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.compute import outcomes, timeline, worst
from mocketmq_report.compute.kernel import EMPTY
from mocketmq_report.compute.one_pass import Measured
from mocketmq_report.compute.partial import merge
from mocketmq_report.compute.summary import SHAPES
from mocketmq_report.compute.tables import CUTOFFS_US
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import Place, Places
from mocketmq_report.ledger.table_files import TableFiles
from mocketmq_report.progress import ProgressCallback

_CAUSES: Final = ("late", "waits", "busy")
"""Tables that rollups of earlier versions lack."""
_KEPT: Final = ("outcomes", "stages", "herds", "disorder", *_CAUSES)
"""Tables that are kept as they were measured."""
_TABLES: Final = (*_KEPT, "lateness", "again", "worst", "runs", "moves")
_ABOUT: Final = "about"
"""The table that says whether the others are complete."""


class BrokenRollupError(BrokenLedgerError):
    """A rollup cannot be read, or cannot be read together with another."""


class Rollup(NamedTuple):
    """One rollup, or several that were merged."""

    measured: Measured
    runs: pa.Table
    moves: pa.Table


def find(places: Places, data: Sequence[str]) -> list[str]:
    """Find the rollups at paths and URLs, or in folders there. Returns none if all are ledgers.

    Raises BrokenRollupError if some are rollups and others are not.
    """
    found: list[str] = []
    others: list[str] = []
    for each in data:
        try:
            inside = _rollups(places, places.find(each))
        except BrokenLedgerError:
            inside = []  # reading it as a ledger will say what is wrong
        found += inside
        others += [] if inside else [each]
    if found and others:
        raise BrokenRollupError(
            f"rollups are reported by themselves, and {others[0]} is none: leave it out, or roll it up first"
        )
    return found


def _rollups(places: Places, place: Place) -> list[str]:
    """The path itself if it is a rollup, or the folders in it if all of them are."""
    if _is_one(places, place):
        return [str(place)]
    folders = [each for each in places.inside(place) if each.is_folder] if place.is_folder else []
    return [str(each) for each in folders] if all(_is_one(places, each) for each in folders) else []


def _is_one(places: Places, place: Place) -> bool:
    return place.is_folder and any(each.name == _ABOUT for each in places.inside(place))


def save(
    measured: Measured,
    runs: pa.Table,
    moves: pa.Table,
    path: str,
    files: TableFiles,
    progress: ProgressCallback,
) -> None:
    """Write a rollup of what was measured, with lateness by minute, over an earlier one."""
    tables = {name: getattr(measured.summary, name) for name in _KEPT}
    tables |= {"lateness": measured.summary.minutes, "again": measured.again, "worst": measured.worst}
    tables |= {"runs": runs, "moves": moves}
    _mark(files, path, is_whole=False)
    for done, name in enumerate(_TABLES):
        progress("rolling up", done, len(_TABLES))
        files.write(tables[name], f"{path}/{name}")
    _mark(files, path, is_whole=True)


def load(paths: Sequence[str], files: TableFiles) -> Rollup:
    """Read rollups as one. Raises BrokenRollupError if one is incomplete, or if two have the same run."""
    try:
        about = files.read([f"{path}/{_ABOUT}" for path in paths])
        has_causes = "has_causes" in about.column_names and all(about["has_causes"].to_pylist())
        found = {
            name: files.read([f"{path}/{name}" for path in paths])
            for name in _TABLES
            if has_causes or name not in _CAUSES
        }
    except BrokenLedgerError as error:
        raise BrokenRollupError(f"the rollups cannot be read: {error}") from error
    for path, is_whole in zip(about["path"].to_pylist(), about["is_whole"].to_pylist(), strict=True):
        if not is_whole:
            raise BrokenRollupError(
                f"the rollup {path} was not written to its end; write it again from the ledger"
            )
    for run, count in sorted(Counter(found["runs"]["run"].to_pylist()).items()):
        if count > 1:
            raise BrokenRollupError(
                f"run {run} is in more than one of the rollups and would be counted twice;"
                " give only one of them"
            )
    if "group" not in found["stages"].column_names:  # of an earlier version
        found["stages"] = found["stages"].append_column(
            "group", pa.nulls(found["stages"].num_rows, pa.string())
        )
    found["disorder"] = _with_schemes(found["disorder"])
    if "waits" in found and "struck" not in found["waits"].column_names:
        found["waits"] = found["waits"].append_column(
            "struck", pa.nulls(found["waits"].num_rows, pa.string())
        )
    kept = {name: merge([found[name]], SHAPES[name]) for name in (*_KEPT, "lateness") if name in found}
    extent = outcomes.extent(kept["outcomes"])
    span_us = extent.delivered_to_us - extent.delivered_from_us
    step_us = max(timeline.step_us(span_us), timeline.MINUTE_US)
    summary = EMPTY._replace(**kept, timeline=timeline.of_minutes(found["lateness"], step_us))
    late = worst.worst_of(found["worst"].select(worst.ROWS.names).cast(worst.ROWS))
    measured = Measured(summary, found["again"], late, is_exact=False, split_us=CUTOFFS_US, step_us=step_us)
    return Rollup(measured, found["runs"], found["moves"])


def _with_schemes(disorder: pa.Table) -> pa.Table:
    """Rollups of earlier versions know the order of levels alone, and do not say so."""
    levels = pa.scalar("levels")
    if "scheme" not in disorder.column_names:
        return disorder.append_column("scheme", pa.repeat(levels, disorder.num_rows))
    place = disorder.column_names.index("scheme")
    return disorder.set_column(place, "scheme", pc.fill_null(disorder["scheme"], levels))


def _mark(files: TableFiles, path: str, *, is_whole: bool) -> None:
    files.write(pa.table({"path": [path], "is_whole": [is_whole], "has_causes": [True]}), f"{path}/{_ABOUT}")
