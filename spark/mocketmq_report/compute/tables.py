"""Compute the tables of a report and take them out of Spark, in order and with the empty levels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute import bins, lateness, summarize, summary
from mocketmq_report.compute.rollup import CUTOFFS_US, Rollup
from mocketmq_report.document import (
    STAGES,
    Cell,
    Disorder,
    Herd,
    Instant,
    Lateness,
    Marker,
    Reconciliation,
    Run,
    Spectrum,
    SpectrumPoint,
    Stage,
    Timeline,
    Worst,
)
from mocketmq_report.ledger.columns import STATES
from mocketmq_report.ledger.frames import LedgerFrames
from mocketmq_report.ledger.sources import UNKNOWN
from mocketmq_report.progress import ProgressCallback

EXACT_ROWS: Final = 1_000_000
"""Up to so many rows percentiles are exact, by default."""
TOPICS: Final = 100
MARKERS: Final = 1000
STEPS: Final = 300
"""About how many steps a timeline has."""

_MINUTE_US: Final = 60 * US_PER_S
_STEPS_US: Final = [
    *(step * US_PER_MS for step in (10, 20, 50, 100, 200, 500)),
    *(step * US_PER_S for step in (1, 2, 5, 10, 20, 30)),
    *(step * _MINUTE_US for step in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 360, 720)),
]
_DAY_US: Final = 24 * 60 * _MINUTE_US
_DIMENSIONS: Final = ("total", "level", "scheme", "profile", "topic", "run")
_STAGES: Final = (*STAGES, "total")
_ACTIONS: Final = 9
_NOT_MEASURED: Final[dict[str, Any]] = {
    **dict.fromkeys(("measured", "overdue", "early", "on_time"), 0),
    **dict.fromkeys(("on_time_share", "min_us", "mean_us", "max_us")),
}
_NOTHING: Final[dict[str, Any]] = {
    **dict.fromkeys(("sent", *STATES, "repeats", "forced", "overdue"), 0),
    "is_silent": False,
}
_WORDS: Final = ("source", "version", "host", "profile", "clock", "levels", "durability")
_CUTOFFS: Final = (
    "counts up to a limit for which the rollups have no bin may be too low, by the deliveries within a"
    " thousandth of the limit"
)

Grouped = TypeVar("Grouped", Lateness, Reconciliation)


class TablePlan(NamedTuple):
    """What a report should have."""

    on_time_us: int = 100 * US_PER_MS
    cutoffs_us: tuple[int, ...] = CUTOFFS_US
    percentiles: tuple[float, ...] = (50, 90, 99, 99.9)
    exact: bool | None = None  # None: if there are at most EXACT_ROWS


class ReportTables(NamedTuple):
    """The tables of a ``document.Report``, and what its header says about them."""

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
    warnings: list[str]


def tables(source: LedgerFrames | Rollup, plan: TablePlan, progress: ProgressCallback) -> ReportTables:
    """Compute the tables of a ledger without unusable rows, or of rollups, which are never exact."""
    cutoffs_us = sorted({*plan.cutoffs_us})
    percentiles = sorted({*plan.percentiles})
    split_us = sorted({*cutoffs_us, plan.on_time_us})
    numbers = iter(range(_ACTIONS))

    def tell(what: str) -> None:
        progress(what, next(numbers), _ACTIONS)

    with ExitStack() as stack:

        def keep(frame: DataFrame) -> DataFrame:
            return stack.enter_context(summarize.persisted(frame))

        tell("counting")
        runs = source.runs.orderBy("started_wall_us", "run").collect()
        moves = source.moves.orderBy("wall_us", "run").collect()
        if isinstance(source, Rollup):
            outcomes = keep(source.summary.outcomes)
        else:
            outcomes = keep(summary.outcomes(source))
        counted = outcomes.collect()
        extent = summarize.measure_extent(counted)
        step_us = _step_us(extent.delivered_to_us - extent.delivered_from_us)

        tell("looking for repeats and for the worst")
        if isinstance(source, Rollup):
            is_exact, made = False, source.summary
            step_us = max(step_us, _MINUTE_US)
        else:
            is_exact = extent.rows <= EXACT_ROWS if plan.exact is None else plan.exact
            value = F.col("lateness_us")
            key = value if is_exact else bins.key(value, split_us)
            made = stack.enter_context(summarize.summarized(source, outcomes, extent, key, step_us))

        tell("lateness")
        counts = keep(made.lateness)
        topics = [row.topic for row in lateness.busiest(counts, TOPICS + 1).collect()]
        distributions = keep(lateness.distributions(counts, source.runs, topics[:TOPICS]))
        late = lateness.lateness(distributions, plan.on_time_us, cutoffs_us, percentiles).collect()
        points = lateness.spectra(distributions).collect()
        tell("messages")
        balance = lateness.reconciliation(outcomes, made.again, source.runs, plan.on_time_us).collect()
        tell("stages")
        stages = lateness.stages(made.stages).collect()
        tell("over time")
        steps = keep(made.timeline.withColumn("at_us", summary.begin("at_us", step_us)))
        instants = lateness.instants(steps).orderBy("at_us").collect()
        cells = lateness.cells(steps).orderBy("at_us", "low_us").collect()
        tell("herds")
        herds = lateness.herds(made.herds).orderBy("due_low").collect()
        tell("order")
        disorder = lateness.disorder(made.disorder).orderBy("run", "level").collect()
        tell("the worst")
        worst = summary.worst_of(made.worst).collect()

    delays = _delays(runs)
    dimensions = _DIMENSIONS if len(runs) > 1 else _DIMENSIONS[:-1]
    moved = Counter(move.run for move in moves)
    markers = sorted(_markers(runs, moves), key=lambda marker: (marker.at_us, marker.run))
    measured = [_lateness(row, percentiles, cutoffs_us) for row in (*late, *_empty(late, delays))]
    reconciled = [_reconciliation(row) for row in (*balance, *_empty(balance, delays))]
    warnings = []
    if len(topics) > TOPICS:
        warnings.append(f"only the {TOPICS} topics with the most deliveries are shown, there are more")
    if isinstance(source, Rollup) and not {*split_us} <= {*CUTOFFS_US}:
        warnings.append(_CUTOFFS)
    return ReportTables(
        method="exact" if is_exact else "bins",
        error=0 if is_exact else bins.ERROR,
        cutoffs_us=cutoffs_us,
        runs=[_run(row, counted, moved) for row in runs],
        lateness=_sorted(measured, delays, dimensions),
        reconciliation=_sorted(reconciled, delays, dimensions),
        stages=sorted((Stage(**row.asDict()) for row in stages), key=_stage_place),
        timeline=Timeline(
            step_us=step_us,
            instants=[Instant(**row.asDict()) for row in instants],
            cells=[Cell(**row.asDict()) for row in cells],
            markers=markers[:MARKERS],
            markers_left_out=max(0, len(markers) - MARKERS),
        ),
        herds=[Herd(**row.asDict()) for row in herds],
        disorder=[Disorder(**row.asDict()) for row in disorder],
        worst=[Worst(**row.asDict()) for row in worst],
        spectra=_spectra(points),
        warnings=warnings,
    )


def _step_us(span_us: int) -> int:
    """The smallest step that makes at most ``STEPS`` steps; beyond half a day whole days."""
    least = -(-span_us // STEPS)
    return next((step for step in _STEPS_US if step >= least), -(-least // _DAY_US) * _DAY_US)


def _delays(runs: Iterable[Row]) -> dict[str, str]:
    """The delay of each level by its number; all delays of it if runs differ."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        if run.levels not in (None, UNKNOWN):
            for level, delay in enumerate(run.levels.split(), start=1):
                found.setdefault(str(level), {})[delay] = None
    return {level: " or ".join(delays) for level, delays in found.items()}


def _empty(found: Iterable[Row], delays: Iterable[str]) -> Iterator[Row]:
    """Rows with nothing but a name, for the total and for levels that have none."""
    there = {(row.dimension, row.name) for row in found}
    for group in (("total", "total"), *(("level", level) for level in delays)):
        if group not in there:
            yield Row(dimension=group[0], name=group[1])


def _sorted(rows: Iterable[Grouped], delays: Mapping[str, str], dimensions: Sequence[str]) -> list[Grouped]:
    """The rows of these dimensions in order, with the delays of levels."""
    shown = [row for row in rows if row.dimension in dimensions]
    for row in shown:
        row.delay = delays.get(row.name) if row.dimension == "level" else None
    return sorted(shown, key=_place)


def _place(group: Lateness | Reconciliation | Stage | Spectrum) -> tuple[int, int, str]:
    number = int(group.name) if group.dimension == "level" else 0
    return _DIMENSIONS.index(group.dimension), number, group.name


def _lateness(row: Row, percentiles: Sequence[float], cutoffs_us: Sequence[int]) -> Lateness:
    """What is not in the row was not measured."""
    said = {**_NOT_MEASURED, "within": [0] * len(cutoffs_us), **row.asDict()}
    values = said.pop("percentiles", [None] * len(percentiles))
    names = [f"p{Decimal(str(each)).normalize():f}" for each in percentiles]
    return Lateness(**said, delay=None, percentiles=dict(zip(names, values, strict=True)))


def _reconciliation(row: Row) -> Reconciliation:
    return Reconciliation(**{**_NOTHING, **row.asDict()}, delay=None)


def _stage_place(stage: Stage) -> tuple[tuple[int, int, str], int]:
    return _place(stage), _STAGES.index(stage.stage)


def _spectra(points: Iterable[Row]) -> list[Spectrum]:
    found: dict[tuple[str, str], Spectrum] = {}
    for row in sorted(points, key=lambda row: row.percentile):
        group = found.setdefault(
            (row.dimension, row.name), Spectrum(dimension=row.dimension, name=row.name, points=[])
        )
        group.points.append(
            SpectrumPoint(percentile=row.percentile, value_us=row.value_us, count=row["count"])
        )
    return sorted(found.values(), key=_place)


def _markers(runs: Iterable[Row], moves: Iterable[Row]) -> Iterator[Marker]:
    for run in runs:
        if run.started_us is not None:
            yield Marker(kind="start", run=run.run, at_us=run.started_us, to_us=run.started_us)
    for move in moves:
        yield Marker(kind="move", run=move.run, at_us=move.from_us, to_us=move.to_us)


def _run(row: Row, counted: Iterable[Row], moves: Mapping[str, int]) -> Run:
    delivered = [each for each in counted if each.run == row.run and each.state == "delivered"]
    count = sum(each.rows for each in delivered)
    span_us = max((each.last_us for each in delivered), default=0) - min(
        (each.first_us for each in delivered), default=0
    )
    said: dict[str, Any] = row.asDict()
    del said["store"]
    said.update({name: UNKNOWN for name in _WORDS if said[name] is None})
    return Run(
        **said,
        moves=moves.get(row.run, 0),
        deliveries=count,
        per_second=count * US_PER_S / span_us if span_us else None,
    )
