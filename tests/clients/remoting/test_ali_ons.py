"""Features that only Aliyun's TCP client for Node has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"
INSTANCE = "MQ_INST_1_a"


@pytest_asyncio.fixture(loop_scope="session")
async def aliyun(broker: RemotingBroker, home: Path, node_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The library as it is configured for Aliyun."""
    async with running_driver(
        node_client,
        home,
        onsAddr=f"{broker.url}/rocketmq/nsaddr4client-internet",
        accessKeyId="any",
        accessKeySecret="any",
        namespace=INSTANCE,
    ) as driver:
        yield driver
        assert driver.problems == []


@pytest.mark.feature("The address is discovered over HTTP", "node")
@pytest.mark.feature("Access keys are accepted", "node")
@pytest.mark.feature("Namespace", "node")
async def test_as_for_aliyun(broker: RemotingBroker, aliyun: Driver, topic: str) -> None:
    await aliyun.call("send", topic=topic, body="with keys", tag="a")
    [message] = await broker.control.receive(f"{INSTANCE}%{topic}", group=GROUP)
    assert message["body"] == "with keys"

    await aliyun.call("consume", group=GROUP, topic=topic, failures=1)
    first = await aliyun.next(GROUP)
    assert (first.topic, first.body, first.times) == (f"{INSTANCE}%{topic}", "with keys", 0)
    [due_ms] = await broker.pending(f"%RETRY%{INSTANCE}%{GROUP}")
    await broker.control.move_to(due_ms)
    retried = await aliyun.next(GROUP)
    assert (retried.topic, retried.body, retried.times) == (f"{INSTANCE}%{topic}", "with keys", 1)


@pytest.mark.feature("Queues chosen by key or selector", "node")
async def test_a_sharding_key(broker: RemotingBroker, node: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=8, write_queues=8)
    for number in range(4):
        await node.call("send", topic=topic, body=str(number), sharding_key="order 7")
    messages = await broker.control.receive(topic, group=GROUP, max_messages=4)
    assert [message["body"] for message in messages] == ["0", "1", "2", "3"]
    assert len({message["queue_id"] for message in messages}) == 1


@pytest.mark.feature("Consume from first, last or a time", "node")
@pytest.mark.parametrize("start", ["FIRST_OFFSET", "LAST_OFFSET", "TIMESTAMP"])
async def test_where_a_new_group_begins(broker: RemotingBroker, node: Driver, topic: str, start: str) -> None:
    """It starts at the oldest message, whatever it requests, as with RocketMQ before any retention."""
    await broker.control.send(topic, "before")
    more = {"consumeFromWhere": f"CONSUME_FROM_{start}"}
    await node.call("consume", group=topic, topic=topic, more=more)
    assert await node.bodies(topic, 1) == ["before"]
