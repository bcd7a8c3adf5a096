"""The metrics of RocketMQ 5's broker and proxy, with their names, labels and units (RIP-46).

A dashboard for a real broker therefore also shows this broker. The metrics follow BrokerMetricsManager,
ConsumerLagCalculator, DefaultStoreMetricsManager and ProxyMetricsManager, and the suffixes for units follow
OpenTelemetry's exporter for Prometheus, 1.29. docs/metrics.md lists the metrics, what differs, and what is
left out.

Figures are read on the event loop, in turns. Figures by topic or group are only copied there, because there
may be tens of thousands; the thread that formats the text (``metrics``) adds their labels.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final

from mocketmq.broker.broker import Broker
from mocketmq.broker.inspection.consumer_lag import TopicLag
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.traffic import Traffic
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import StoreError
from mocketmq.histogram import Histogram
from mocketmq.http_api.route import Api
from mocketmq.message.names import (
    CHECKED_HALF_GROUP,
    HALF_GROUP,
    RETRY_PREFIX,
    is_system_group,
    is_system_topic,
)
from mocketmq.rocketmq_family import BrokerNodes, Figures, Labels, broker_nodes

STORAGE: Final = {"storage_medium": "disk", "storage_type": "local"}
SNAPSHOT_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Bounds of the time until timers are due (TimerMetrics.timerDist)."""
MAX_SNAPSHOT: Final = 100_000
"""Number of pending timers above which they are not counted by the time until they are due."""
MAX_LABEL: Final = 64
"""Maximum length of a label's value that a client chose."""
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}
_OWN_GROUPS: Final = (HALF_GROUP, CHECKED_HALF_GROUP)

Row = tuple[Labels, int]
NodeTraffic = Sequence[tuple[Labels, Traffic]]
"""The traffic of each broker, and the labels that name it."""


async def read_figures(api: Api, lags: Sequence[TopicLag]) -> Iterator[Figures]:
    """Read all figures. If the store cannot be read, figures that come from it are omitted.

    Figures by topic or group are made while the result is iterated, possibly in another thread.
    """
    broker = api.broker
    brokers = broker.registry.brokers
    nodes = broker_nodes(brokers.names, brokers.down)
    traffic = [
        (labels, await broker.registry.statistics.traffics[index].snapshot(api.turns))
        for index, labels in nodes.labels.items()
    ]
    found: list[Figures] = []
    for some in (_of_brokers(broker, nodes), _of_clients(broker, nodes), _of_timers(broker, traffic)):
        for figures in some:
            found.append(figures)
            await asyncio.sleep(0)  # each of these may take milliseconds if there are many topics
    with suppress(StoreError):
        found += await _of_store(api, nodes)
    found += _of_proxies(api, nodes)
    now_us = broker.clock.now_us()
    of_lag = _of_lag([one for one in lags if one.group not in _OWN_GROUPS], nodes, now_us)
    every = chain(found, _of_traffic(traffic), _of_transactions(traffic), of_lag)
    return (each._replace(node=nodes.common | each.node) for each in every)


def _of_brokers(broker: Broker, nodes: BrokerNodes) -> Iterator[Figures]:
    registry = broker.registry
    waiting = broker.store.writer.waiting  # counts the messages of all brokers, which share the writer
    rows = [(labels | {"processor": "send"}, waiting) for labels in nodes.labels.values()]
    yield Figures("gauge", "rocketmq_processor_watermark", "Request processor watermark", rows)
    rows = [
        (labels, registry.brokers[index].permits(PERM_READ | PERM_WRITE))
        for index, labels in nodes.labels.items()
    ]
    yield Figures("gauge", "rocketmq_broker_permission", "Broker permission", rows)
    rows = [
        (labels, sum(not topic.config.at or topic.is_at(index) for topic in registry.topics))
        for index, labels in nodes.labels.items()
    ]
    yield Figures("gauge", "rocketmq_topic_number", "Active topic number", rows)
    groups = sum(group.name not in _OWN_GROUPS for group in registry.groups)
    rows = [(labels, groups) for labels in nodes.labels.values()]
    text = "Active subscription group number"
    yield Figures("gauge", "rocketmq_consumer_group_number", text, rows)


def _of_clients(broker: Broker, nodes: BrokerNodes) -> Iterator[Figures]:
    """The connections to each broker. A connection to the cluster's proxy counts for every broker."""
    producers: Counter[tuple[int, tuple[str, ...]]] = Counter()
    consumers: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for member in broker.registry.clients:
        client = (_label(member.language), _label(member.version_text), member.channel.door)
        at = member.channel.broker_index
        for index in nodes.labels if at is None else [at]:
            if member.producers:
                producers[index, client] += len(member.producers)
            for group, data in member.consumers.items():
                mode = _MODES.get(data.kind, _label(data.kind))
                consumers[index, (*client, group, mode, _text(is_system_group(group)))] += 1
    names = ("language", "version", "protocol_type")
    rows = _labelled(names, producers, nodes)
    yield Figures("gauge", "rocketmq_producer_connections", "Producer connections", rows)
    rows = _labelled((*names, "consumer_group", "consume_mode", "is_system"), consumers, nodes)
    yield Figures("gauge", "rocketmq_consumer_connections", "Consumer connections", rows)


def _of_traffic(traffic: NodeTraffic) -> Iterator[Figures]:
    stored = [
        (node | {"topic": topic, "message_type": kind, "is_system": _text(is_system_topic(topic))}, sizes)
        for node, counts in traffic
        for (topic, kind), sizes in counts.stored.items()
    ]
    rows = [(labels, sizes.count) for labels, sizes in stored]
    yield Figures("counter", "rocketmq_messages_in_total", "Total number of incoming messages", rows)
    rows = [(labels, sizes.sum) for labels, sizes in stored]
    yield Figures("counter", "rocketmq_throughput_in_total", "Total traffic of incoming messages", rows)
    yield Figures("histogram", "rocketmq_message_size", "Incoming messages size", stored)
    rows = _received([(node, counts.received) for node, counts in traffic])
    yield Figures("counter", "rocketmq_messages_out_total", "Total number of outgoing messages", rows)
    rows = _received([(node, counts.received_bytes) for node, counts in traffic])
    yield Figures("counter", "rocketmq_throughput_out_total", "Total traffic of outgoing messages", rows)
    rows = [
        (node | _consumed(topic, group), count)
        for node, counts in traffic
        for (topic, group), count in counts.dead.items()
    ]
    yield Figures("counter", "rocketmq_send_to_dlq_messages_total", "Consumer send to DLQ messages", rows)


def _of_transactions(traffic: NodeTraffic) -> Iterator[Figures]:
    committed = _by_topic([(node, counts.committed) for node, counts in traffic])
    rows = [(labels, waits.count) for labels, waits in committed]
    yield Figures("counter", "rocketmq_commit_messages_total", "Total number of commit messages", rows)
    rows = _by_topic([(node, counts.rolled_back) for node, counts in traffic])
    yield Figures("counter", "rocketmq_rollback_messages_total", "Total number of rollback messages", rows)
    # As in RocketMQ, the name says milliseconds, but the values are seconds.
    name = "rocketmq_finish_message_latency_milliseconds"
    yield Figures("histogram", name, "Transaction finish latency", committed)


def _of_lag(lags: Sequence[TopicLag], nodes: BrokerNodes, now_us: int) -> Iterator[Figures]:
    rows = [
        (one, nodes.labels[one.broker] | _consumed(one.topic, one.group) | {"is_retry": _is_retry(one)})
        for one in lags
        if one.broker in nodes.labels
    ]
    for what, counted in (
        ("lag", [(labels, one.lag) for one, labels in rows]),
        ("inflight", [(labels, one.in_flight) for one, labels in rows]),
        ("ready", [(labels, one.ready) for one, labels in rows]),
    ):
        yield Figures("gauge", f"rocketmq_consumer_{what}_messages", f"Consumer {what} messages", counted)
    for what, ages in (
        ("lag", [(labels, one.lag, one.unsettled_us) for one, labels in rows]),
        ("queueing", [(labels, one.unread, one.unread_us) for one, labels in rows]),
    ):
        known = [
            (labels, _age_ms(since_us, now_us))
            for labels, count, since_us in ages
            if since_us is not None or not count
        ]
        name = f"rocketmq_consumer_{what}_latency_milliseconds"
        yield Figures("gauge", name, f"Consumer {what} time", known, merge=max)


def _of_timers(broker: Broker, traffic: NodeTraffic) -> Iterator[Figures]:
    """The timers of each broker. All pending messages count at the first broker."""
    timed = broker.schemes.timed_figures()
    now_us = broker.clock.now_us()
    delays = _by_topic([(node, counts.timers_set) for node, counts in traffic])
    rows = [(labels, set_.count) for labels, set_ in delays]
    text = "Total number of timer enqueue"
    yield Figures("counter", "rocketmq_timer_enqueue_total", text, rows, STORAGE)
    rows = _by_topic([(node, counts.timers_fired) for node, counts in traffic])
    text = "Total number of timer dequeue"
    yield Figures("counter", "rocketmq_timer_dequeue_total", text, rows, STORAGE)
    text = "Timer message set latency distribution"
    yield Figures("histogram", "rocketmq_delay_message_latency_seconds", text, delays, STORAGE)
    rows = [(node, _age_ms(timed.oldest_overdue_us, now_us)) for node, _ in traffic[:1]]
    name = "rocketmq_timer_dequeue_latency_milliseconds"
    yield Figures("gauge", name, "Timer dequeue latency", rows, STORAGE)
    if timed.pending > MAX_SNAPSHOT:
        return
    by_second = broker.schemes.due_seconds()
    if by_second.total() == timed.pending:  # otherwise a scheme cannot tell when all of its messages are due
        waiting = _snapshot(by_second, now_us // US_PER_S)
        rows = [(node | labels, count) for node, _ in traffic[:1] for labels, count in waiting]
        text = "Timer message distribution snapshot, only count timing messages in 24h."
        yield Figures("gauge", "rocketmq_timer_message_snapshot", text, rows, STORAGE)


def _snapshot(by_second: Mapping[int, int], now_s: int) -> list[Row]:
    due_in = Histogram(SNAPSHOT_S)
    for second, count in by_second.items():
        due_in.record(max(second - now_s, 0), count)
    return [
        ({"timer_bound_s": str(bound)}, count)
        for bound, count in zip(SNAPSHOT_S, due_in.counts[:-1], strict=True)
    ]


async def _of_store(api: Api, nodes: BrokerNodes) -> list[Figures]:
    """Half messages, and figures of the store, which all brokers share."""
    broker = api.broker
    halves = Counter[tuple[int, str]]()
    for queue, count in (await broker.half_messages.open_by_queue()).items():
        halves[broker.registry.brokers.index_of(queue), queue.topic] += count
    rows: list[Row] = [
        (nodes.labels[index] | {"topic": topic}, count)
        for (index, topic), count in halves.items()
        if index in nodes.labels
    ]
    found = [Figures("gauge", "rocketmq_half_messages", "Half messages of all topics", rows)]
    if not broker.store.database.is_in_memory:
        used = shutil.disk_usage(api.settings.data).used
        rows = [(labels, used) for labels in nodes.labels.values()]
        found.append(Figures("gauge", "rocketmq_storage_size_bytes", "Broker storage size", rows, STORAGE))
    name = "rocketmq_storage_dispatch_behind_bytes"
    # Always 0, because the transaction that stores a message also adds it to its queue.
    rows = [(labels, 0) for labels in nodes.labels.values()]
    found.append(Figures("gauge", name, "Broker dispatch behind bytes", rows, STORAGE))
    oldest = await broker.group_progress.oldest()
    if oldest is not None:
        age = _age_ms(oldest[1] * US_PER_MS, broker.clock.now_us())
        rows = [(labels, age) for labels in nodes.labels.values()]
        name = "rocketmq_storage_message_reserve_time_milliseconds"
        found.append(Figures("gauge", name, "Broker message reserve time", rows, STORAGE))
    return found


def _of_proxies(api: Api, nodes: BrokerNodes) -> Iterator[Figures]:
    """The proxy of the cluster, or in local mode the proxy of each broker.

    A proxy of the cluster has the name of the first broker.
    """
    if api.doors().grpc is None:
        return
    names, mode = api.broker.registry.brokers.names, api.settings.proxy_mode
    node = {"node_id": names[0], "node_type": "proxy", "proxy_mode": "local" if len(names) == 1 else mode}
    rows = list(nodes.labels.values()) if mode == "local" else [{}]
    yield Figures("gauge", "rocketmq_proxy_up", "proxy status", [(labels, 1) for labels in rows], node)


# Labels


def _labelled(
    names: Sequence[str], counts: Mapping[tuple[int, tuple[str, ...]], int], nodes: BrokerNodes
) -> list[Row]:
    return [
        (nodes.labels[index] | dict(zip(names, values, strict=True)), count)
        for (index, values), count in counts.items()
        if index in nodes.labels  # leaves out slaves, which report their own metrics in a real cluster
    ]


def _received(
    counts: Sequence[tuple[Labels, Mapping[tuple[str, str, bool | None], int]]],
) -> list[Row]:
    return [
        (node | _consumed(topic, group) | ({} if is_retry is None else {"is_retry": _text(is_retry)}), count)
        for node, by_group in counts
        for (topic, group, is_retry), count in by_group.items()
    ]


def _consumed(topic: str, group: str) -> dict[str, str]:
    is_system = is_system_topic(topic) or is_system_group(group)
    return {"topic": topic, "consumer_group": group, "is_system": _text(is_system)}


def _is_retry(one: TopicLag) -> str:
    return _text(one.topic.startswith(RETRY_PREFIX))


def _by_topic(counts: Sequence[tuple[Labels, Mapping[str, Any]]]) -> list[tuple[Labels, Any]]:
    return [(node | {"topic": topic}, count) for node, one in counts for topic, count in one.items()]


def _text(value: bool) -> str:
    return str(value).lower()


def _label(text: str) -> str:
    return text[:MAX_LABEL].lower()


def _age_ms(since_us: int | None, now_us: int) -> int:
    return 0 if since_us is None else max(now_us - since_us, 0) // US_PER_MS
