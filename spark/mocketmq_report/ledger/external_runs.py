"""Finds the runs in external files, and the files that cannot be read to their end."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.columns import DELIVERIES, UNKNOWN
from mocketmq_report.ledger.external_values import ABOUT_RUN
from mocketmq_report.ledger.ledger import Columns, Extent
from mocketmq_report.ledger.places import said
from mocketmq_report.ledger.quality import faults
from mocketmq_report.ledger.rows import Rows

_HAPPENED: Final = [name for name in DELIVERIES.names if name.endswith("_us") and name != "due_us"]
_TEXTS: Final = ("source", *ABOUT_RUN)
FOUND: Final = pa.schema(
    [(name, pa.string()) for name in ("run", *_TEXTS)]
    + [(name, pa.int64()) for name in ("as_of_us", "rows", "first_us", "last_us")]
)
"""Facts about each run."""
_HOW: Final = {
    **dict.fromkeys(("source", "first_us"), "min"),
    **dict.fromkeys((*ABOUT_RUN, "as_of_us", "last_us"), "max"),
    "rows": "sum",
}


class RunsOrWhy(NamedTuple):
    """The runs of the readable parts, and the reasons why other parts are unreadable."""

    runs: pa.Table
    broken: dict[int, str]


class LookForRuns(NamedTuple):
    """A job for the carrier: find the runs of parts."""

    def columns(self, part: int) -> Columns:  # noqa: ARG002 - the same for all parts
        return Columns(DELIVERIES.names, ())

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> RunsOrWhy:
        """Read a part."""
        try:
            return RunsOrWhy(joined(found_in(batch) for batch in batches), {})
        except (OSError, pa.ArrowException) as error:
            return RunsOrWhy(FOUND.empty_table(), {part: f"it cannot be read: {said(error)}"})

    def join(self, made: Sequence[RunsOrWhy]) -> RunsOrWhy:
        """Merge the results of several parts."""
        broken = {part: why for each in made for part, why in each.broken.items()}
        return RunsOrWhy(joined(each.runs for each in made), broken)


def found_in(batch: pa.RecordBatch) -> pa.Table:
    """Collect facts about runs from the usable rows of a batch."""
    rows = Rows.of([batch])
    rows = rows.where(faults(rows).is_null().to_numpy(zero_copy_only=False))
    columns = {name: rows.column(name).cast(pa.string()) for name in ("run", *_TEXTS)} | {
        "as_of_us": pc.max_element_wise(*(rows.column(name) for name in _HAPPENED)),
        "rows": pa.repeat(pa.scalar(1, pa.int64()), len(rows)),
        **dict.fromkeys(("first_us", "last_us"), rows.column("delivered_us")),
    }
    return joined([pa.table(columns)])


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Merge tables of ``FOUND``."""
    whole = pa.concat_tables([FOUND.empty_table(), *(table.cast(FOUND) for table in tables)])
    found = whole.group_by("run").aggregate(list(_HOW.items()))
    names = {f"{name}_{by}": name for name, by in _HOW.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names]).select(FOUND.names)


def runs(found: pa.Table, files: Mapping[str, str]) -> tuple[list[dict[str, Any]], Extent]:
    """Make a row of RUNS for each run found, and for each file without rows. Also returns the extent.

    ``files`` has the default run of each file, by the file's name.
    """
    told = found.to_pylist()
    empty = {source: run for source, run in files.items() if source not in {row["source"] for row in told}}
    rows = [{name: row[name] for name in ("run", *_TEXTS, "as_of_us")} for row in told]
    rows += [{"run": run, "source": source, "as_of_us": None} for source, run in empty.items()]
    unknown = dict.fromkeys((*ABOUT_RUN, "levels", "durability"), UNKNOWN)
    extent = Extent(
        sum(row["rows"] for row in told),
        min((row["first_us"] for row in told if row["first_us"] is not None), default=0),
        max((row["last_us"] for row in told if row["last_us"] is not None), default=0),
    )
    return [
        unknown | {name: what for name, what in row.items() if what is not None} | {"store": row["run"]}
        for row in rows
    ], extent
