"""Makes the tables of a report from the measurements. The tables are sorted, and include empty levels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeVar

import pyarrow as pa

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute import bins, causes, herds, lateness, outcomes, stages, timeline
from mocketmq_report.compute.one_pass import Measurements
from mocketmq_report.compute.struck import counted
from mocketmq_report.compute.summary import Summary
from mocketmq_report.document import (
    STAGES,
    Cause,
    Disorder,
    Herd,
    Lateness,
    Marker,
    Reconciliation,
    Run,
    Spectrum,
    Stage,
    Timeline,
    Worst,
)
from mocketmq_report.ledger.columns import STATES, UNKNOWN
from mocketmq_report.on_time import DEFAULT_ON_TIME_US

CUTOFFS_US: Final = (
    10 * US_PER_MS,
    100 * US_PER_MS,
    US_PER_S,
    2 * US_PER_S,
    5 * US_PER_S,
    60 * US_PER_S,
)
"""The limits up to which every report counts deliveries."""
TOPICS: Final = 100
MARKERS: Final = 1000

_DIMENSIONS: Final = ("total", "level", "scheme", "profile", "topic", "broker", "run", "group")
_STAGES: Final = (*STAGES, "total")
_NOT_MEASURED: Final[dict[str, Any]] = {
    **dict.fromkeys(("measured", "overdue", "early", "on_time"), 0),
    **dict.fromkeys(("on_time_share", "min_us", "mean_us", "max_us")),
}
_NOTHING: Final[dict[str, Any]] = {
    **dict.fromkeys(("sent", *STATES, "repeats", "forced", "overdue"), 0),
    "is_silent": False,
}
_WORDS: Final = ("source", "version", "host", "profile", "clock", "levels", "durability")
_MANY_TOPICS: Final = f"only the {TOPICS} topics with the most deliveries are shown, there are more"
_CUTOFFS: Final = (
    "counts up to a limit for which the rollups have no bin may be too low, by the deliveries within a"
    " thousandth of the limit"
)

Grouped = TypeVar("Grouped", Lateness, Reconciliation)


class TablePlan(NamedTuple):
    """The options of a report's tables."""

    on_time_us: int = DEFAULT_ON_TIME_US  # see ``on_time.py``
    cutoffs_us: tuple[int, ...] = CUTOFFS_US
    percentiles: tuple[float, ...] = (50, 90, 99, 99.9)

    @property
    def split_us(self) -> list[int]:
        """Limits after which bins are split."""
        return sorted({*self.cutoffs_us, self.on_time_us})


class ReportTables(NamedTuple):
    """The tables of a ``document.Report``, and the facts about them in its header."""

    method: Literal["exact", "bins"]
    error: float
    cutoffs_us: list[int]
    runs: list[Run]
    lateness: list[Lateness]
    reconciliation: list[Reconciliation]
    stages: list[Stage]
    timeline: Timeline
    herds: list[Herd]
    disorder: list[Disorder]
    worst: list[Worst]
    spectra: list[Spectrum]
    causes: list[Cause]
    warnings: list[str]


def tables(
    measured: Measurements, runs: pa.Table, moves: pa.Table, plan: TablePlan, struck: pa.Table | None = None
) -> ReportTables:
    """Make the tables of a ledger, or of rollups, whose bins may be split at other limits.

    ``struck`` has the consumers' requests that faults hit; rollups lack these.
    """
    cutoffs_us, percentiles = sorted({*plan.cutoffs_us}), sorted({*plan.percentiles})
    run_rows = runs.sort_by([("started_wall_us", "ascending"), ("run", "ascending")]).to_pylist()
    run_rows.sort(key=lambda run: run["started_wall_us"] is not None)  # stable; unknown starts first
    move_rows = moves.sort_by([("wall_us", "ascending"), ("run", "ascending")]).to_pylist()
    by_run = {run["run"]: run for run in run_rows}
    summary = measured.summary

    topics = lateness.busiest(summary.lateness, TOPICS + 1)
    profiles = {run["run"]: run["profile"] for run in run_rows}
    groups = list(lateness.distributions(summary.lateness, profiles, topics[:TOPICS]))
    late = [lateness.figures(group, plan.on_time_us, cutoffs_us, percentiles) for group in groups]
    balance = outcomes.reconciliation(summary.outcomes, measured.again, by_run, plan.on_time_us)

    delays = _delays(run_rows)
    dimensions = [each for each in _DIMENSIONS if each != "run" or len(run_rows) > 1]
    moved = Counter(move["run"] for move in move_rows)
    markers = sorted(_markers(run_rows, move_rows), key=lambda marker: (marker.at_us, marker.run))
    warnings = [_MANY_TOPICS] if len(topics) > TOPICS else []
    if not measured.is_exact and not {*plan.split_us} <= {*measured.split_us}:
        warnings.append(_CUTOFFS)
    return ReportTables(
        method="exact" if measured.is_exact else "bins",
        error=0 if measured.is_exact else bins.ERROR,
        cutoffs_us=cutoffs_us,
        runs=[_run(row, summary.outcomes.to_pylist(), moved) for row in run_rows],
        lateness=_sorted(
            (_lateness(row, percentiles, cutoffs_us) for row in (*late, *_empty(late, delays))),
            delays,
            dimensions,
        ),
        reconciliation=_sorted(
            (
                Reconciliation(**{**_NOTHING, **row}, delay=None)
                for row in (*balance, *_empty(balance, delays))
            ),
            delays,
            dimensions,
        ),
        stages=sorted(stages.figures(summary.stages), key=_stage_place),
        timeline=Timeline(
            step_us=measured.step_us,
            instants=timeline.instants(summary.timeline),
            cells=timeline.cells(summary.timeline),
            markers=markers[:MARKERS],
            markers_left_out=max(0, len(markers) - MARKERS),
        ),
        herds=herds.figures(summary.herds),
        disorder=sorted(
            (Disorder(**row) for row in summary.disorder.to_pylist()),
            key=lambda row: (row.run, row.level is None, row.level or 0, row.scheme),
        ),
        worst=[Worst(**row) for row in measured.worst.to_pylist()],
        spectra=sorted((each for group in groups if (each := lateness.spectrum(group))), key=_place),
        causes=[
            *causes.of_deliveries(summary.late, summary.herds),
            *_of_consumers(summary, run_rows, struck),
        ],
        warnings=warnings,
    )


def _of_consumers(
    summary: Summary, runs: Iterable[Mapping[str, Any]], struck: pa.Table | None
) -> list[Cause]:
    """Return causes of messages that were late to consumers; external files may lack consumers' times."""
    is_known = summary.busy.num_rows or any(run["version"] not in (None, UNKNOWN) for run in runs)
    found = causes.of_consumers(summary.waits, summary.busy) if is_known else []
    if struck is not None and any(cause.fault for cause in found):
        by_fault = counted(struck, {run["store"]: run["as_of_us"] for run in runs if run["as_of_us"]})
        for cause in found:
            cause.struck = by_fault.get(cause.fault, [])
    return found


def _delays(runs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the delay of each level by number, or all delays of the level if runs differ."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        if run["levels"] not in (None, UNKNOWN):
            for level, delay in enumerate(run["levels"].split(), start=1):
                found.setdefault(str(level), {})[delay] = None
    return {level: " or ".join(delays) for level, delays in found.items()}


def _empty(found: Iterable[Mapping[str, Any]], delays: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Make rows with only a name, for a missing total and for missing levels."""
    there = {(row["dimension"], row["name"]) for row in found}
    for group in (("total", "total"), *(("level", level) for level in delays)):
        if group not in there:
            yield {"dimension": group[0], "name": group[1]}


def _sorted(rows: Iterable[Grouped], delays: Mapping[str, str], dimensions: Sequence[str]) -> list[Grouped]:
    """Sort the rows of these dimensions, and add the delays of levels."""
    shown = [row for row in rows if row.dimension in dimensions]
    for row in shown:
        row.delay = delays.get(row.name) if row.dimension == "level" else None
    return sorted(shown, key=_place)


def _place(group: Lateness | Reconciliation | Stage | Spectrum) -> tuple[int, int, str]:
    number = int(group.name) if group.dimension == "level" else 0
    is_levels = (group.dimension, group.name) == ("scheme", "levels")  # placed before other schemes
    return _DIMENSIONS.index(group.dimension), number, "" if is_levels else group.name


def _lateness(row: Mapping[str, Any], percentiles: Sequence[float], cutoffs_us: Sequence[int]) -> Lateness:
    """Make a row; fields without measurements are null."""
    said = {**_NOT_MEASURED, "within": [0] * len(cutoffs_us), **row}
    values = said.pop("percentiles", [None] * len(percentiles))
    names = [f"p{Decimal(str(each)).normalize():f}" for each in percentiles]
    return Lateness(**said, delay=None, percentiles=dict(zip(names, values, strict=True)))


def _stage_place(stage: Stage) -> tuple[tuple[int, int, str], int]:
    return _place(stage), _STAGES.index(stage.stage)


def _markers(runs: Iterable[Mapping[str, Any]], moves: Iterable[Mapping[str, Any]]) -> Iterator[Marker]:
    for run in runs:
        if run["started_us"] is not None:
            yield Marker(kind="start", run=run["run"], at_us=run["started_us"], to_us=run["started_us"])
    for move in moves:
        yield Marker(kind="move", run=move["run"], at_us=move["from_us"], to_us=move["to_us"])


def _run(row: Mapping[str, Any], counted: Iterable[Mapping[str, Any]], moves: Mapping[str, int]) -> Run:
    delivered = [each for each in counted if each["run"] == row["run"] and each["state"] == "delivered"]
    count = sum(each["rows"] for each in delivered)
    span_us = max((each["last_us"] for each in delivered), default=0) - min(
        (each["first_us"] for each in delivered), default=0
    )
    said = {name: value for name, value in row.items() if name != "store"}
    return Run(
        **{**said, **{name: UNKNOWN for name in _WORDS if said[name] is None}},
        moves=moves.get(row["run"], 0),
        deliveries=count,
        per_second=count * US_PER_S / span_us if span_us else None,
    )
