"""Draws percentile spectra: whole distributions of lateness, in which each further nine is equally wide."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mocketmq_report import figures
from mocketmq_report.document import Comparison, Report, Spectrum
from mocketmq_report.judge.drawn_limits import DrawnLimit
from mocketmq_report.report.chart import (
    DASHES,
    Chart,
    LatenessAxis,
    LegendEntry,
    Spec,
    Tip,
    line,
    mark,
    subject_keys,
)

_HEIGHT: Final = 320
_VERDICTS: Final = [
    LegendEntry("threshold, passed", "var(--good)", "dash"),
    LegendEntry("threshold, failed", "var(--bad)", "dash"),
]


def spectrum_chart(report: Report, drawn_limits: Sequence[DrawnLimit]) -> Chart | None:
    """Draw the total and the levels. Preselects a level that failed, or else the level with the worst p99."""
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
    levels = [key for key in spectra if key[0] != "total"]
    spec: Spec = {"height": _HEIGHT, "x": _x(most), "y": late.axis(), "marks": []}
    keys = [LegendEntry("total", "var(--ink)", "line")]
    if levels:
        keys += [
            LegendEntry("the chosen level", "var(--accent)", "line"),
            *[LegendEntry("the other levels", "var(--faint)", "line")] * (len(levels) > 1),
        ]
        failed = {limit["group"] for limit in limits if limit["verdict"] == _VERDICTS[1].label}
        worst = max(levels, key=lambda key: (names[key] in failed, _p99(spectra[key])))
        spec["choice"] = {"options": [names[key] for key in levels], "value": names[worst]}
    for key in [*levels, *(key for key in spectra if key[0] == "total")]:
        of: dict[str, Any] = {"color": "var(--ink)"}
        if key[0] != "total":
            of = {"color": "var(--accent)", "of": names[key], "rest": "var(--faint)"}
        points = _points(spectra[key], late, group=names[key])
        spec["marks"].append(mark("line", points, x="x", y="y", tip=_tip("group"), **of))
    if limits:
        keys += [key for key in _VERDICTS if any(limit["verdict"] == key.label for limit in limits)]
        spec["marks"] += _limit_marks(limits, late)
    return Chart(
        "spectrum",
        "Percentile spectrum",
        "Lateness of the worst tenth, hundredth and thousandth: each step to the right is ten times rarer.",
        keys,
        spec,
    )


def comparison_chart(comparison: Comparison) -> Chart | None:
    """Draw the distributions of all sides in one chart, of the total or of one level."""
    delays = {(row.dimension, row.name): row.delay for row in comparison.changes}
    keys = subject_keys(side.name for side in comparison.sides)
    spectra = [
        (key, each)
        for key, side in zip(keys, comparison.sides, strict=True)
        for each in side.spectra
        if each.points
    ]
    if not spectra:
        return None
    late = LatenessAxis(point.value_us for _, each in spectra for point in each.points)
    groups = list(dict.fromkeys(_group(each, delays) for _, each in spectra))
    spec = {
        "height": _HEIGHT,
        "x": _x(max(_odds(each)[-1] for _, each in spectra)),
        "y": late.axis(),
        "choice": {"options": groups, "value": groups[0]},
        "marks": [
            line(key, _points(each, late, side=key.label), _tip("side"), of=_group(each, delays))
            for key, each in spectra
        ],
    }
    return Chart(
        "comparison",
        "All distributions",
        "Where two lines diverge, the sides differ; the lower one is less late.",
        keys,
        spec,
    )


def side_by_side(sides: Sequence[tuple[LegendEntry, Spectrum]]) -> Chart:
    """Draw the same distribution of each side."""
    late = LatenessAxis(point.value_us for _, each in sides for point in each.points)
    spec = {
        "height": _HEIGHT,
        "x": _x(max(_odds(each)[-1] for _, each in sides)),
        "y": late.axis(),
        "marks": [line(key, _points(each, late, side=key.label), _tip("side")) for key, each in sides],
    }
    return Chart(
        "spectrum",
        "Percentile spectrum",
        "Lateness of the worst tenth, hundredth and thousandth; the lower line is less late.",
        [key for key, _ in sides],
        spec,
    )


def _group(spectrum: Spectrum, delays: dict[Any, str | None]) -> str:
    delay = delays.get((spectrum.dimension, spectrum.name))
    return figures.group(spectrum.dimension, spectrum.name, delay)


def _p99(spectrum: Spectrum) -> int:
    return next((point.value_us for point in spectrum.points if point.percentile >= 99), 0)


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
    """Return the x of each point: 1/(1 - p), so that one delivery in x is later.

    A point at 100 % would be at infinity, so it gets the number of deliveries, or the x of the last point
    before it if that is larger.
    """
    odds = [100 / (100 - point.percentile) for point in spectrum.points if point.percentile < 100]
    ends = len(spectrum.points) - len(odds)
    return odds + [max(*odds[-1:], float(spectrum.points[-1].count), 1.0)] * ends


def _x(most: float) -> Spec:
    """Make the axis from 0 % to the percentile that one in ``most`` deliveries exceeds."""
    most = max(most, 10)
    ticks = [1, 2, *(10**power for power in range(1, math.floor(math.log10(most) + 1e-9) + 1))]
    return {
        "log": True,
        "domain": [1, most],
        "ticks": [(tick, f"{figures.plain(f'{100 * (1 - 1 / tick):.6f}')}%") for tick in ticks],
        "title": "share of deliveries that are not later",
        "hasGrid": True,
    }


def _tip(of: str) -> list[Tip]:
    return [
        *(Tip("of", of, "text"), Tip("share", "share", "share")),
        *(Tip("not later than", "late", "duration"), Tip("deliveries", "count", "count")),
    ]


def _line(limit: DrawnLimit, group: str, most: float) -> dict[str, Any]:
    """Make a row of the chart from a limit, with the x of its percentile."""
    odds = 100 / (100 - limit.percentile) if limit.percentile < 100 else most
    return {
        "group": group,
        "x": min(odds, most),
        "late": limit.limit_us,
        "threshold": limit.text,
        "actual": limit.actual_us,
        "verdict": _VERDICTS[0 if limit.holds else 1].label,
    }


def _limit_marks(limits: Iterable[dict[str, Any]], late: LatenessAxis) -> Iterator[Spec]:
    """Draw a line for each limit, with a mark at its percentile. The mark of a maximum is at the end."""
    tip = [
        *(Tip("of", "group", "text"), Tip("threshold", "threshold", "text")),
        *(Tip("is", "actual", "duration"), Tip("verdict", "verdict", "text")),
    ]
    colors = {key.label: key.color for key in _VERDICTS}
    for limit in limits:
        drawn: dict[str, Any] = {"y": "y", "color": colors[limit["verdict"]]}
        if limit["group"] != "total":
            drawn["of"] = limit["group"]
        row = limit | {"y": late.at(limit["late"])}
        yield mark("rule", [{"y": row["y"]}], dash=DASHES["dash"], **drawn)
        yield mark("point", [row], x="x", shape="down", tip=tip, **drawn)
