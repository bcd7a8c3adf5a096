"""Metric families with RocketMQ's names, and the labels that its brokers add to each series (RIP-46).

A family has at most :data:`MAX_SERIES` series, and one more for the rest, like families of OpenTelemetry's
SDK. The size of a scrape is therefore limited, however many topics and groups there are.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import add
from typing import Any, Final, Literal, NamedTuple

from prometheus_client.metrics_core import Metric

from mocketmq.histogram import Histogram
from mocketmq.message.names import CLUSTER

MAX_SERIES: Final = 5_000
"""Maximum number of label sets of a family."""
OVERFLOW: Final = {"otel_metric_overflow": "true"}
"""The label of the series for all further label sets."""
NODE: Final[dict[str, str]] = {"cluster": CLUSTER, "node_type": "broker"}
"""Labels of every series of a broker, besides its name."""

Labels = dict[str, str]


class BrokerNodes(NamedTuple):
    """The labels that identify brokers: for all series, and for each running broker, by its index."""

    common: Labels
    labels: Mapping[int, Labels]


def broker_nodes(names: Sequence[str], down: Collection[int]) -> BrokerNodes:
    """Make the labels. Brokers that are ``down`` get none, because a scrape of a real one would fail.

    A single broker always has metrics, because they are also the metrics of the process.
    """
    if len(names) == 1:
        return BrokerNodes(NODE | {"node_id": names[0]}, {0: {}})
    return BrokerNodes(
        NODE, {index: {"node_id": name} for index, name in enumerate(names) if index not in down}
    )


Rows = Iterable[tuple[Labels, Any]]


class Figures(NamedTuple):
    """The values of a metric at one moment, by their labels. The values of a histogram are Histograms.

    ``node`` has the labels of all series. ``merge`` combines the values beyond the maximum number of series.
    """

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    text: str
    rows: Rows
    node: Labels = {}  # noqa: RUF012 - never changed
    merge: Callable[[Any, Any], Any] = add


def family_of(figures: Figures) -> Metric:
    """The metric family with these figures."""
    kind, name, text, _, node, _ = figures
    family = Metric(name.removesuffix("_total"), text, kind)
    for labels, value in _bounded(figures):
        if isinstance(value, Histogram):
            _add_histogram(family, {**node, **labels}, value)
        else:
            family.add_sample(name, {**node, **labels}, value)
    return family


def _add_histogram(family: Metric, labels: dict[str, str], found: Histogram) -> None:
    """Add the samples of a histogram, with bounds written as in Java."""
    total = 0
    for bound, count in zip((*map(float, found.bounds), "+Inf"), found.counts, strict=True):
        total += count
        family.add_sample(f"{family.name}_bucket", {**labels, "le": str(bound)}, total)
    family.add_sample(f"{family.name}_count", labels, total)
    family.add_sample(f"{family.name}_sum", labels, found.sum)


def _bounded(figures: Figures) -> Iterator[tuple[Labels, Any]]:
    """Yield the first rows, then one row for all others."""
    left = iter(figures.rows)
    yield from islice(left, MAX_SERIES)
    rest = None
    for _, value in left:
        rest = value if rest is None else figures.merge(rest, value)
    if rest is not None:
        yield OVERFLOW, rest
