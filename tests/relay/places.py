"""A delay topic and a real topic for a test, and the expected output."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from aiokafka import AIOKafkaProducer
from aiokafka.structs import ConsumerRecord

from mocketmq.clock import US_PER_MS, wall_us
from tests.relay.kafka_clients import KafkaClients

_NUMBERS = count(1)
PARTITIONS: Final = 4


class Place:
    """A delay topic and a real topic that only one test uses."""

    def __init__(self, kafka: KafkaClients) -> None:
        number = next(_NUMBERS)
        self.kafka = kafka
        self.delay, self.real = f"delayed-{number}", f"orders-{number}"
        self.due_ms: dict[bytes, int] = {}

    async def make(self, **configs: str) -> None:
        """Create both topics; the settings apply to the real topic."""
        await self.kafka.make_topic(self.delay, PARTITIONS)
        await self.kafka.make_topic(self.real, PARTITIONS, **configs)

    async def send(
        self, producer: AIOKafkaProducer, values: Sequence[int], over_ms: int, partition: int | None = None
    ) -> None:
        """Send messages whose due times are spread over this many milliseconds from now."""
        answers = []
        for place, number in enumerate(values):
            value = b"%d" % number
            due_ms = now_ms() + place * over_ms // len(values)
            self.due_ms[value] = due_ms
            headers = as_headers({"RELAY_TOPIC": self.real, "__STARTDELIVERTIME": str(due_ms)})
            key = b"k%d" % (number % 7)
            answers.append(await producer.send(self.delay, value, key, partition, headers=headers))
        await asyncio.gather(*answers)

    def check(self, records: Sequence[ConsumerRecord]) -> None:
        """Check that each message arrives once, with its own identity, and never early."""
        assert Counter(record.value for record in records) == Counter(self.due_ms.keys())
        assert len({dict(record.headers)["RELAY_ID"] for record in records}) == len(records)
        for record in records:
            assert record.timestamp >= self.due_ms[record.value]


def now_ms() -> int:
    return wall_us() // US_PER_MS


def as_headers(words: Mapping[str, str]) -> list[tuple[str, bytes]]:
    return [(name, value.encode()) for name, value in words.items()]
