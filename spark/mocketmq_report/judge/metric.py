"""Reads metrics of a group, or of all levels, from a report by name, for thresholds and fail-if rules.

Values are microseconds, shares from 0 to 1, or counts, as exact fractions. Only a mean is rounded, to
microseconds.
"""

import re
from fractions import Fraction
from typing import Final, Literal, NamedTuple, TypeVar, get_args

from mocketmq.duration import format_duration
from mocketmq.errors import EmulatorError, shorten
from mocketmq_report import figures
from mocketmq_report.document import Dimension, Lateness, Reconciliation, Report

Kind = Literal["duration", "share", "count"]

DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
_RECONCILED: Final[tuple[Dimension, ...]] = ("total", "level", "scheme", "run")
_OF_THE_DATA: Final[tuple[Dimension, ...]] = ("total",)

METRICS: Final[dict[str, tuple[Kind, tuple[Dimension, ...]]]] = {
    **dict.fromkeys(("min", "mean", "max"), ("duration", DIMENSIONS)),
    "on_time": ("share", DIMENSIONS),
    **dict.fromkeys(("measured", "early", "overdue"), ("count", DIMENSIONS)),
    **dict.fromkeys(
        (
            *("sent", "delivered", "pending", "cancelled", "expired", "lost"),
            *("repeats", "forced", "silent", "disorder"),
        ),
        ("count", _RECONCILED),
    ),
    **dict.fromkeys(("read", "kept", "dropped", "skewed", "impossible", "broken"), ("count", _OF_THE_DATA)),
}
"""All metrics but percentiles, with their kind and dimensions.

``silent`` counts levels and ``disorder`` violations; ``skewed``, ``impossible`` (orders of stages),
``dropped``, ``kept`` and ``read`` count rows; ``broken`` counts sources. The others are fields of
``document``.
"""

_PLAIN: Final = re.compile(r'[^\s"=][^\s"]*')
_ESCAPED: Final = re.compile(r'["\\]')

_Row = TypeVar("_Row", Lateness, Reconciliation)


class _UnknownError(EmulatorError):
    """The report lacks a value; the sentence says why."""


class Scope(NamedTuple):
    """The groups of a condition. The name ``*`` means every level with deliveries."""

    dimension: Dimension
    name: str

    def __str__(self) -> str:
        if self.dimension == "total":
            return ""
        plain = _PLAIN.fullmatch(self.name)
        return f"{self.dimension}={self.name if plain else quoted(self.name)}"


class Metric(NamedTuple):
    """``name`` is a key of ``METRICS``, or a percentile as in ``Lateness.percentiles``."""

    name: str
    cutoff_us: int | None = None  # the limit of on_time(…); None for the report's own limit

    @property
    def kind(self) -> Kind:
        """The unit of the metric."""
        return "duration" if self.is_percentile else METRICS[self.name][0]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return DIMENSIONS if self.is_percentile else METRICS[self.name][1]

    @property
    def is_percentile(self) -> bool:
        return self.name not in METRICS

    def __str__(self) -> str:
        return self.name if self.cutoff_us is None else f"{self.name}({format_duration(self.cutoff_us)})"


class DeliveryGroup(NamedTuple):
    """A group of deliveries in a report."""

    dimension: Dimension
    name: str
    delay: str | None = None

    def __str__(self) -> str:
        return figures.group(*self)


class Readings(NamedTuple):
    """The metric of each group, and a sentence for each group that lacks the metric."""

    values: dict[DeliveryGroup, Fraction]
    unknown: list[str]


def readings(report: Report, scope: Scope, metric: Metric) -> Readings:
    """Read the metric of every group of the scope."""
    found = Readings({}, [])
    try:
        for group in _groups(report, scope, metric):
            try:
                found.values[group] = Fraction(_read(report, group, metric))
            except _UnknownError as error:
                found.unknown.append(str(error))
    except _UnknownError as error:
        found.unknown.append(str(error))
    return found


def busy_levels(report: Report, metric: Metric) -> list[DeliveryGroup]:
    """Return the levels with deliveries, or with any messages if the metric counts messages."""
    busy = {row.name for row in report.lateness if row.dimension == "level" and row.measured}
    if metric.dimensions == _RECONCILED:
        busy |= {row.name for row in report.reconciliation if row.dimension == "level" and row.sent}
    levels = (row for row in report.lateness if row.dimension == "level")
    return [DeliveryGroup("level", row.name, row.delay) for row in levels if row.name in busy]


def written(value: Fraction, kind: Kind, limit: Fraction | None = None) -> str:
    """Write a value as in a threshold. A share has enough decimals to show its side of the limit."""
    if kind == "duration":
        return format_duration(int(value))
    if kind == "count":
        return str(int(value))
    for decimals in range(2, 10):
        text = f"{float(value * 100):.{decimals}f}"
        shown = Fraction(text) / 100
        if shown == value or (limit is not None and _side(shown, limit) == _side(value, limit)):
            break
    return f"{figures.plain(text)}%"


def _side(value: Fraction, limit: Fraction) -> int:
    return (value > limit) - (value < limit)


def quoted(name: str) -> str:
    """Put a name in quotes, as thresholds need for a name with spaces or quotes."""
    return f'"{_ESCAPED.sub(lambda found: chr(92) + found[0], name)}"'


def _row(rows: list[_Row], group: DeliveryGroup) -> _Row:
    for row in rows:
        if row.dimension == group.dimension and (group.dimension == "total" or row.name == group.name):
            return row
    raise _UnknownError(f"the report has no data about {group}")


def _of_lateness(report: Report, row: Lateness, metric: Metric) -> int | Fraction:
    if metric.kind == "count":
        return int(getattr(row, metric.name))
    if not row.measured:
        raise _UnknownError(f"no measurements of {DeliveryGroup(row.dimension, row.name, row.delay)}")
    if metric.name == "on_time":
        return Fraction(_on_time(report, row, metric.cutoff_us), row.measured)
    if metric.is_percentile:
        if metric.name not in row.percentiles:
            raise _UnknownError(f"{metric} was not computed")
        value: float | None = row.percentiles[metric.name]
    else:
        value = getattr(row, f"{metric.name}_us")
    if value is None:
        raise _UnknownError(
            f"{metric} of {DeliveryGroup(row.dimension, row.name, row.delay)} needs more than"
            f" {figures.count(row.measured)} deliveries"
        )
    return round(value)


def _on_time(report: Report, row: Lateness, cutoff_us: int | None) -> int:
    header = report.header
    if cutoff_us is None or cutoff_us == header.on_time_us:
        return row.on_time
    if cutoff_us not in header.cutoffs_us:
        raise _UnknownError(f"on_time({format_duration(cutoff_us)}) was not computed")
    return row.within[header.cutoffs_us.index(cutoff_us)]


def _groups(report: Report, scope: Scope, metric: Metric) -> list[DeliveryGroup]:
    if scope.dimension == "total":
        return [DeliveryGroup("total", "total")]
    if scope.name == "*":
        found = busy_levels(report, metric)
        if not found:
            raise _UnknownError("no level has deliveries")
        return found
    rows = [row for row in report.lateness if row.dimension == scope.dimension]
    found = [DeliveryGroup(scope.dimension, row.name, row.delay) for row in rows if row.name == scope.name]
    if not found:
        names = figures.listed(shorten(row.name, 40) for row in rows) or "none"
        raise _UnknownError(
            f"the report has no {scope.dimension} {shorten(scope.name)}; its {scope.dimension}s are {names}"
        )
    return found


def _read(report: Report, group: DeliveryGroup, metric: Metric) -> int | Fraction:
    """Read the metric of the group. Raises _UnknownError."""
    quality = report.quality
    match metric.name:
        case "read" | "kept" | "skewed":
            return int(getattr(quality, metric.name))
        case "dropped":
            return sum(drop.rows for drop in quality.dropped)
        case "impossible":
            return sum(drop.rows for drop in quality.disorder)
        case "broken":
            return len(quality.broken)
        case "disorder":
            return sum(
                one.violations
                for one in report.disorder
                if group.dimension == "total" or str(getattr(one, group.dimension)) == group.name
            )
        case "silent" if group.dimension == "total":
            return sum(row.is_silent for row in report.reconciliation if row.dimension == "level")
        case "silent":
            return int(_row(report.reconciliation, group).is_silent)
    if metric.dimensions == _RECONCILED:
        return int(getattr(_row(report.reconciliation, group), metric.name))
    return _of_lateness(report, _row(report.lateness, group), metric)
