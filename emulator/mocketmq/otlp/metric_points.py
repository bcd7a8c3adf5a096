"""Converts the metric families of a scrape of /metrics to OpenTelemetry's metrics.

RocketMQ's metrics get the names and units with which a real broker exports them over OTLP. A backend that
appends units to names, like Prometheus, then shows the names of /metrics.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from mocketmq import __version__

_UNITS: Final = ("milliseconds", "seconds", "bytes")
_OWN_UNITS: Final = {"seconds": "s", "bytes": "By"}
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_SCOPE: Final = InstrumentationScope("mocketmq", __version__)


def metrics_data(families: Iterable[Any], resource: Resource, started_ns: int, now_ns: int) -> MetricsData:
    """Convert the families of ``prometheus_client`` to one export. Counters began at ``started_ns``."""
    metrics = [metric for family in families if (metric := _metric(family, started_ns, now_ns))]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(_SCOPE, metrics, "")], "")])


def _metric(family: Any, started_ns: int, now_ns: int) -> Metric | None:
    if not family.samples:
        return None
    data: Sum | Gauge | Histogram
    if family.type == "histogram":
        data = Histogram([*_histogram_points(family, started_ns, now_ns)], _CUMULATIVE)
        return Metric(*_name_and_unit(family.name, family.documentation), data)
    points = [NumberDataPoint(sample.labels, started_ns, now_ns, sample.value) for sample in family.samples]
    is_counter = family.type == "counter"
    data = Sum(points, _CUMULATIVE, is_monotonic=True) if is_counter else Gauge(points)
    return Metric(*_name_and_unit(family.samples[0].name, family.documentation), data)


def _name_and_unit(name: str, text: str) -> tuple[str, str, str]:
    """Return the name, description and unit of a metric."""
    unit = next((unit for unit in _UNITS if name.removesuffix("_total").endswith(f"_{unit}")), "")
    if name.startswith("rocketmq_"):
        return name.removesuffix(f"_{unit}") if unit else name, text, unit
    return name, text, _OWN_UNITS.get(unit, "")


def _histogram_points(family: Any, started_ns: int, now_ns: int) -> Iterator[HistogramDataPoint]:
    """Return a point for each series. The samples of a series are adjacent: buckets, count and sum."""
    bounds: list[float] = []
    counts: list[int] = []
    total = 0
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            bounds.append(float(sample.labels["le"]))
            counts.append(int(sample.value) - sum(counts))
        elif sample.name.endswith("_count"):
            total = int(sample.value)
        else:
            yield _histogram_point(sample, total, bounds, counts, started_ns, now_ns)
            bounds, counts = [], []


def _histogram_point(
    sample: Any, total: int, bounds: Sequence[float], counts: Sequence[int], started_ns: int, now_ns: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=sample.labels,
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=total,
        sum=sample.value,
        bucket_counts=counts,
        explicit_bounds=bounds[:-1],  # without the last bound, which is infinity
        min=None,
        max=None,
    )
