"""Prometheus metrics: the broker's own, and those of a real broker (``rocketmq_metrics``).

A scrape reads figures from memory, except for waiting retries, open half messages, and the times of messages.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from mocketmq import __version__
from mocketmq.broker.inspection.consumer_lag import TopicLag
from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreError
from mocketmq.http_api.rocketmq_metrics import read_figures
from mocketmq.http_api.route import Api
from mocketmq.message.broker_share import position_of
from mocketmq.rocketmq_family import Figures, family_of

Collect = Callable[[], Iterable[Metric]]
"""Makes metric families. May be called in any thread."""


async def render(api: Api) -> bytes:
    """All metrics in Prometheus' text format. A thread makes the text, because there may be many topics."""
    async with api.scraping:
        return await asyncio.to_thread(_text_of, await metric_families(api))


async def metric_families(api: Api) -> Collect:
    """Read all metrics, and return a function that makes families of them, in any thread.

    If the store cannot be read, figures that come from it are omitted.
    """
    broker, retries = api.broker, None
    lags = await broker.consumer_lag.of_all()
    with suppress(StoreError):
        waiting = await broker.group_progress.waiting_retries()
        retries = Counter[tuple[str, int]]()
        for (topic, number), count in waiting.items():
            retries[topic, position_of(topic, number, len(broker.registry.brokers))] += count
    own = list(BrokerMetrics(api).collect())
    figures = chain(_of_groups(lags, retries, broker.registry.brokers.names), await read_figures(api, lags))
    return lambda: chain(own, map(family_of, figures))


def _text_of(collect: Collect) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Families(collect))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()

    def describe(self) -> list[Metric]:
        """Return nothing, because the registry has no other collector whose names could collide."""
        return []


class BrokerMetrics:
    """A broker's own metrics. Counters begin at 0 when the broker starts."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def collect(self) -> Iterator[Metric]:
        yield from self._messages()
        yield from self._delayed()
        yield from self._server()
        for more in self._api.more_metrics:
            yield from more()

    def _messages(self) -> Iterator[Metric]:
        broker = self._api.broker
        schemes = broker.schemes
        counters = (
            ("sent_messages", "Messages acknowledged to senders", broker.sender.sent),
            ("delivered_delayed_messages", "Delayed messages that became visible", schemes.delivered),
            (
                "early_messages",
                "Delayed messages delivered before they were due: a defect, except in profile rocketmq4 after"
                " a level was shortened or removed",
                schemes.early,
            ),
            ("commits", "Transactions written", broker.store.writer.commits),
            ("store_failures", "Transactions that the store refused", broker.store.writer.failures),
            (
                "half_message_checks",
                "Check backs sent to producers of half messages",
                broker.check_backs.asked,
            ),
        )
        for name, text, value in counters:
            yield CounterMetricFamily(f"mocketmq_{name}", text, value)
        transactions = broker.half_messages
        halves = CounterMetricFamily("mocketmq_half_messages", "Half messages, by outcome", labels=["step"])
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
        pending = _gauge("pending_messages", "Pending delayed messages", *labels)
        next_due = _gauge(
            "next_due_seconds", "Time on the broker's clock until the next message is due", *labels
        )
        overdue = _gauge("overdue_seconds", "How long the oldest pending message has been overdue", *labels)
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
            "mocketmq_files_put_aside", "Damaged, missing and foreign files found", labels=["kind"]
        )
        for kind, count in sorted(files.put_aside.items()):
            put_aside.add_metric([kind], count)
        yield put_aside
        yield CounterMetricFamily(
            "mocketmq_refused_repeats",
            "Files refused because their message was already delivered or cancelled",
            files.repeats,
        )

    def _server(self) -> Iterator[Metric]:
        broker = self._api.broker
        yield GaugeMetricFamily("mocketmq_long_polls", "Consumers waiting in a long poll", broker.polls.count)
        requests = CounterMetricFamily(
            "mocketmq_http_requests", "HTTP responses", labels=["method", "route", "status"]
        )
        for (method, template, status), count in sorted(self._api.requests.items()):
            requests.add_metric([method, template, str(status)], count)
        yield requests
        clock = _gauge("clock_seconds", "The broker's clock, in seconds since the epoch", "mode")
        clock.add_metric([broker.clock.mode], broker.clock.now_us() / US_PER_S)
        yield clock
        yield InfoMetricFamily(
            "mocketmq_build",
            "The running version and profile",
            {"version": __version__, "profile": broker.levels.profile.name},
        )


def _of_groups(
    lags: Sequence[TopicLag], retries: Counter[tuple[str, int]] | None, names: Sequence[str]
) -> Iterator[Figures]:
    """The progress of each group in each topic, and by broker if there are several ``names``.

    If ``retries`` is None, because the store could not be read, waiting retries are omitted.
    """
    yield _by_group("lag", "Messages that the group has not consumed", lags, names, lambda one: one.lag)
    text = "Messages that consumers have received and not settled or postponed"
    yield _by_group("in_flight", text, lags, names, lambda one: one.in_flight)
    if retries is not None:
        text = "Messages that failed and wait for their next attempt"
        waiting = retries
        yield _by_group(
            "retrying", text, lags, names, lambda one: one.postponed + waiting[one.topic, one.broker]
        )


def _by_group(
    name: str, text: str, lags: Sequence[TopicLag], names: Sequence[str], count: Callable[[TopicLag], int]
) -> Figures:
    rows = (
        (
            {"group": one.group, "topic": one.topic}
            | ({"broker": names[one.broker]} if len(names) > 1 else {}),
            count(one),
        )
        for one in lags
    )
    return Figures("gauge", f"mocketmq_group_{name}_messages", text, rows)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"mocketmq_{name}", text, labels=labels)
