"""The relay with a real Kafka of three brokers, which are killed in turn."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from aiokafka import AIOKafkaProducer

from tests.relay.kafka_trio import KafkaTrio, running_trio
from tests.relay.places import PARTITIONS, Place
from tests.relay.relay_process import relay_process
from tests.upstream.jars import JarsMissingError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1_800)]  # nine broker starts

LOT = 50
"""Number of messages that are sent at once while a broker dies."""


@pytest.fixture
def trio() -> Iterator[KafkaTrio]:
    """Three brokers that may not be ready yet."""
    with TemporaryDirectory(prefix="mocketmq-kafka-") as home:
        try:
            with running_trio(Path(home)) as trio:
                yield trio
        except JarsMissingError as error:
            pytest.skip(str(error))


async def send_more(place: Place, producer: AIOKafkaProducer, count: int, over_ms: int) -> None:
    first = len(place.due_ms)
    await place.send(producer, range(first, first + count), over_ms)


async def keep_sending(place: Place, producer: AIOKafkaProducer, over: asyncio.Event) -> None:
    """Send batches, each after the previous batch is accepted."""
    while not over.is_set():
        await send_more(place, producer, LOT, over_ms=2_000)


async def test_when_any_broker_dies_nothing_is_lost_or_repeated(
    trio: KafkaTrio,
) -> None:
    await trio.complete()
    place = Place(trio)
    await place.make(message_timestamp_type="LogAppendTime")  # records each message's arrival
    async with (
        trio.producer() as producer,
        trio.reader(place.real, PARTITIONS) as reader,
        relay_process(trio, place.delay) as relay,
    ):
        # The coordinator of transactions, the coordinator of groups, the leader of the delay topic
        for topic in ("__transaction_state", "__consumer_offsets", place.delay):
            await send_more(place, producer, 400, over_ms=4_000)
            await reader.until(len(place.due_ms) - 300)
            async with asyncio.TaskGroup() as group:
                over = asyncio.Event()
                group.create_task(keep_sending(place, producer, over))
                victim = await trio.leader(topic)
                trio.kill(victim)
                await trio.lost(victim)
                over.set()
            await send_more(place, producer, 100, over_ms=500)
            await reader.until(len(place.due_ms))
            trio.start(victim)
            await trio.complete()
        await relay.stop()
        place.check(await reader.to_end())
