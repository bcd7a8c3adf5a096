"""A real Kafka for all tests that need it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from tests.upstream.jars import JarsMissingError

if TYPE_CHECKING:
    from tests.relay.places import Place
    from tests.relay.real_kafka import RealKafka


@pytest.fixture(scope="session")
def kafka_process() -> "Iterator[RealKafka]":
    """A Kafka that may not be ready yet."""
    from tests.relay.real_kafka import running_kafka

    with TemporaryDirectory(prefix="mocketmq-kafka-") as home:
        try:
            with running_kafka(Path(home)) as kafka:
                yield kafka
        except JarsMissingError as error:
            pytest.skip(str(error))


@pytest.fixture
async def kafka(kafka_process: "RealKafka") -> "AsyncIterator[RealKafka]":
    """The same Kafka, once it is ready."""
    await kafka_process.ready()
    yield kafka_process


@pytest.fixture
async def place(kafka: "RealKafka") -> "Place":
    """A delay topic and a real topic."""
    from tests.relay.places import Place

    made = Place(kafka)
    await made.make()
    return made
