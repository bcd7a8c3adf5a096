"""Clients of a real Kafka that create topics, send, and read committed records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import ConsumerRecord

from tests.support.patience import HANGING_S


class KafkaClients:
    """Clients of the brokers at ``bootstrap``, which are also the number of replicas of each topic."""

    def __init__(self, bootstrap: str, replicas: int) -> None:
        self.bootstrap = bootstrap
        self._replicas = replicas

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """Open a client that creates topics."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()

    async def make_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Create a topic; names of settings have underscores instead of dots."""
        plain = {key.replace("_", "."): value for key, value in configs.items()}
        async with self.admin() as admin:
            new = NewTopic(name, partitions, self._replicas, topic_configs=plain)
            answer = await admin.create_topics([new])
            assert [code for _, code, _ in answer.topic_errors] == [0], answer
            while name not in await admin.list_topics():  # noqa: ASYNC110 - the controller knows it first
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[AIOKafkaProducer]:
        """Open a client that sends each message exactly once, however long that takes."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=round(HANGING_S * 1_000),
        )
        async with producer:
            yield producer

    @asynccontextmanager
    async def reader(self, topic: str, partitions: int = 1) -> AsyncIterator["Reader"]:
        """Open a client that reads the topic from its start, and from transactions only committed records."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        async with consumer:
            yield Reader(consumer, places)


class Reader:
    """Reads a topic; ``records`` has the records read so far."""

    def __init__(self, consumer: AIOKafkaConsumer, places: list[TopicPartition]) -> None:
        self.records: list[ConsumerRecord] = []
        self._consumer = consumer
        self._places = places

    async def until(self, count: int) -> list[ConsumerRecord]:
        """Read until this many different values have been read."""
        async with asyncio.timeout(HANGING_S):
            while len({record.value for record in self.records}) < count:
                await self._read()
        return self.records

    async def to_end(self) -> list[ConsumerRecord]:
        """Read all records that exist now."""
        async with asyncio.timeout(HANGING_S):
            for place, end in (await self._consumer.end_offsets(self._places)).items():
                while await self._consumer.position(place) < end:
                    await self._read()
        return self.records

    async def _read(self) -> None:
        for some in (await self._consumer.getmany(timeout_ms=200)).values():
            self.records += some
