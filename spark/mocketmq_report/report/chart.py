"""Common parts of a report's charts: their look, their axis of lateness, their legends and tooltips.

Altair makes specifications that Vega draws as SVG. All colours are variables of ``report.css``, so that
another theme, or paper, needs no new drawing. ``report.js`` adds the formats ``duration`` and ``instant``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple

import altair as alt

from mocketmq.clock import US_PER_S

_MINUTE_US: Final = 60 * US_PER_S
_DAY_US: Final = 24 * 60 * _MINUTE_US
_TICKS: Final = [
    *(10**power for power in range(8)),
    *(_MINUTE_US, 10 * _MINUTE_US, 60 * _MINUTE_US),
    *(_DAY_US * 10**power for power in range(6)),
]
_MARGIN: Final = 44
"""Pixels for the labels of a left axis: charts over the same time are aligned."""

LEFT: Final[dict[str, Any]] = {
    # A title above its axis is read without turning the head.
    **{"titleAlign": "left", "titleAngle": 0, "titleX": -_MARGIN, "titleY": -10, "titleBaseline": "bottom"},
    **{"minExtent": _MARGIN, "maxExtent": _MARGIN},
}
_CONFIG: Final[dict[str, Any]] = {
    "aria": False,  # the page describes each chart as a whole
    "background": "transparent",
    "customFormatTypes": True,
    "font": "system-ui, sans-serif",
    "padding": {"left": 0, "right": 12, "top": 4, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--line)",
        "gridColor": "var(--line)",
        "labelColor": "var(--dim)",
        "labelFontSize": 11,
        "tickColor": "var(--line)",
        "titleColor": "var(--dim)",
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titlePadding": 8,
    },
}

Shape = Literal["line", "dash", "dot", "circle", "up", "diamond", "box"]
DASHES: Final[dict[str, list[int]]] = {"line": [1, 0], "dash": [7, 3], "dot": [2, 2]}


class LegendEntry(NamedTuple):
    """An entry of a legend."""

    label: str
    color: str
    shape: Shape


class Chart(NamedTuple):
    """A chart: ``spec`` is for Vega, all else for the reader."""

    name: str
    title: str
    note: str  # how to read it
    keys: list[LegendEntry]
    spec: dict[str, Any]


class LatenessAxis:
    """A logarithmic axis of lateness with room for all ``values``, in microseconds.

    Values of 0 or less stand on its lowest tick.
    """

    def __init__(self, values: Iterable[float | None]) -> None:
        positive = [value for value in values if value is not None and value > 0] or [1.0]
        first = max(index for index, tick in enumerate(_TICKS) if index == 0 or tick <= min(positive))
        last = next((index for index, tick in enumerate(_TICKS) if tick >= max(positive)), len(_TICKS) - 1)
        self._ticks = _TICKS[first : max(last, first + 1) + 1]
        self.floor = self._ticks[0]

    def at(self, value: float | None) -> float | None:
        """The value on the axis at which a lateness is drawn."""
        return None if value is None else max(value, self.floor)

    def y(self, field: str, floor: float | None = None) -> alt.Y:
        """The axis on the left, from the lowest tick or from ``floor``."""
        scale = alt.Scale(type="log", domain=[floor or self.floor, self._ticks[-1]])
        axis = alt.Axis(values=self._ticks, formatType="duration", title="lateness", **LEFT)
        return alt.Y(f"{field}:Q", scale=scale, axis=axis)


def spec(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """The specification for Vega, as wide as its place on the page."""
    sized = chart.properties(width="container", height=height).configure(**_CONFIG)
    made: dict[str, Any] = sized.to_dict(format="vega")
    return {key: value for key, value in made.items() if key != "$schema"}  # is an address


def rows(values: Iterable[dict[str, Any]]) -> alt.Chart:
    """A chart with these rows as its data."""
    return alt.Chart(alt.InlineData(values=list(values)))


def color(field: str, keys: Sequence[LegendEntry]) -> alt.Color:
    """The colours of a legend that the page shows."""
    scale = alt.Scale(domain=[key.label for key in keys], range=[key.color for key in keys])
    return alt.Color(f"{field}:N", scale=scale, legend=None)


def dash(field: str, keys: Sequence[LegendEntry]) -> alt.StrokeDash:
    """The dashes of a legend, by which lines differ without colours."""
    scale = alt.Scale(domain=[key.label for key in keys], range=[DASHES[key.shape] for key in keys])
    return alt.StrokeDash(f"{field}:N", scale=scale, legend=None)


def text(field: str, title: str) -> alt.Tooltip:
    """A line of a tooltip."""
    return alt.Tooltip(f"{field}:N", title=title)


def count(field: str, title: str) -> alt.Tooltip:
    """A line of a tooltip with a number."""
    return alt.Tooltip(f"{field}:Q", title=title, format=",")


def duration(field: str, title: str) -> alt.Tooltip:
    """A line of a tooltip with a duration in microseconds."""
    return alt.Tooltip(f"{field}:Q", title=title, formatType="duration")


def instant(field: str, title: str) -> alt.Tooltip:
    """A line of a tooltip with an instant in epoch milliseconds."""
    return alt.Tooltip(f"{field}:Q", title=title, formatType="instant")
