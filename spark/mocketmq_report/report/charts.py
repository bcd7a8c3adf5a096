"""Makes the charts of a report in the order of the page, without empty charts."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from mocketmq_report import figures
from mocketmq_report.document import STAGES, Header, Herd, Lateness, Report, Stage
from mocketmq_report.judge.drawn_limits import DrawnLimit
from mocketmq_report.report.chart import (
    Chart,
    LatenessAxis,
    LegendEntry,
    Spec,
    Tip,
    colors,
    duration_axis,
    mark,
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
"""Distance in pixels from one bar to the next."""
_LATES: Final = 7
"""Number of colours from on time to very late."""


def charts(report: Report, limits: Sequence[DrawnLimit] = ()) -> Iterator[Chart]:
    """Yield all charts of a report except the comparison's; ``limits`` are lines in the spectrum."""
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
    """Count the deliveries that are early, between two neighbouring cutoffs, or later than all cutoffs."""
    counts = [after - before for before, after in pairwise([0, *row.within])]
    return [row.early, *counts, row.measured - row.early - sum(counts)]


def bucket_names(header: Header) -> list[str]:
    """Return the names of the counts of ``buckets``."""
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
            "count": number,
            "share": number / row.measured,
        }
        for row in measured
        for name, number in zip(names, buckets(row), strict=True)
        if number
    )
    tip = [
        Tip("of", "group", "text"),
        Tip("lateness", "bucket", "text"),
        Tip("deliveries", "count", "count"),
        Tip("share", "share", "share"),
    ]
    shares: Spec = {
        "domain": [0, 1],
        "ticks": [(percent / 100, f"{percent}%") for percent in range(0, 101, 20)],
        "title": "share of deliveries",
        "hasGrid": True,
    }
    groups = [_short(row.dimension, row.name, row.delay) for row in measured]
    spec = {
        "height": _BAR * len(groups),
        "x": shares,
        "y": {"bands": groups, "title": "level"},
        "marks": [mark("bar", parts, y="group", size="share", color="bucket", colors=colors(keys), tip=tip)],
    }
    return Chart(
        "buckets",
        "Deliveries by lateness",
        "Levels and start-deliver times with deliveries; the first bar is the total.",
        keys,
        spec,
    )


def _stages(
    stages: Sequence[Stage], delays: Mapping[tuple[str, str], str | None], of_consumers: bool = False
) -> Chart:
    """Draw means over the messages with all stages, because means add up, unlike percentiles."""
    keys = _STAGE_KEYS[3:] if of_consumers else _STAGE_KEYS
    groups = list(
        dict.fromkeys(
            _short(each.dimension, each.name, delays.get((each.dimension, each.name))) for each in stages
        )
    )
    parts = [
        {
            "group": _short(each.dimension, each.name, delays.get((each.dimension, each.name))),
            "stage": figures.stage(stage),
            "mean": each.complete_sum_us / each.complete,
            "p50": each.p50_us,
            "p99": each.p99_us,
            "count": each.complete,
        }
        for stage in STAGES
        for each in stages
        if each.stage == stage
    ]
    tip = [
        *(Tip("of", "group", "text"), Tip("stage", "stage", "text"), Tip("mean", "mean", "duration")),
        *(Tip("p50", "p50", "duration"), Tip("p99", "p99", "duration"), Tip("messages", "count", "count")),
    ]
    spec = {
        "height": _BAR * len(groups),
        "x": {
            figure: duration_axis(_longest(parts, figure), "time in each stage") for figure in _STAGE_FIGURES
        },
        "y": {"bands": groups, "areNames": of_consumers, "title": "group" if of_consumers else "level"},
        "choice": {"options": _STAGE_FIGURES, "value": "mean"},
        "marks": [mark("bar", parts, y="group", color="stage", colors=colors(keys), tip=tip)],
    }
    if of_consumers:
        note = "How long messages waited for the first group to receive them, and how long it kept them."
        return Chart("consumers", "Consumer groups", note, keys, spec)
    note = "All time except the requested delay. The means cover messages with all stages, and add up."
    return Chart("stages", "Where the time went", note, keys, spec)


def _longest(parts: Sequence[Mapping[str, Any]], figure: str) -> float:
    lengths: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        lengths[part["group"]] += max(part[figure] or 0, 0)
    return max(lengths.values())


def _herds(herds: Sequence[Herd]) -> Chart:
    late = LatenessAxis(value for herd in herds for value in (herd.mean_us, herd.p50_max_us, herd.max_us))
    bands: list[dict[str, Any]] = [
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
    ends = (
        {"due": herd_name(each), "low": late.at(each.mean_us), "high": late.at(each.max_us)} for each in herds
    )
    tip = [
        *(Tip("due in a second", "due", "text"), Tip("such seconds", "seconds", "count")),
        *(Tip("deliveries", "deliveries", "count"), Tip("mean", "mean", "duration")),
        *(Tip("median of the worst", "median", "duration"), Tip("max", "max", "duration")),
    ]
    spec = {
        "height": 240,
        "x": {"bands": [herd_name(herd) for herd in herds], "title": "deliveries due in the same second"},
        "y": late.axis(),
        "marks": [
            mark("rule", ends, x="due", y="low", y2="high", color="var(--faint)"),
            *(
                mark(
                    "point",
                    [band | {"of": key.label, "y": late.at(band[figure])} for band in bands],
                    x="due",
                    y="y",
                    color=key.color,
                    shape=key.shape,
                    tip=tip,
                )
                for key, figure in zip(_HERD_KEYS, ("mean", "median", "max"), strict=True)
            ),
        ],
    }
    return Chart(
        "herds",
        "Herds",
        "Whether deliveries are later when many are due in the same second.",
        _HERD_KEYS,
        spec,
    )


def herd_name(herd: Herd) -> str:
    """Describe the range of the number of deliveries due in one second."""
    low, high = figures.count(herd.due_low), figures.count(herd.due_high)
    return low if low == high else f"{low}–{high}"


def _short(dimension: str, name: str, delay: str | None) -> str:
    if dimension == "scheme":
        return figures.harmless(figures.scheme(name))
    return "total" if dimension == "total" else f"{name} · {delay}" if delay else figures.harmless(name)
