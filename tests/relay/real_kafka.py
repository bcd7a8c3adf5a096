"""A real Kafka of one node."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from aiokafka.errors import KafkaError

from mocketmq.connections.certificate import _self_signed
from tests.relay.kafka_clients import KafkaClients
from tests.relay.kafka_node import HOST, KafkaNode, free_addresses
from tests.support.patience import HANGING_S

_SETTINGS: Final = {
    "listener.name.secure.ssl.keystore.type": "PEM",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_relay="secret";'
    ),
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class RealKafka(KafkaClients):
    """Started by :func:`running_kafka`. At ``secure`` it uses TLS and knows user relay, password secret."""

    def __init__(self, home: Path) -> None:
        plain, controller, self.secure = free_addresses(3)
        super().__init__(plain, replicas=1)
        self.certificate = home / "cert.pem"
        certificate, key = _self_signed([HOST])
        self.certificate.write_bytes(certificate)
        both = home / "both.pem"
        both.write_bytes(key + certificate)
        settings = {**_SETTINGS, "listener.name.secure.ssl.keystore.location": str(both)}
        addresses = {"PLAINTEXT": plain, "SECURE": self.secure}
        self._node = KafkaNode(home, 1, {1: controller}, addresses, settings)
        self.start = self._node.start
        self.kill = self._node.kill

    async def ready(self) -> None:
        """Wait until Kafka answers."""
        async with asyncio.timeout(HANGING_S):
            while True:
                self._node.check()
                with suppress(KafkaError):
                    async with self.admin() as admin:
                        if (await admin.describe_cluster())["brokers"]:
                            return
                await asyncio.sleep(0.1)


@contextmanager
def running_kafka(home: Path) -> Iterator[RealKafka]:
    """Run a Kafka with its data in ``home``, and kill it on exit. Raises JarsMissingError."""
    kafka = RealKafka(home)
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()
