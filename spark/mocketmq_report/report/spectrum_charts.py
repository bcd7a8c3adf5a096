"""Draw percentile spectra: whole distributions of lateness, with the same width for each further nine."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import altair as alt

from mocketmq_report import figures
from mocketmq_report.document import Comparison, Report, Spectrum
from mocketmq_report.judge.limits import DrawnLimit
from mocketmq_report.report.chart import (
    DASHES,
    Chart,
    LatenessAxis,
    LegendEntry,
    Shape,
    color,
    count,
    dash,
    duration,
    rows,
    spec,
    text,
)

_HEIGHT: Final = 320
_SHAPES: Final[tuple[Shape, ...]] = ("line", "dash", "dot")
_COLORS: Final = 6
_VERDICTS: Final = [
    LegendEntry("threshold, passed", "var(--good)", "dash"),
    LegendEntry("threshold, failed", "var(--bad)", "dash"),
]


def spectrum_chart(report: Report, drawn_limits: Sequence[DrawnLimit]) -> Chart | None:
    """Draw the total and the levels. One level can be chosen: at first one that failed, or the worst p99."""
    measured = {(row.dimension, row.name): row for row in report.lateness}
    spectra = {(each.dimension, each.name): each for each in report.spectra if each.points}
    if not spectra:
        return None
    most = max(_odds(each)[-1] for each in spectra.values())
    names = {key: figures.group(*key, measured[key].delay) for key in spectra}
    limits = [
        _line(limit, names[key], most)
        for key in spectra
        for limit in drawn_limits
        if (limit.dimension, limit.name) == key
    ]
    late = LatenessAxis(
        [
            *(point.value_us for each in spectra.values() for point in each.points),
            *(limit["late"] for limit in limits),
        ]
    )
    points = [point for key, each in spectra.items() for point in _points(each, late, group=names[key])]
    x = _x(most)
    levels = [key for key in spectra if key[0] != "total"]
    base = rows(points).encode(x=x, y=late.y("y"), detail=alt.Detail("group:N"))
    keys = [LegendEntry("total", "var(--ink)", "line")]
    layers = []
    shown = "datum.group == 'total'"
    if levels:
        keys += [
            LegendEntry("the chosen level", "var(--accent)", "line"),
            *[LegendEntry("the other levels", "var(--faint)", "line")] * (len(levels) > 1),
        ]
        shown += " || datum.group == chosen"
        failed = {limit["group"] for limit in limits if limit["verdict"] == _VERDICTS[1].label}
        worst = max(levels, key=lambda key: (names[key] in failed, _p99(spectra[key])))
        others = base.transform_filter("datum.group != 'total'").mark_line(
            color="var(--faint)", strokeWidth=1
        )
        layers.append(others.add_params(_chosen([names[key] for key in levels], names[worst])))
    of = alt.condition("datum.group == 'total'", alt.value("var(--ink)"), alt.value("var(--accent)"))
    layers.append(base.transform_filter(shown).mark_line(strokeWidth=2).encode(color=of))
    layers.append(
        base.transform_filter(shown)
        .mark_circle(size=150, opacity=0, color="var(--ink)")
        .encode(tooltip=_tooltip("group"))
    )
    if limits:
        keys += [key for key in _VERDICTS if any(limit["verdict"] == key.label for limit in limits)]
        layers += _limit_layers(limits, shown, x, late)
    return Chart(
        "spectrum",
        "Percentile spectrum",
        "How late the worst tenth, hundredth and thousandth were: each step to the right is ten times rarer.",
        keys,
        spec(alt.layer(*layers).resolve_scale(color="independent"), _HEIGHT),
    )


def comparison_chart(comparison: Comparison) -> Chart | None:
    """Draw the distributions of all sides in one chart, of the total or of one level."""
    delays = {(row.dimension, row.name): row.delay for row in comparison.changes}
    spectra = [
        (figures.harmless(side.name), each)
        for side in comparison.sides
        for each in side.spectra
        if each.points
    ]
    if not spectra:
        return None
    late = LatenessAxis(point.value_us for _, each in spectra for point in each.points)
    points = [
        point
        for side, each in spectra
        for point in _points(each, late, side=side, group=_group(each, delays))
    ]
    groups = list(dict.fromkeys(point["group"] for point in points))
    keys = [
        LegendEntry(
            figures.harmless(side.name), f"var(--c{number % _COLORS})", _SHAPES[number % len(_SHAPES)]
        )
        for number, side in enumerate(comparison.sides)
    ]
    base = rows(points).transform_filter("datum.group == chosen")
    base = base.encode(
        x=_x(max(_odds(each)[-1] for _, each in spectra)), y=late.y("y"), color=color("side", keys)
    )
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dash("side", keys))
    tips = base.mark_circle(size=150, opacity=0, color="var(--ink)").encode(tooltip=_tooltip("side"))
    return Chart(
        "comparison",
        "All distributions",
        "Where two lines part, the sides differ; the lower one is less late.",
        keys,
        spec(alt.layer(lines.add_params(_chosen(groups, groups[0])), tips), _HEIGHT),
    )


def _group(spectrum: Spectrum, delays: dict[Any, str | None]) -> str:
    delay = delays.get((spectrum.dimension, spectrum.name))
    return figures.group(spectrum.dimension, spectrum.name, delay)


def _p99(spectrum: Spectrum) -> int:
    return next((point.value_us for point in spectrum.points if point.percentile >= 99), 0)


def _chosen(groups: Sequence[str], value: str) -> alt.Parameter:
    return alt.param(name="chosen", value=value, bind=alt.binding_select(options=list(groups), name="show "))


def _points(spectrum: Spectrum, late: LatenessAxis, **labels: str) -> Iterator[dict[str, Any]]:
    for x, point in zip(_odds(spectrum), spectrum.points, strict=True):
        yield labels | {
            "x": round(x, 4),
            "y": late.at(point.value_us),
            "late": point.value_us,
            "share": round(point.percentile / 100, 9),
            "count": point.count,
        }


def _odds(spectrum: Spectrum) -> list[float]:
    """The x of each point: at x one of x is later, which is 1/(1 - p). The last of n stands at n."""
    odds = [100 / (100 - point.percentile) for point in spectrum.points if point.percentile < 100]
    ends = len(spectrum.points) - len(odds)
    return odds + [max(*odds[-1:], float(spectrum.points[-1].count), 1.0)] * ends


def _x(most: float) -> alt.X:
    """The axis from 0 % to where one of ``most`` is later."""
    most = max(most, 10)
    ticks = [1, 2, *(10**power for power in range(1, math.floor(math.log10(most) + 1e-9) + 1))]
    axis = alt.Axis(
        values=ticks,
        labelExpr="format(100 * (1 - 1 / datum.value), '.6~f') + '%'",
        title="share of deliveries that are not later",
    )
    return alt.X("x:Q", scale=alt.Scale(type="log", domain=[1, most]), axis=axis)


def _tooltip(of: str) -> list[alt.Tooltip]:
    return [
        text(of, "of"),
        alt.Tooltip("share:Q", title="share", format=".6~%"),
        duration("late", "not later than"),
        count("count", "deliveries"),
    ]


def _line(limit: DrawnLimit, group: str, most: float) -> dict[str, Any]:
    """A limit as a row of the chart, with the x at which its percentile stands."""
    odds = 100 / (100 - limit.percentile) if limit.percentile < 100 else most
    return {
        "group": group,
        "x": min(odds, most),
        "late": limit.limit_us,
        "threshold": limit.text,
        "actual": limit.actual_us,
        "verdict": _VERDICTS[0 if limit.holds else 1].label,
    }


def _limit_layers(limits: list[dict[str, Any]], shown: str, x: alt.X, late: LatenessAxis) -> list[alt.Chart]:
    """A line for each limit, with a mark at its percentile, or at the end for the maximum."""
    verdict = color("verdict", _VERDICTS)
    base = rows(limit | {"y": late.at(limit["late"])} for limit in limits).transform_filter(shown)
    base = base.encode(y=late.y("y"), color=verdict)
    tooltip = [
        text("group", "of"),
        text("threshold", "threshold"),
        duration("actual", "is"),
        text("verdict", "verdict"),
    ]
    return [
        base.mark_rule(strokeDash=DASHES["dash"], strokeWidth=1.5),
        base.mark_point(shape="triangle-down", filled=True, size=90, opacity=1, yOffset=-6).encode(
            x=x, tooltip=tooltip
        ),
    ]
