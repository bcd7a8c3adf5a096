"""Common parts of a report's charts: their axes, marks, legends and tooltips.

A chart is a specification in JSON, made in milliseconds; ``report.js`` draws it as SVG. All colours are
variables of ``report.css``, so that a different theme, or printing, does not redraw the charts.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

from mocketmq.clock import US_PER_S
from mocketmq_report import figures

_MINUTE_US: Final = 60 * US_PER_S
_HOUR_US: Final = 60 * _MINUTE_US
_DAY_US: Final = 24 * _HOUR_US
_TICKS: Final = [
    *(10**power for power in range(8)),
    *(_MINUTE_US, 10 * _MINUTE_US, _HOUR_US),
    *(_DAY_US * 10**power for power in range(6)),
]
_STEPS_US: Final[list[int]] = [
    *(digit * 10**power for power in range(7) for digit in (1, 2, 5)),
    *(10 * US_PER_S, 30 * US_PER_S),
    *(_MINUTE_US * each for each in (1, 2, 5, 10, 30)),
    *(_HOUR_US * each for each in (1, 3, 6, 12)),
    *(_DAY_US * digit * 10**power for power in range(6) for digit in (1, 2, 5)),
]
"""Round times between two ticks of a linear axis."""

_MOST_DURATIONS: Final = 6

Kind = Literal["bar", "rect", "line", "rule", "point"]
"""The shapes that ``report.js`` draws for the rows of a mark. Bars of the same band are stacked."""
Shape = Literal["line", "dash", "dot", "circle", "up", "diamond", "box"]
Format = Literal["text", "count", "duration", "share", "instant"]
Spec = dict[str, Any]
DASHES: Final[dict[str, list[int]]] = {"line": [1, 0], "dash": [7, 3], "dot": [2, 2]}
_SUBJECT_COLORS: Final = 6
_SUBJECT_SHAPES: Final[tuple[Shape, ...]] = ("line", "dash", "dot")


class LegendEntry(NamedTuple):
    """An entry of a legend."""

    label: str
    color: str
    shape: Shape
    is_name: bool = False  # the label is a name, and is not translated


class Tip(NamedTuple):
    """A line of a tooltip. Instants are epoch milliseconds, durations microseconds."""

    title: str
    field: str
    format: Format


class Chart(NamedTuple):
    """A chart. ``spec`` is for ``report.js``, and the other fields are for the reader."""

    name: str
    title: str
    note: str  # how to read the chart
    keys: list[LegendEntry]
    spec: Spec


class LatenessAxis:
    """A logarithmic axis of lateness with room for all ``values``, in microseconds.

    Values of 0 or less are at the lowest tick.
    """

    def __init__(self, values: Iterable[float | None]) -> None:
        positive = [value for value in values if value is not None and value > 0] or [1.0]
        first = max(index for index, tick in enumerate(_TICKS) if index == 0 or tick <= min(positive))
        last = next((index for index, tick in enumerate(_TICKS) if tick >= max(positive)), len(_TICKS) - 1)
        self._ticks = _TICKS[first : max(last, first + 1) + 1]
        self.floor = self._ticks[0]

    def at(self, value: float | None) -> float | None:
        """Return the position of a lateness on the axis."""
        return None if value is None else max(value, self.floor)

    def axis(self, floor: float | None = None) -> Spec:
        """Make the axis, from the lowest tick or from ``floor``."""
        ends = [floor or self.floor, self._ticks[-1]]
        ticks = [(tick, figures.duration(tick)) for tick in self._ticks]
        return {"log": True, "domain": ends, "ticks": ticks, "title": "lateness"}


def duration_axis(most_us: float, title: str) -> Spec:
    """Make an axis of durations from 0."""
    end = max(most_us, 1)
    ticks = range(0, math.floor(end) + 1, round_step(end, _MOST_DURATIONS))
    return {
        "domain": [0, end],
        "ticks": [(tick, figures.duration(tick)) for tick in ticks],
        "title": title,
        "hasGrid": True,
    }


def round_step(span_us: float, most: int) -> int:
    """Return the shortest round time that fits into ``span_us`` at most ``most`` times."""
    return next((step for step in _STEPS_US if span_us / step <= most), _STEPS_US[-1])


def mark(kind: Kind, rows: Iterable[dict[str, Any]], *, tip: Sequence[Tip] = (), **drawn: Any) -> Spec:
    """Draw rows that all have the same fields.

    ``x``, ``x2``, ``y`` and ``y2`` are names of fields, or numbers; without them, a rule extends from edge to
    edge, and a point is at the top. The ``size`` of a bar is a field; without it, the reader chooses one.
    ``color`` is a colour, or with ``colors`` a field whose values have these colours. A mark with ``of`` is
    shown if the reader chooses ``of``, and otherwise only with a colour for the ``rest``.
    """
    values = list(rows)
    fields = list(values[0]) if values else []
    return {
        "kind": kind,
        "fields": fields,
        "rows": [list(row.values()) for row in values],
        **({"tip": list(tip)} if tip else {}),
        **drawn,
    }


def line(key: LegendEntry, rows: Iterable[dict[str, Any]], tip: Sequence[Tip], **drawn: Any) -> Spec:
    """Draw a line of the legend from row to row, by their fields ``x`` and ``y``."""
    return mark("line", rows, x="x", y="y", color=key.color, dash=DASHES[key.shape], tip=tip, **drawn)


def subject_keys(names: Iterable[str]) -> list[LegendEntry]:
    """Return the entry of each compared subject, with a colour and a line of its own."""
    return [
        LegendEntry(
            figures.harmless(name),
            f"var(--c{number % _SUBJECT_COLORS})",
            _SUBJECT_SHAPES[number % len(_SUBJECT_SHAPES)],
            is_name=True,
        )
        for number, name in enumerate(names)
    ]


def colors(keys: Sequence[LegendEntry]) -> dict[str, str]:
    """Return the colours of a legend, by label."""
    return {key.label: key.color for key in keys}
