"""A real broker and mocketmq show the same metrics after the same requests."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import ClientError, ClientSession

from tests.support.brokers import GROUP, TOPIC
from tests.support.metered import COMMITTED, VISIBLE, Scrape, play, wait_for_the_delayed_message
from tests.support.network import quiet_port
from tests.support.patience import PATIENCE_S
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, SMALL, running_upstream

pytestmark = pytest.mark.differential


async def scraped(url: str, name: str) -> Scrape:
    """Scrape until a metric is there."""
    async with ClientSession() as session, asyncio.timeout(PATIENCE_S):
        while True:
            try:
                async with session.get(url) as response:
                    found = Scrape.of(await response.text())
                if name in found.series:
                    return found
            except ClientError:
                pass
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture
async def both(jars: None, tmp_path: Path) -> AsyncIterator[tuple[Scrape, Scrape]]:  # noqa: ARG001
    port = quiet_port()
    settings = {**SMALL, "metricsExporterType": "PROM", "metricsPromExporterPort": str(port)}
    settings |= {"metricsPromExporterHost": HOST, "timerWheelEnable": "true"}
    proxy = {"metricsExporterType": "PROM"}
    async with (
        running_upstream(tmp_path / "upstream", V5_5, settings, proxy) as upstream,
        broker_process("--data", f"{tmp_path}/ours", "--auto-create-topics", "send") as ours,
    ):
        scrapes = []
        for broker_port, url in (
            (upstream.broker_port, f"http://{HOST}:{port}/metrics"),
            (ours.broker_port, f"{ours.url}/metrics"),
        ):
            async with connected(HOST, broker_port) as client:
                await play(client)
                await wait_for_the_delayed_message(client)
                scrapes.append(await scraped(url, "rocketmq_messages_in_total"))
        yield scrapes[0], scrapes[1]


COMPARED = (
    "rocketmq_messages_in_total",
    "rocketmq_messages_out_total",
    "rocketmq_send_to_dlq_messages_total",
    "rocketmq_half_messages",
    "rocketmq_commit_messages_total",
    "rocketmq_rollback_messages_total",
    "rocketmq_producer_connections",
    "rocketmq_consumer_connections",
)
"""Metrics whose series have the same values. docs/metrics.md says what differs in the others."""


async def test_names_labels_and_counts_are_the_same(both: tuple[Scrape, Scrape]) -> None:
    theirs, ours = both
    assert ours.series.keys() <= theirs.series.keys()
    for name in ours.series:
        assert ours.label_names(name) == {
            labels - {"otel_scope_name"} for labels in theirs.label_names(name)
        }, name
    for name in COMPARED:
        expected = {
            frozenset(label for label in labels if label[0] != "otel_scope_name"): value
            for labels, value in theirs.series[name].items()
        }
        assert ours.series[name] == expected, name
    lag = {"topic": TOPIC, "consumer_group": GROUP}
    name = "rocketmq_consumer_lag_messages"
    assert ours.value(name, **lag) == theirs.value(name, **lag) == VISIBLE - COMMITTED
