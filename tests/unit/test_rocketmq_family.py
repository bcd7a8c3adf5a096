"""Families of series by RocketMQ's names: labels, suffixes and the limit on series."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mocketmq.histogram import Histogram
from mocketmq.rocketmq_family import MAX_SERIES, Figures, broker_nodes, family_of

NODE = 'cluster="DefaultCluster",'
END = 'node_id="broker-a",node_type="broker"'


def lines(figures: Figures) -> list[str]:
    """Return the samples in Prometheus' text format."""

    class One(Collector):
        def collect(self) -> list[Metric]:
            return [family_of(figures._replace(node=broker_nodes(("broker-a",), ()).common))]

    registry = CollectorRegistry()
    registry.register(One())
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_every_series_names_the_node() -> None:
    figures = Figures("counter", "rocketmq_messages_in_total", "In", [({"topic": "orders"}, 3)])
    assert lines(figures) == [f'rocketmq_messages_in_total{{{NODE}{END},topic="orders"}} 3.0']


def test_a_histogram_is_cumulative_and_includes_its_bounds() -> None:
    found = Histogram((1, 1_048_576))
    for value in (0, 1, 2, 1_048_577):
        found.record(value)
    assert lines(Figures("histogram", "size", "Size", [({}, found)])) == [
        f'size_bucket{{{NODE}le="1.0",{END}}} 2.0',
        f'size_bucket{{{NODE}le="1048576.0",{END}}} 3.0',
        f'size_bucket{{{NODE}le="+Inf",{END}}} 4.0',
        f"size_count{{{NODE}{END}}} 4.0",
        f"size_sum{{{NODE}{END}}} 1.04858e+06",
    ]


def test_series_beyond_the_limit_are_one() -> None:
    rows = [({"topic": str(number)}, 1) for number in range(MAX_SERIES)]
    assert len(lines(Figures("counter", "in_total", "In", rows))) == MAX_SERIES
    more = [*rows, ({"topic": "more"}, 2), ({"topic": "most"}, 5)]
    found = lines(Figures("counter", "in_total", "In", more))
    assert len(found) == MAX_SERIES + 1
    assert found[-1] == f'in_total{{{NODE}{END},otel_metric_overflow="true"}} 7.0'
    assert lines(Figures("gauge", "latency", "Age", more, merge=max))[-1].endswith(" 5.0")
    size = Histogram((1,))
    size.record(1)
    found = lines(
        Figures("histogram", "size", "Size", [({"topic": str(n)}, size) for n in range(MAX_SERIES + 2)])
    )
    assert len(found) == 4 * (MAX_SERIES + 1)
    assert found[-2] == f'size_count{{{NODE}{END},otel_metric_overflow="true"}} 2.0'
