"""Metrics of the broker by rocketmq-exporter."""

import asyncio

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.clients.from_source import START_S
from tests.clients.remoting.conftest import RemotingBroker

pytestmark = [pytest.mark.from_source, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("Metrics for Prometheus", "exporter")
async def test_offsets_and_lag(broker: RemotingBroker, exporter: str, topic: str) -> None:
    """The group has finished three of five messages."""
    for number in range(5):
        await broker.control.send(topic, f"order {number}", queue_id=0)
    received = await broker.control.receive(topic, group="billing", max_messages=3)
    await broker.control.acknowledge("billing", received)
    wanted = {
        ("rocketmq_producer_offset", topic, None): 5,
        ("rocketmq_consumer_offset", topic, "billing"): 3,
        ("rocketmq_group_diff", topic, "billing"): 2,
    }
    versions: set[str | None] = set()
    async with asyncio.timeout(START_S), aiohttp.ClientSession() as session:
        exported: dict[tuple[str, str | None, str | None], float] = {}
        while not wanted.items() <= exported.items() or "V5_5_0" not in versions:
            async with session.get(exporter) as response:
                families = text_string_to_metric_families(await response.text())
            samples = [sample for family in families for sample in family.samples]
            exported = {
                (sample.name, sample.labels.get("topic"), sample.labels.get("group")): sample.value
                for sample in samples
            }
            versions = {sample.labels.get("des") for sample in samples}
