"""A real Kafka of three brokers; topics have three replicas, and two must have an acknowledged record."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError

from tests.relay.kafka_clients import KafkaClients
from tests.relay.kafka_node import KafkaNode, free_addresses
from tests.support.patience import HANGING_S

NUMBERS: Final = (1, 2, 3)
_SETTINGS: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "9000",  # Kafka's default, which tolerates busy machines
}
T = TypeVar("T")


class KafkaTrio(KafkaClients):
    """Three brokers, started by :func:`running_trio`."""

    def __init__(self, home: Path) -> None:
        plain = free_addresses(2 * len(NUMBERS))
        controllers = dict(zip(NUMBERS, plain[: len(NUMBERS)], strict=True))
        addresses = dict(zip(NUMBERS, plain[len(NUMBERS) :], strict=True))
        super().__init__(",".join(addresses.values()), replicas=len(NUMBERS))
        self._nodes: dict[int, KafkaNode] = {}
        for number, address in addresses.items():
            folder = home / str(number)
            folder.mkdir()
            listening = {"PLAINTEXT": address}
            self._nodes[number] = KafkaNode(folder, number, controllers, listening, _SETTINGS)

    def start(self, number: int) -> None:
        """Start a broker, without waiting until it is ready."""
        self._nodes[number].start()

    def kill(self, number: int) -> None:
        """Kill a broker with SIGKILL."""
        self._nodes[number].kill()

    async def leader(self, topic: str) -> int:
        """Return the leader of the topic's first partition; a system topic's leader is the coordinator."""

        async def led_by() -> int:
            [found] = await self._described(topic)
            return sum(one["leader"] for one in found["partitions"] if one["partition"] == 0)

        return await self._until(led_by, NUMBERS)

    async def lost(self, number: int) -> None:
        """Wait until the others know that the broker is gone, so that no partition relies on it."""

        async def is_lost() -> bool:
            return all(number not in one["isr"] for one in await self._partitions())

        await self._until(is_lost, [True])

    async def complete(self) -> None:
        """Wait until all brokers are in sync."""

        async def is_complete() -> bool:
            async with self.admin() as admin:
                brokers = (await admin.describe_cluster())["brokers"]
            return len(brokers) == len(NUMBERS) and all(
                len(one["isr"]) == len(NUMBERS) for one in await self._partitions()
            )

        await self._until(is_complete, [True])

    async def _partitions(self) -> list[dict[str, Any]]:
        return [one for topic in await self._described() for one in topic["partitions"]]

    async def _described(self, *topics: str) -> list[dict[str, Any]]:
        async with self.admin() as admin:
            names = topics or await admin.list_topics()
            return list(await admin.describe_topics([*names]))

    async def _until(self, ask: Callable[[], Awaitable[T]], wanted: Container[T]) -> T:
        async with asyncio.timeout(HANGING_S):
            while True:
                for node in self._nodes.values():
                    node.check()
                with suppress(KafkaError):
                    if (answer := await ask()) in wanted:
                        return answer
                await asyncio.sleep(0.1)


@contextmanager
def running_trio(home: Path) -> Iterator[KafkaTrio]:
    """Run three brokers with their data in ``home``, and kill them on exit. Raises JarsMissingError."""
    trio = KafkaTrio(home)
    try:
        for number in NUMBERS:
            trio.start(number)
        yield trio
    finally:
        for number in NUMBERS:
            trio.kill(number)
