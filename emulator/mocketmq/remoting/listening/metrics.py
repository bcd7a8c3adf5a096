"""The remoting door's metrics, for Prometheus."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric


def metric_families(
    answered: Mapping[tuple[str, int], int], *, connections: int, held_bytes: int, unread_bytes: int
) -> Iterator[Metric]:
    """All metrics as they are now; ``answered`` counts by request code and answer."""
    requests = CounterMetricFamily(
        "mocketmq_remoting_requests", "Requests of RocketMQ clients", labels=["code", "answer"]
    )
    for (code, answer), count in sorted(answered.items()):
        requests.add_metric([code, str(answer)], count)
    yield requests
    yield GaugeMetricFamily("mocketmq_remoting_connections", "Connections of RocketMQ clients", connections)
    yield GaugeMetricFamily(
        "mocketmq_remoting_held_bytes", "Memory of incomplete frames and of requests in work", held_bytes
    )
    yield GaugeMetricFamily(
        "mocketmq_remoting_unread_bytes", "Answers to clients that do not read them", unread_bytes
    )
