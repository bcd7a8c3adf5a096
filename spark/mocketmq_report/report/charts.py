"""Make the charts of a report in the order of the page, without those that have no data."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import altair as alt

from mocketmq_report import figures
from mocketmq_report.document import STAGES, Header, Herd, Lateness, Report, Stage
from mocketmq_report.judge.limits import DrawnLimit
from mocketmq_report.report.chart import (
    LEFT,
    Chart,
    LatenessAxis,
    LegendEntry,
    color,
    count,
    duration,
    rows,
    spec,
    text,
)
from mocketmq_report.report.spectrum_charts import spectrum_chart
from mocketmq_report.report.time_charts import time_charts

_STAGE_KEYS: Final = [
    LegendEntry(figures.stage(stage), f"var(--c{number})", "box") for number, stage in enumerate(STAGES)
]
_STAGE_FIGURES: Final = ["mean", "p50", "p99"]
_HERD_KEYS: Final = [
    LegendEntry("mean", "var(--c0)", "circle"),
    LegendEntry("median of the worst of each second", "var(--c2)", "diamond"),
    LegendEntry("max", "var(--c1)", "up"),
]
_BAR: Final = 20
"""Pixels from one bar to the next."""
_LONGEST: Final = 130
"""Pixels of the longest name beside a bar; on a phone more would leave too little for bars."""
_LATES: Final = 7
"""Colours from on time to very late."""


def charts(report: Report, limits: Sequence[DrawnLimit] = ()) -> Iterator[Chart]:
    """All charts of this report but that of its comparison; ``limits`` are lines in the spectrum."""
    spectrum = spectrum_chart(report, limits)
    if spectrum:
        yield spectrum
    yield from time_charts(report.timeline)
    measured = [
        row for row in report.lateness if figures.is_beside_levels(row.dimension, row.name) and row.measured
    ]
    if measured:
        yield _buckets(measured, report.header)
    delays: dict[tuple[str, str], str | None] = {
        (row.dimension, row.name): row.delay for row in report.lateness
    }
    staged = [stage for stage in report.stages if stage.complete]
    by_level = [stage for stage in staged if figures.is_beside_levels(stage.dimension, stage.name)]
    if by_level:
        yield _stages(by_level, delays)
    if by_group := [stage for stage in staged if stage.dimension == "group"]:
        yield _stages(by_group, {}, of_consumers=True)
    if report.herds:
        yield _herds(report.herds)


def buckets(row: Lateness) -> list[int]:
    """Count the early, those between one cutoff and the next, and those later than all cutoffs."""
    counts = [after - before for before, after in pairwise([0, *row.within])]
    return [row.early, *counts, row.measured - row.early - sum(counts)]


def bucket_names(header: Header) -> list[str]:
    """The names of these buckets."""
    cutoffs = [figures.duration(cutoff) for cutoff in header.cutoffs_us]
    return ["early", *(f"≤ {cutoff}" for cutoff in cutoffs), f"> {cutoffs[-1]}" if cutoffs else "not early"]


def _buckets(measured: Sequence[Lateness], header: Header) -> Chart:
    names = bucket_names(header)
    steps = [round(step * (_LATES - 1) / max(len(names) - 2, 1)) for step in range(len(names) - 1)]
    keys = [
        LegendEntry(name, hue, "box")
        for name, hue in zip(names, ["var(--early)", *(f"var(--late-{step})" for step in steps)], strict=True)
    ]
    parts = (
        {
            "group": _short(row.dimension, row.name, row.delay),
            "bucket": name,
            "order": order,
            "count": number,
            "share": number / row.measured,
        }
        for row in measured
        for order, (name, number) in enumerate(zip(names, buckets(row), strict=True))
        if number
    )
    chart = (
        rows(parts)
        .mark_bar(height={"band": 0.75})
        .encode(
            x=alt.X(
                "share:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format="%", tickCount=5, title="share of deliveries"),
            ),
            y=_groups(_short(row.dimension, row.name, row.delay) for row in measured),
            color=color("bucket", keys),
            order=alt.Order("order:Q"),
            tooltip=[
                text("group", "of"),
                text("bucket", "lateness"),
                count("count", "deliveries"),
                alt.Tooltip("share:Q", title="share", format=".4~%"),
            ],
        )
    )
    return Chart(
        "buckets",
        "Deliveries by lateness",
        "Levels and start-deliver times with deliveries; the first bar is the total.",
        keys,
        spec(chart, _BAR * len(measured)),
    )


def _stages(
    stages: Sequence[Stage], delays: Mapping[tuple[str, str], str | None], of_consumers: bool = False
) -> Chart:
    """Draw means over the messages with all stages: means add up, percentiles would not."""
    keys = _STAGE_KEYS[3:] if of_consumers else _STAGE_KEYS
    groups = list(
        dict.fromkeys(
            _short(each.dimension, each.name, delays.get((each.dimension, each.name))) for each in stages
        )
    )
    parts = (
        {
            "group": _short(each.dimension, each.name, delays.get((each.dimension, each.name))),
            "stage": figures.stage(stage),
            "order": order,
            "mean": each.complete_sum_us / each.complete,
            "p50": each.p50_us,
            "p99": each.p99_us,
            "count": each.complete,
        }
        for order, stage in enumerate(STAGES)
        for each in stages
        if each.stage == stage
    )
    chart = (
        rows(parts)
        .add_params(
            alt.param(
                name="figure", value="mean", bind=alt.binding_select(options=_STAGE_FIGURES, name="show ")
            )
        )
        .transform_calculate(value="datum[figure]")
        .mark_bar(height={"band": 0.75})
        .encode(
            x=alt.X("value:Q", axis=alt.Axis(formatType="duration", tickCount=5, title="time in each stage")),
            y=_groups(groups, "group" if of_consumers else "level"),
            color=color("stage", keys),
            order=alt.Order("order:Q"),
            tooltip=[
                *(text("group", "of"), text("stage", "stage"), duration("mean", "mean")),
                *(duration("p50", "p50"), duration("p99", "p99"), count("count", "messages")),
            ],
        )
    )
    drawn = spec(chart, _BAR * len(groups))
    if of_consumers:
        note = "How long messages waited for each group that was the first to receive them, and were with it."
        return Chart("consumers", "Consumer groups", note, keys, drawn)
    note = "Everything but the requested delay. The means are over messages with all stages, and add up."
    return Chart("stages", "Where the time went", note, keys, drawn)


def _herds(herds: Sequence[Herd]) -> Chart:
    late = LatenessAxis(value for herd in herds for value in (herd.mean_us, herd.p50_max_us, herd.max_us))
    bands = [
        {
            "due": herd_name(herd),
            "seconds": herd.seconds,
            "deliveries": herd.deliveries,
            "mean": herd.mean_us,
            "median": herd.p50_max_us,
            "max": herd.max_us,
        }
        for herd in herds
    ]
    points = (
        band | {"of": key.label, "y": late.at(value)}
        for band, herd in zip(bands, herds, strict=True)
        for key, value in zip(_HERD_KEYS, (herd.mean_us, herd.p50_max_us, herd.max_us), strict=True)
    )
    ends = (
        {"due": herd_name(each), "low": late.at(each.mean_us), "high": late.at(each.max_us)} for each in herds
    )
    x = alt.X(
        "due:N",
        sort=[herd_name(herd) for herd in herds],
        axis=alt.Axis(title="deliveries due in the same second", labelAngle=0, labelOverlap=True),
    )
    tooltip = [
        *(
            text("due", "due in a second"),
            count("seconds", "such seconds"),
            count("deliveries", "deliveries"),
        ),
        *(duration("mean", "mean"), duration("median", "median of the worst"), duration("max", "max")),
    ]
    shapes = alt.Scale(domain=[key.label for key in _HERD_KEYS], range=["circle", "diamond", "triangle-up"])
    chart = alt.layer(
        rows(ends).mark_rule(color="var(--faint)").encode(x=x, y=late.y("low"), y2="high"),
        rows(points)
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=x,
            y=late.y("y"),
            color=color("of", _HERD_KEYS),
            shape=alt.Shape("of:N", scale=shapes, legend=None),
            tooltip=tooltip,
        ),
    )
    return Chart(
        "herds",
        "Herds",
        "Whether deliveries are later when many are due in the same second.",
        _HERD_KEYS,
        spec(chart, 240),
    )


def herd_name(herd: Herd) -> str:
    """The range of how many deliveries were due in one second."""
    low, high = figures.count(herd.due_low), figures.count(herd.due_high)
    return low if low == high else f"{low}–{high}"


def _short(dimension: str, name: str, delay: str | None) -> str:
    if dimension == "scheme":
        return figures.harmless(figures.scheme(name))
    return "total" if dimension == "total" else f"{name} · {delay}" if delay else figures.harmless(name)


def _groups(names: Iterable[str], title: str = "level") -> alt.Y:
    shown = list(names)
    width = max(LEFT["minExtent"], min(_LONGEST, 6 * max(map(len, shown)) + 8))
    extent = {"minExtent": width, "maxExtent": width, "labelLimit": width - 6, "titleX": -width}
    axis = alt.Axis(title=title, domain=False, ticks=False, **LEFT | extent)
    return alt.Y("group:N", sort=shown, axis=axis)
