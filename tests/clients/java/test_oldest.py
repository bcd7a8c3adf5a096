"""The oldest tested Java client of RocketMQ sends and consumes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver, running_driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.test_delaying import arrives_at

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def oldest(broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """The client, with the flag that its Netty needs since Java 17."""
    flag = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    command = (*java_command("java-4.3", home), flag, "rocketmq.OldestDriver")
    async with running_driver(command, home, name_server=broker.name_server) as driver:
        yield driver


@pytest.mark.feature("Send and wait", "java-4.3")
@pytest.mark.feature("A topic that does not exist yet", "java-4.3")
@pytest.mark.feature("Tags, keys and properties", "java-4.3")
@pytest.mark.feature("Push consumer", "java-4.3")
async def test_a_message_arrives_as_it_was_sent(oldest: Driver, topic: str) -> None:
    message = {"body": "两个字", "tag": "a", "keys": ["k1", "k2"], "properties": {"colour": "grün"}}
    sent = await oldest.call("send", topic=topic, **message)
    assert (sent["is_ok"], sent["queue_offset"]) == (True, 0)
    await oldest.call("consume", group=topic, topic=topic, tags="a")
    received = await oldest.next(topic)
    assert (received.topic, received.body, received.message_id) == (topic, "两个字", sent["message_id"])
    assert (received.tag, received.keys, received.properties["colour"]) == ("a", "k1 k2", "grün")


@pytest.mark.feature("Push consumer", "java-4.3")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, oldest: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, oldest, topic)


@pytest.mark.feature("Delay levels", "java-4.3")
async def test_a_delay_level(broker: RemotingBroker, oldest: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    await oldest.call("consume", group=topic, topic=topic)
    now_ms = (await broker.control.clock())["now_ms"]
    await oldest.call("send", topic=topic, body="in a minute", delay_level=5)
    assert await arrives_at(broker, oldest, topic, now_ms + 60_000) == "in a minute"


@pytest.mark.feature("Failed messages are retried", "java-4.3")
async def test_a_retry(broker: RemotingBroker, oldest: Driver, topic: str) -> None:
    await broker.control.put_group(topic)
    sent = await oldest.call("send", topic=topic, body="again")
    await oldest.call("consume", group=topic, topic=topic, failures=1)
    assert (await oldest.next(topic)).times == 0
    [due_ms] = await broker.pending(f"%RETRY%{topic}")
    assert due_ms == (await broker.control.clock())["now_ms"] + 10_000
    await broker.control.move_to(due_ms)
    retried = await oldest.next(topic)
    assert (retried.topic, retried.times, retried.message_id) == (topic, 1, sent["message_id"])
