"""Thresholds for charts: a limit on one percentile of one group, and the measured value."""

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from mocketmq_report.document import Dimension, Lateness, Report
from mocketmq_report.judge.thresholds import Threshold


class DrawnLimit(NamedTuple):
    """A threshold of a percentile or of the maximum, for one group of a report."""

    dimension: Dimension
    name: str
    percentile: float  # 100 is the maximum
    limit_us: float
    actual_us: int
    holds: bool
    text: str  # the text of the threshold


def drawn_limits(thresholds: Iterable[Threshold], report: Report) -> Iterator[DrawnLimit]:
    """Yield each threshold of a percentile or the maximum, once for each of its groups."""
    for threshold in thresholds:
        percentile = _percentile(threshold)
        if percentile is None:
            continue
        for row in report.lateness:
            value = row.max_us if percentile == 100 else row.percentiles.get(threshold.metric.name)
            if value is not None and _is_about(threshold, row):
                yield DrawnLimit(
                    dimension=row.dimension,
                    name=row.name,
                    percentile=percentile,
                    limit_us=float(threshold.limit),
                    actual_us=value,
                    holds=threshold.holds(Fraction(value)),
                    text=str(threshold),
                )


def _percentile(threshold: Threshold) -> float | None:
    metric = threshold.metric
    if metric.is_percentile:
        return float(metric.name[1:])
    return 100.0 if metric.name == "max" else None


def _is_about(threshold: Threshold, row: Lateness) -> bool:
    scope = threshold.scope
    return scope.dimension == row.dimension and (row.dimension == "total" or scope.name in (row.name, "*"))
