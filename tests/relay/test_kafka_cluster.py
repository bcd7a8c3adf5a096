"""The relay's member of a Kafka group recovers from every failure, tested without a Kafka."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import TopicPartition

from mocketmq.clock import US_PER_S
from mocketmq.relay.judging import Judge
from mocketmq.relay.kafka import cluster as kafka_cluster
from mocketmq.relay.kafka.cluster import KafkaCluster
from mocketmq.relay.kafka.options import parse_options
from mocketmq.relay.kafka.topics import KafkaTopics
from mocketmq.relay.partition import RelayError, RelayTopics
from tests.support.patience import PATIENCE_S

NAMES = RelayTopics("delayed", "delayed-pending", "delayed-refused")


@pytest.fixture
async def cluster() -> AsyncIterator[KafkaCluster]:
    """A cluster that retries without pauses."""
    made = KafkaCluster("relays", NAMES, parse_options("127.0.0.1:1", []), Judge(60 * US_PER_S, NAMES))
    made.again_s = 0.0
    yield made
    await made.close()


async def test_failed_preparation_of_partitions_is_retried(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    async def prepare(topics: KafkaTopics) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise RelayError("Kafka cannot be used just now")
        topics.partitions = 2

    monkeypatch.setattr(KafkaTopics, "prepare", prepare)
    cluster.assigned([TopicPartition("delayed", 1)])
    async with asyncio.timeout(PATIENCE_S):
        assert [each.name for each in await cluster.changed()] == ["delayed-1"]


class Member:
    """A Kafka consumer that breaks; the third consumer works."""

    made: list["Member"]
    lasting: asyncio.Event

    def __init__(self, **_: Any) -> None:
        Member.made.append(self)

    def subscribe(self, _topics: list[str], listener: object) -> None:
        """Do nothing."""

    async def start(self) -> None:
        """Return at once."""

    async def stop(self) -> None:
        """Return at once."""

    async def getmany(self, timeout_ms: int) -> None:  # noqa: ARG002 - the client's name
        """Fail, except for the third consumer."""
        if len(Member.made) < 3:
            raise ValueError("a defect of the client")
        Member.lasting.set()
        await asyncio.Event().wait()


async def test_broken_member_is_replaced(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def nothing(_: KafkaTopics) -> None:
        pass

    monkeypatch.setattr(Member, "made", [], raising=False)
    monkeypatch.setattr(Member, "lasting", asyncio.Event(), raising=False)
    monkeypatch.setattr(kafka_cluster, "AIOKafkaConsumer", Member)
    monkeypatch.setattr(KafkaTopics, "open", nothing)
    await cluster.open()
    async with asyncio.timeout(PATIENCE_S):
        await Member.lasting.wait()
    assert "rejoining group relays: ValueError('a defect of the client')" in caplog.text
