"""The remoting door's numbers for Prometheus."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from mocketmq.remoting.listening.server import RemotingServer


def metrics(server: "RemotingServer") -> Iterator[Metric]:
    """All families, now."""
    requests = CounterMetricFamily(
        "mocketmq_remoting_requests", "Requests of RocketMQ clients", labels=["code", "answer"]
    )
    for (code, answer), count in sorted(server.dispatcher.answered.items()):
        requests.add_metric([code, str(answer)], count)
    yield requests
    yield GaugeMetricFamily(
        "mocketmq_remoting_connections", "Connections of RocketMQ clients", server.connections
    )
    yield GaugeMetricFamily(
        "mocketmq_remoting_held_bytes",
        "Memory of incomplete frames and of requests in work",
        server.held_bytes,
    )
    yield GaugeMetricFamily(
        "mocketmq_remoting_unread_bytes", "Answers to clients that do not read them", server.unread_bytes
    )
