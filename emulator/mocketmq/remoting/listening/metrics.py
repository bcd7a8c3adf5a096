"""Prometheus metrics of the remoting server."""

from collections.abc import Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from mocketmq.histogram import Histogram
from mocketmq.remoting.dispatcher import Served
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.rocketmq_family import BrokerNodes, Figures, family_of

_REQUESTS = {str(int(code)): code.name.lower() for code in RequestCode}
_ANSWERS = {int(code): code.name.lower() for code in ResponseCode}


def metric_families(
    answered: Mapping[tuple[str, int], int],
    latencies: Mapping[tuple[int, str, int, bool, bool], Histogram],
    nodes: BrokerNodes,
    *,
    connections: int,
    held_bytes: int,
    unread_bytes: int,
) -> Iterator[Metric]:
    """Yield the current metrics. Those named as in RocketMQ only cover running brokers.

    ``answered`` has the number of responses by request code and response code. The keys of ``latencies`` are
    the fields of :class:`Served`.
    """
    requests = CounterMetricFamily(
        "mocketmq_remoting_requests", "Requests of RocketMQ clients", labels=["code", "answer"]
    )
    for (code, answer), count in sorted(answered.items()):
        requests.add_metric([code, str(answer)], count)
    yield requests
    yield GaugeMetricFamily("mocketmq_remoting_connections", "Connections of RocketMQ clients", connections)
    yield GaugeMetricFamily(
        "mocketmq_remoting_held_bytes", "Bytes of incomplete frames and running requests", held_bytes
    )
    yield GaugeMetricFamily(
        "mocketmq_remoting_unread_bytes", "Bytes of responses that clients have not read", unread_bytes
    )
    rows = [
        (nodes.labels[served[0]] | _labels(Served(*served)), latency.copy())
        for served, latency in latencies.items()
        if served[0] in nodes.labels
    ]
    node = nodes.common | {"protocol_type": "remoting"}
    yield family_of(Figures("histogram", "rocketmq_rpc_latency_milliseconds", "Rpc latency", rows, node))


def _labels(served: Served) -> dict[str, str]:
    return {
        "is_long_polling": str(served.was_held).lower(),
        "request_code": _REQUESTS.get(served.code, served.code),
        "response_code": _ANSWERS.get(served.answer, str(served.answer)),
        "result": "oneway" if served.is_oneway else "success",
    }
