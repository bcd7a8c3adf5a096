"""Metrics for Prometheus, read from the broker's memory at each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from mocketmq import __version__
from mocketmq.clock import US_PER_S
from mocketmq.http_api.route import Api


def render(api: Api) -> bytes:
    """All metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(BrokerCollector(api))
    return generate_latest(registry)


class BrokerCollector(Collector):
    """Collects a broker's metrics. Counters begin at 0 with each start."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def describe(self) -> list[Metric]:
        """Describe nothing: no other collector is in the registry, so no names can collide."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metric families, as of now."""
        yield from self._messages()
        yield from self._delayed()
        yield from self._groups()
        yield from self._server()
        for more in self._api.more_metrics:
            yield from more()

    def _messages(self) -> Iterator[Metric]:
        broker = self._api.broker
        delivered = broker.schemes.delivered
        counters = (
            ("sent_messages", "Messages acknowledged to senders", broker.sender.sent),
            (
                "delivered_delayed_messages",
                "Delayed messages that became visible",
                delivered,
            ),
            (
                "early_messages",
                "Delayed messages delivered before they were due: a defect, but in profile rocketmq4 after a"
                " level was shortened or removed",
                broker.schemes.early,
            ),
            ("commits", "Transactions written", broker.store.writer.commits),
            ("store_failures", "Transactions that the store refused", broker.store.writer.failures),
            (
                "half_message_checks",
                "Questions to producers about half messages",
                broker.transactions.check_backs.asked,
            ),
        )
        for name, text, value in counters:
            yield CounterMetricFamily(f"mocketmq_{name}", text, value)
        transactions = broker.transactions.half_messages
        halves = CounterMetricFamily(
            "mocketmq_half_messages", "Half messages, and what became of them", labels=["step"]
        )
        halves.add_metric(["prepared"], transactions.prepared)
        halves.add_metric(["committed"], transactions.committed)
        halves.add_metric(["rolled back"], transactions.rolled_back)
        halves.add_metric(["abandoned"], transactions.abandoned)
        yield halves
        yield GaugeMetricFamily(
            "mocketmq_open_half_messages", "Half messages that wait for a decision", len(transactions.open())
        )

    def _delayed(self) -> Iterator[Metric]:
        labels = ("scheme", "level")
        pending = _gauge("pending_messages", "Delayed messages that wait", *labels)
        next_due = _gauge("next_due_seconds", "Emulated time until the next message is due", *labels)
        overdue = _gauge("overdue_seconds", "For how long the oldest message has been due", *labels)
        broker = self._api.broker
        now_us = broker.clock.now_us()
        for row in broker.schemes.figures():
            label = [row.scheme, "" if row.level is None else str(row.level)]
            pending.add_metric(label, row.pending)
            if row.next_due_us is not None:
                next_due.add_metric(label, max(row.next_due_us - now_us, 0) / US_PER_S)
            late_us = 0 if row.oldest_overdue_us is None else now_us - row.oldest_overdue_us
            overdue.add_metric(label, late_us / US_PER_S)
        yield from (pending, next_due, overdue)
        files = broker.schemes.file_figures()
        yield GaugeMetricFamily(
            "mocketmq_delay_disk_bytes", "Disk taken by files of delayed messages", files.disk_bytes
        )
        yield GaugeMetricFamily(
            "mocketmq_quarantined_files", "Damaged files in the quarantine", files.quarantined
        )
        yield GaugeMetricFamily(
            "mocketmq_unremoved_files", "Files of delivered messages that cannot be removed", files.unremoved
        )
        put_aside = CounterMetricFamily(
            "mocketmq_files_put_aside", "Damaged, missing and foreign files that were met", labels=["kind"]
        )
        for kind, count in sorted(files.put_aside.items()):
            put_aside.add_metric([kind], count)
        yield put_aside
        yield CounterMetricFamily(
            "mocketmq_refused_repeats", "Files refused because their message was done with", files.repeats
        )

    def _groups(self) -> Iterator[Metric]:
        lag = _gauge("group_lag_messages", "Messages that the group has not finished", "group", "topic")
        in_flight = _gauge("group_in_flight_messages", "Messages taken and not settled", "group", "topic")
        for group in self._api.broker.consuming.groups:
            lags: dict[str, int] = {}
            flights: dict[str, int] = {}
            for group_queue in group.queues.values():
                topic = group_queue.queue.topic
                lags[topic] = lags.get(topic, 0) + group_queue.lag
                taken = group_queue.in_flight
                flights[topic] = flights.get(topic, 0) + taken
            for topic, value in lags.items():
                lag.add_metric([group.name, topic], value)
                in_flight.add_metric([group.name, topic], flights[topic])
        yield from (lag, in_flight)

    def _server(self) -> Iterator[Metric]:
        broker = self._api.broker
        yield GaugeMetricFamily(
            "mocketmq_long_polls", "Consumers that wait for messages", broker.consuming.polls.count
        )
        requests = CounterMetricFamily(
            "mocketmq_http_requests", "Answers given over HTTP", labels=["method", "route", "status"]
        )
        for (method, template, status), count in sorted(self._api.requests.items()):
            requests.add_metric([method, template, str(status)], count)
        yield requests
        clock = _gauge("clock_seconds", "The emulated instant, seconds since the epoch", "mode")
        clock.add_metric([broker.clock.mode], broker.clock.now_us() / US_PER_S)
        yield clock
        yield InfoMetricFamily(
            "mocketmq_build",
            "What is running",
            {"version": __version__, "profile": broker.levels.profile.name},
        )


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"mocketmq_{name}", text, labels=labels)
