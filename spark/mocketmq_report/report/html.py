"""Writes a report as one HTML file: ``report.html.jinja`` with ``report.css`` and ``report.js``."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import Final, NamedTuple, get_args

from jinja2 import Template

from mocketmq_report import figures
from mocketmq_report.document import (
    STAGES,
    Change,
    Comparison,
    Dimension,
    Header,
    Lateness,
    Reconciliation,
    Report,
    Worst,
)
from mocketmq_report.judge.drawn_limits import DrawnLimit
from mocketmq_report.report import by_delay_limits, headline
from mocketmq_report.report.charts import bucket_names, buckets, charts, herd_name
from mocketmq_report.report.page import embedded, environment
from mocketmq_report.report.spectrum_charts import comparison_chart
from mocketmq_report.report.time_charts import per_unit, rate_unit
from mocketmq_report.report.why import is_all_zero, moved, why

MOST_ROWS: Final = 30
"""Maximum number of visible rows of a table; a click shows the others."""

_MOST_FAILED: Final = 5  # maximum number of failed conditions on the first screen

_RUN_FIELDS: Final = {
    "source": "source",
    "clock": "clock",
    "profile": "profile",
    "version": "broker",
    "host": "host",
    "durability": "durability",
    "levels": "levels",
}
"""Titles of the fields in the header, or, if runs differ, in the table of runs."""


class _ComparedCell(NamedTuple):
    """A figure of one side, and its change from the baseline."""

    value: str
    beside: list[str]


class _SideTable(NamedTuple):
    """The table that compares one side with the baseline."""

    name: str
    metrics: list[str]
    levels: list[tuple[str, list[_ComparedCell | None]]]  # the levels and the total
    others: list[tuple[str, list[_ComparedCell | None]]]


def html(report: Report, limits: Sequence[DrawnLimit] = ()) -> str:
    """Make the page of a report, with ``limits`` as lines in its charts."""
    header, comparison = report.header, report.comparison
    drawn = [] if is_all_zero(report) else list(charts(report, limits))
    compared = comparison_chart(comparison) if comparison else None
    page: str = _page().render(
        report=report,
        header=header,
        comparison=comparison,
        verdict=headline.verdict(report),
        failed=[each for each in headline.judged(report) if not each.passed],
        moved=moved(report),
        lost=sum(row.lost for row in report.reconciliation if row.dimension == "total"),
        why=list(why(report)),
        facts=list(_facts(report)),
        sections=list(_sections(report)),
        percentiles=sorted(
            {name for row in report.lateness for name in row.percentiles}, key=lambda name: float(name[1:])
        ),
        groups=_groups(report.lateness),
        by_level=[row for row in report.lateness if figures.is_beside_levels(row.dimension, row.name)],
        is_all_zero=is_all_zero(report),
        by_delay_limits=by_delay_limits.sentence(report.delay_limits) if report.delay_limits else "",
        verdicts=list(by_delay_limits.verdict_rows(report.delay_limits)) if report.delay_limits else [],
        consumers=[stage for stage in report.stages if stage.dimension == "group"],
        rate_unit=rate_unit(report.timeline.step_us),
        method=_method(header),
        run_fields={
            field: title
            for field, title in _RUN_FIELDS.items()
            if len({getattr(run, field) for run in header.runs}) > 1
        },
        charts=drawn,
        bucket_names=bucket_names(header),
        comparison_chart=compared,
        compared=list(_compared(comparison)) if comparison else [],
        specs=embedded({chart.name: chart.spec for chart in [*drawn, *filter(None, [compared])]}),
    )
    return page


@cache
def _page() -> Template:
    page = environment(
        __package__,
        {
            "balanced": _is_balanced,
            "buckets": buckets,
            "group": lambda row: figures.group(row.dimension, row.name, getattr(row, "delay", None)),
            "herd_name": herd_name,
            "per_unit": per_unit,
            "scheme": figures.scheme,
            "stages": _stages,
        },
    )
    page.globals |= {
        "most_rows": MOST_ROWS,
        "names_of_runs": frozenset(_RUN_FIELDS.values()),
        "most_failed": _MOST_FAILED,
        "stage_names": {stage: figures.stage(stage) for stage in STAGES},
    }
    return page.get_template("report.html.jinja")


def _stages(row: Worst) -> list[int | None]:
    """Compute the duration of each of ``STAGES``, in microseconds."""
    ends = ((getattr(row, begin), getattr(row, end)) for begin, end in STAGES.values())
    return [None if begin is None or end is None else end - begin for begin, end in ends]


def _is_balanced(row: Reconciliation) -> bool:
    return row.sent == row.delivered + row.pending + row.cancelled + row.expired + row.lost


def _groups(rows: list[Lateness]) -> dict[str, list[Lateness]]:
    return {each: [row for row in rows if row.dimension == each] for each in get_args(Dimension)}


def _method(header: Header) -> str:
    if header.method == "exact":
        return "Percentiles are exact, by nearest rank."
    return f"Percentiles are from bins, and at most {figures.share(header.error)} from the exact value."


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Describe what was measured, where, and under which clock."""
    header, runs = report.header, report.header.runs
    total = report.lateness[0]
    yield "measured", f"{figures.count(total.measured)} delayed deliveries in {_many(len(runs), 'run')}"
    if header.load:
        yield "load", figures.rate(header.load)
    if report.timeline.instants:
        first, last = report.timeline.instants[0].at_us, report.timeline.instants[-1].at_us
        yield "time", f"{figures.instant(first)} to {figures.instant(last + report.timeline.step_us)}"
    for field, title in _RUN_FIELDS.items():
        yield title, figures.listed(dict.fromkeys(str(getattr(run, field)) for run in runs)) or figures.NONE
    moves = sum(run.moves for run in runs)
    if moves:
        yield "clock moved", _many(moves, "time")
    yield "on time", f"not early, and at most {figures.duration(header.on_time_us)} late"
    yield "percentiles", "exact" if header.method == "exact" else f"from bins, ±{figures.share(header.error)}"


def _many(number: int, thing: str) -> str:
    return f"{figures.count(number)} {thing}{'' if number == 1 else 's'}"


def _sections(report: Report) -> Iterator[tuple[str, str]]:
    yield "levels", "Levels"
    if report.judgements:
        yield "thresholds", "Thresholds"
    if report.comparison:
        yield "comparison", "Comparison"
    if not is_all_zero(report):
        yield "groups", "Groups"
    if any(stage.dimension == "group" for stage in report.stages):
        yield "consumers", "Consumers"
    if report.delay_limits:
        yield "delay-limits", "Delay limits"
    yield "messages", "Messages"
    if not is_all_zero(report):
        yield "charts", "Charts"
    yield from (("order", "Order"), ("worst", "Worst"), ("data", "Data"), ("runs", "Runs"))


def _compared(comparison: Comparison) -> Iterator[_SideTable]:
    """Make a table for each side except the baseline. Omits groups that are empty on both sides."""
    metrics = list(dict.fromkeys(change.metric for change in comparison.changes))
    names = [metric.removesuffix("_share").replace("_", " ") for metric in metrics]
    for number, side in enumerate(comparison.sides[1:], start=1):
        made = _SideTable(side.name, names, [], [])
        for (dimension, name, delay), changes in groupby(
            comparison.changes, key=lambda change: (change.dimension, change.name, change.delay)
        ):
            of = {change.metric: change for change in changes}
            if any(change.values[number] or change.values[0] for change in of.values()):
                cells = [_cell(of[metric], number) if metric in of else None for metric in metrics]
                to = made.levels if figures.is_beside_levels(dimension, name) else made.others
                to.append((figures.group(dimension, name, delay), cells))
        yield made


def _cell(change: Change, number: int) -> _ComparedCell | None:
    value, base = change.values[number], change.values[0]
    if value is None and base is None:
        return None
    beside = ["same"]
    if value != base:
        words = [figures.change(change.metric, change.deltas[number]), figures.ratio(change.ratios[number])]
        changed = [word for word in words if word != figures.NONE]
        beside = [f"was {figures.figure(change.metric, base)}", *changed]
    return _ComparedCell(figures.figure(change.metric, value), beside)
