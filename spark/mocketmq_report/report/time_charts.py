"""Draws charts over time by the broker's clock, with marks for broker starts and clock moves.

Instants are epoch milliseconds, as in JavaScript.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report import figures
from mocketmq_report.document import Cell, Instant, Timeline
from mocketmq_report.report.chart import (
    DASHES,
    Chart,
    LatenessAxis,
    LegendEntry,
    Spec,
    Tip,
    colors,
    mark,
    round_step,
)

HEATS: Final = 6
"""Number of colours in the heat map."""

_FIGURES: Final = [
    LegendEntry("p50", "var(--c0)", "line"),
    LegendEntry("p99", "var(--c1)", "dash"),
    LegendEntry("max", "var(--ink)", "dot"),
]
_MARKERS: Final = {
    "start": LegendEntry("a broker started", "var(--ink)", "up"),
    "move": LegendEntry("its clock was moved", "var(--c3)", "diamond"),
}
_EARLY: Final = LegendEntry("early", "var(--early)", "box")
_MOST_TICKS: Final = 13
_RATE_STEPS: Final = 4
_MINUTE_US: Final = 60 * US_PER_S


class _Time(NamedTuple):
    """The common parts of a timeline's charts."""

    x: Spec
    step_ms: float
    markers: list[Spec]
    keys: list[LegendEntry]  # for the markers


def time_charts(timeline: Timeline) -> Iterator[Chart]:
    """Draw the percentiles and the rate of each step, and the heat map; no charts if nothing was measured."""
    busy = [each for each in timeline.instants if each.count]
    if not busy:
        return
    time = _time(timeline)
    yield _percentiles(busy, timeline.step_us, time)
    yield _rate(busy, timeline.step_us, time)
    if timeline.cells:
        yield _heat_map(timeline.cells, time)


def _time(timeline: Timeline) -> _Time:
    first_us, end_us = timeline.instants[0].at_us, timeline.instants[-1].at_us + timeline.step_us
    step_us = round_step(end_us - first_us, _MOST_TICKS)
    ticks = range(first_us - first_us % -step_us, end_us + 1, step_us)
    x = {"domain": [_ms(first_us), _ms(end_us)], "instants": [_ms(tick) for tick in ticks]}
    tip = [
        *(Tip("what", "what", "text"), Tip("run", "run", "text")),
        *(Tip("at", "t", "instant"), Tip("to", "to", "instant")),
    ]
    markers, keys = [], []
    for kind, key in _MARKERS.items():
        marks = [
            {
                "t": _ms(marker.at_us),
                "to": _ms(marker.to_us),
                "what": key.label,
                "run": figures.harmless(marker.run),
            }
            for marker in timeline.markers
            if marker.kind == kind and first_us <= marker.at_us <= end_us
        ]
        if marks:
            keys.append(key)
            instants = [{"x": each["t"]} for each in marks]
            markers.append(mark("rule", instants, x="x", color=key.color, opacity=0.5))
            markers.append(mark("point", marks, x="t", color=key.color, shape=key.shape, tip=tip))
    return _Time(x, _ms(timeline.step_us), markers, keys)


def _ms(us: int) -> float:
    """Convert microseconds to milliseconds, as an int if whole."""
    return us / US_PER_MS if us % US_PER_MS else us // US_PER_MS


def _percentiles(instants: list[Instant], step_us: int, time: _Time) -> Chart:
    late = LatenessAxis(value for each in instants for value in _of(each).values())
    keys = [key for key in _FIGURES if any(_of(each)[key.label] is not None for each in instants)]
    lines = (
        mark(
            "line",
            _line(instants, step_us, late, key.label),
            x="t",
            y="y",
            color=key.color,
            dash=DASHES[key.shape],
            width=1.6,
            isStepped=True,
        )
        for key in keys
    )
    tip = [
        *(Tip("from", "t", "instant"), Tip("deliveries", "count", "count")),
        *(Tip(key.label, key.label, "duration") for key in keys),
    ]
    under = mark("rect", _steps(instants, step_us), x="t", x2="end", color="transparent", tip=tip)
    spec = {"height": 240, "x": time.x, "y": late.axis(), "marks": [*lines, under, *time.markers]}
    return Chart(
        "time",
        "Lateness over time",
        "A gap means no deliveries. UTC, by the broker's clock.",
        [*keys, *time.keys],
        spec,
    )


def _rate(instants: list[Instant], step_us: int, time: _Time) -> Chart:
    unit = rate_unit(step_us)
    tip = [
        *(Tip("from", "t", "instant"), Tip("deliveries", "count", "count")),
        Tip(f"per {unit}", "rate", "count"),
    ]
    steps = mark(
        "rect", _steps(instants, step_us), x="t", x2="end", y=0, y2="rate", color="var(--c0)", tip=tip
    )
    y = _rate_axis(max(per_unit(each.count, step_us) for each in instants), f"deliveries per {unit}")
    return Chart(
        "rate",
        f"Deliveries per {unit}",
        "Whether lateness grows with the number of deliveries.",
        time.keys,
        {"height": 110, "x": time.x, "y": y, "marks": [steps, *time.markers]},
    )


def _rate_axis(most: float, title: str) -> Spec:
    """Make an axis from 0 to a round number, with at most four steps."""
    power = 10.0 ** math.floor(math.log10(most) - 1)
    step = next(step for digit in (1, 2, 5, 10, 20, 50) if most / (step := digit * power) <= _RATE_STEPS)
    ticks = [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]
    return {"domain": [0, ticks[-1]], "ticks": [(tick, f"{tick:,.10g}") for tick in ticks], "title": title}


def rate_unit(step_us: int) -> str:
    """Return the unit of the rate axis: "second" if a step is shorter than a minute, else "minute"."""
    return "second" if step_us < _MINUTE_US else "minute"


def per_unit(count: int, step_us: int) -> float:
    """Convert a step's deliveries to deliveries per unit."""
    return count * (US_PER_S if step_us < _MINUTE_US else _MINUTE_US) / step_us


def _heat_map(cells: list[Cell], time: _Time) -> Chart:
    late = LatenessAxis(
        edge for cell in cells for edge in (max(cell.low_us, cell.high_us / 10), cell.high_us)
    )
    keys, limits = _heats(max(cell.count for cell in cells))
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for cell in cells:
        is_early = cell.high_us <= 0
        heat = _EARLY if is_early else keys[bisect_right(limits, cell.count)]
        rows[is_early].append(
            {
                "t": _ms(cell.at_us),
                "low": cell.low_us,
                "high": cell.high_us,
                "count": cell.count,
                "heat": heat.label,
            }
        )
    tip = [
        *(Tip("from", "t", "instant"), Tip("deliveries", "count", "count")),
        *(Tip("later than", "low", "duration"), Tip("up to", "high", "duration")),
    ]
    # Early deliveries have their own row, below the axis.
    drawn: dict[str, Any] = {
        "x": "t",
        "wide": time.step_ms,
        "color": "heat",
        "colors": colors([*keys, _EARLY]),
        "tip": tip,
    }
    marks = [
        mark("rect", rows[False], y="low", y2="high", least=late.floor, **drawn),
        *[mark("rect", rows[True], y=late.floor / 3, y2=late.floor / 1.4, **drawn)] * bool(rows[True]),
    ]
    y = late.axis(late.floor / 3 if rows[True] else None)
    return Chart(
        "heat",
        "Heat map of lateness",
        "Deliveries by time and lateness; colours show their number.",
        [*keys, *[_EARLY] * bool(rows[True]), *time.keys],
        {"height": 260, "x": time.x, "y": y, "marks": [*marks, *time.markers]},
    )


def _heats(most: int) -> tuple[list[LegendEntry], list[int]]:
    """Make a legend of up to HEATS colours for numbers up to ``most``, and the limits between colours."""
    limits = sorted({max(2, round(most ** (step / HEATS))) for step in range(1, HEATS)} - {most + 1})
    steps = list(zip([1, *limits], [*limits, most + 1], strict=True))
    return [
        LegendEntry(
            f"{low:,}" if low == high - 1 else f"{low:,}–{high - 1:,}", f"var(--heat-{number})", "box"
        )
        for number, (low, high) in enumerate(steps, start=HEATS - len(steps))
    ], limits


def _of(instant: Instant) -> dict[str, int | None]:
    return {"p50": instant.p50_us, "p99": instant.p99_us, "max": instant.max_us}


def _steps(instants: Iterable[Instant], step_us: int) -> Iterator[dict[str, Any]]:
    for each in instants:
        yield {
            "t": _ms(each.at_us),
            "end": _ms(each.at_us + step_us),
            "count": each.count,
            "rate": round(per_unit(each.count, step_us), 3),
            **_of(each),
        }


def _line(instants: list[Instant], step_us: int, late: LatenessAxis, of: str) -> Iterator[dict[str, Any]]:
    """Yield the begin of each step, and before a gap also the step's end and a null that breaks the line."""
    for each, after in zip(instants, [*instants[1:], None], strict=True):
        end_us, y = each.at_us + step_us, late.at(_of(each)[of])
        yield {"t": _ms(each.at_us), "of": of, "y": y}
        if after is None or after.at_us > end_us:
            yield {"t": _ms(end_us), "of": of, "y": y}
            yield {"t": _ms(end_us), "of": of, "y": None}
