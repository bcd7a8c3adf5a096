"""Draw charts over time by the broker's clock, each with marks for starts of brokers and moves of clocks.

Instants are epoch milliseconds, as Vega's scales of time need them.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import altair as alt

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report import figures
from mocketmq_report.document import Cell, Instant, Timeline
from mocketmq_report.report.chart import (
    LEFT,
    Chart,
    LatenessAxis,
    LegendEntry,
    color,
    count,
    dash,
    duration,
    instant,
    rows,
    spec,
    text,
)

HEATS: Final = 6
"""Colours of the heat map."""

_FIGURES: Final = [
    LegendEntry("p50", "var(--c0)", "line"),
    LegendEntry("p99", "var(--c1)", "dash"),
    LegendEntry("max", "var(--ink)", "dot"),
]
_MARKERS: Final = {
    "start": LegendEntry("a broker started", "var(--ink)", "up"),
    "move": LegendEntry("its clock was moved", "var(--c3)", "diamond"),
}
_SHAPES: Final = {"up": "triangle-up", "diamond": "diamond"}
_EARLY: Final = LegendEntry("early", "var(--early)", "box")
_LABEL: Final = (
    "utcFormat(datum.value, datum.value % 60000 ? '%H:%M:%S' : datum.value % 86400000 ? '%H:%M' : '%e %b')"
)
_MINUTE_US: Final = 60 * US_PER_S


class _Time(NamedTuple):
    """The common parts of a timeline's charts."""

    x: alt.X
    step: float
    markers: list[alt.Chart]
    keys: list[LegendEntry]  # of the markers


def time_charts(timeline: Timeline) -> Iterator[Chart]:
    """Percentiles and rate of each step, and the heat map; none of them if nothing was measured."""
    busy = [each for each in timeline.instants if each.count]
    if not busy:
        return
    time = _time(timeline)
    yield _percentiles(busy, timeline.step_us, time)
    yield _rate(busy, timeline.step_us, time)
    if timeline.cells:
        yield _heat_map(timeline.cells, time)


def _time(timeline: Timeline) -> _Time:
    step = timeline.step_us / US_PER_MS
    first, last = (at_us / US_PER_MS for at_us in (timeline.instants[0].at_us, timeline.instants[-1].at_us))
    x = alt.X(
        "t:T",
        scale=alt.Scale(type="utc", domain=[first, last + step]),
        axis=alt.Axis(title=None, grid=False, labelExpr=_LABEL),
    )
    marks = [
        {
            "t": marker.at_us / US_PER_MS,
            "to": marker.to_us / US_PER_MS,
            "what": _MARKERS[marker.kind].label,
            "run": figures.harmless(marker.run),
        }
        for marker in timeline.markers
        if first <= marker.at_us / US_PER_MS <= last + step
    ]
    keys = [key for key in _MARKERS.values() if any(mark["what"] == key.label for mark in marks)]
    if not keys:
        return _Time(x, step, [], [])
    shapes = alt.Scale(domain=[key.label for key in keys], range=[_SHAPES[key.shape] for key in keys])
    base = rows(marks).encode(x=x, color=color("what", keys))
    points = base.mark_point(filled=True, size=60, opacity=1, yOffset=-2).encode(
        y=alt.value(0),
        shape=alt.Shape("what:N", scale=shapes, legend=None),
        tooltip=[text("what", "what"), text("run", "run"), instant("t", "at"), instant("to", "to")],
    )
    return _Time(x, step, [base.mark_rule(opacity=0.5), points], keys)


def _layered(time: _Time, *layers: alt.Chart) -> alt.LayerChart:
    """Add the markers, which have colours of their own."""
    layered: alt.LayerChart = alt.layer(*layers, *time.markers).resolve_scale(color="independent")
    return layered


def _percentiles(instants: list[Instant], step_us: int, time: _Time) -> Chart:
    late = LatenessAxis(value for each in instants for value in _of(each).values())
    keys = [key for key in _FIGURES if any(_of(each)[key.label] is not None for each in instants)]
    return Chart(
        "time",
        "Lateness over time",
        "A gap means that nothing was delivered. UTC, by the broker's clock.",
        [*keys, *time.keys],
        spec(
            _layered(
                time,
                rows(_lines(instants, step_us, late))
                .mark_line(interpolate="step-after", strokeWidth=1.6)
                .encode(x=time.x, y=late.y("y"), color=color("of", keys), strokeDash=dash("of", keys)),
                rows(_steps(instants, step_us))
                .mark_rect(opacity=0, color="var(--ink)")
                .encode(
                    x=time.x,
                    x2="end",
                    tooltip=[
                        instant("t", "from"),
                        count("count", "deliveries"),
                        *(duration(key.label, key.label) for key in keys),
                    ],
                ),
            ),
            240,
        ),
    )


def _rate(instants: list[Instant], step_us: int, time: _Time) -> Chart:
    unit = rate_unit(step_us)
    axis = alt.Axis(title=f"deliveries per {unit}", tickCount=4, **LEFT)
    bars = rows(_steps(instants, step_us)).mark_rect(color="var(--c0)")
    return Chart(
        "rate",
        f"Deliveries per {unit}",
        "Whether deliveries were late when there were many.",
        time.keys,
        spec(
            _layered(
                time,
                bars.encode(
                    x=time.x,
                    x2="end",
                    y=alt.Y("rate:Q", axis=axis),
                    y2=alt.datum(0),
                    tooltip=[
                        instant("t", "from"),
                        count("count", "deliveries"),
                        count("rate", f"per {unit}"),
                    ],
                ),
            ),
            110,
        ),
    )


def rate_unit(step_us: int) -> str:
    """The unit of the rate: a short run, whose steps are short, has deliveries per second."""
    return "second" if step_us < _MINUTE_US else "minute"


def per_unit(count: int, step_us: int) -> float:
    """How many deliveries of a step there were in each such unit."""
    return count * (US_PER_S if step_us < _MINUTE_US else _MINUTE_US) / step_us


def _heat_map(cells: list[Cell], time: _Time) -> Chart:
    late = LatenessAxis(
        edge for cell in cells for edge in (max(cell.low_us, cell.high_us / 10), cell.high_us)
    )
    keys, limits = _heats(max(cell.count for cell in cells))
    is_early = any(cell.high_us <= 0 for cell in cells)
    first = min(cell.at_us for cell in cells)
    # Ten thousand cells are a page's largest part. As text they take a third of the room of objects.
    lines = (
        f"{(cell.at_us - first) // US_PER_MS},{cell.low_us},{cell.high_us},{cell.count},"
        f"{_EARLY.label if cell.high_us <= 0 else keys[bisect_right(limits, cell.count)].label}"
        for cell in cells
    )
    numbers = alt.CsvDataFormat(type="csv", parse=dict.fromkeys(("at", "low", "high", "count"), "number"))
    data = alt.InlineData(values="\n".join(["at,low,high,count,heat", *lines]), format=numbers)
    chart = (
        alt.Chart(data)
        .transform_calculate(
            t=f"datum.at + {first / US_PER_MS}",
            end=f"datum.at + {first / US_PER_MS + time.step}",
            # Early deliveries have a row of their own, below the axis.
            y=f"datum.high > 0 ? max(datum.low, {late.floor}) : {late.floor / 3}",
            y2=f"datum.high > 0 ? datum.high : {late.floor / 1.4}",
        )
        .mark_rect()
        .encode(
            x=time.x,
            x2="end",
            y=late.y("y", late.floor / 3 if is_early else None),
            y2="y2",
            color=color("heat", [*keys, _EARLY]),
            tooltip=[
                instant("t", "from"),
                count("count", "deliveries"),
                duration("low", "later than"),
                duration("high", "up to"),
            ],
        )
    )
    return Chart(
        "heat",
        "Heat map of lateness",
        "How many deliveries of each step were how late; colours stand for numbers of deliveries.",
        [*keys, *[_EARLY] * is_early, *time.keys],
        spec(_layered(time, chart), 260),
    )


def _heats(most: int) -> tuple[list[LegendEntry], list[int]]:
    """A legend of up to HEATS colours, for numbers up to ``most``, and the limits between these."""
    limits = sorted({max(2, round(most ** (step / HEATS))) for step in range(1, HEATS)} - {most + 1})
    steps = list(zip([1, *limits], [*limits, most + 1], strict=True))
    return [
        LegendEntry(f"{low}" if low == high - 1 else f"{low}–{high - 1}", f"var(--heat-{number})", "box")
        for number, (low, high) in enumerate(steps, start=HEATS - len(steps))
    ], limits


def _of(instant: Instant) -> dict[str, int | None]:
    return {"p50": instant.p50_us, "p99": instant.p99_us, "max": instant.max_us}


def _steps(instants: Iterable[Instant], step_us: int) -> Iterator[dict[str, Any]]:
    for each in instants:
        yield {
            "t": each.at_us / US_PER_MS,
            "end": (each.at_us + step_us) / US_PER_MS,
            "count": each.count,
            "rate": round(per_unit(each.count, step_us), 3),
            **_of(each),
        }


def _lines(instants: list[Instant], step_us: int, late: LatenessAxis) -> Iterator[dict[str, Any]]:
    """The points of the lines: begin and end of each step, and a null before a gap, which breaks the line."""
    for each, after in zip(instants, [*instants[1:], None], strict=True):
        end_us = each.at_us + step_us
        for of, value in _of(each).items():
            yield {"t": each.at_us / US_PER_MS, "of": of, "y": late.at(value)}
            if after is None or after.at_us > end_us:
                yield {"t": end_us / US_PER_MS, "of": of, "y": late.at(value)}
                yield {"t": end_us / US_PER_MS, "of": of, "y": None}
