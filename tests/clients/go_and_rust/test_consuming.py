"""Consuming with RocketMQ's clients for Go and Rust."""

import json

import pytest

from mocketmq.remoting.wire.codes import RequestCode
from tests.clients.remoting.arrivals import arrive_by_tag
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import committed, goes_on_where_it_was
from tests.clients.remoting.sharing import share_the_queues
from tests.clients.remoting.test_delaying import LEVELS_S
from tests.support.remoting import connected

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("Push consumer", "go", "rust")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, driver: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, driver, topic)


@pytest.mark.feature("Tag filters", "go", "rust")
async def test_tags(driver: Driver, topic: str) -> None:
    await arrive_by_tag(driver, topic)


@pytest.mark.feature("SQL92 filters", "go", "rust")
async def test_sql(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    for price in ("9", "10", "20", "21"):
        await driver.call("send", topic=topic, body=price, properties={"price": price})
    await broker.control.send(topic, "free")
    await driver.call("consume", group=topic, topic=topic, sql="price BETWEEN 10 AND 20 OR price IS NULL")
    assert set(await driver.bodies(topic, 3)) == {"10", "20", "free"}
    await driver.call("send", topic=topic, body="too much", properties={"price": "99"})
    await driver.call("send", topic=topic, body="last", properties={"price": "15"})
    assert await driver.bodies(topic, 1) == ["last"]


@pytest.mark.feature("SQL92 filters", "go", "rust")
async def test_a_retry_that_is_filtered(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="again", properties={"price": "15"})
    await driver.call("consume", group=topic, topic=topic, sql="price > 10", failures=1)
    assert (await driver.next(topic)).times == 0
    [due_ms] = await broker.pending(f"%RETRY%{topic}")
    await broker.control.move_to(due_ms)
    assert (await driver.next(topic)).times == 1


@pytest.mark.feature("Push consumer, in order", "go", "rust")
async def test_in_order(broker: RemotingBroker, driver: Driver, single: str) -> None:
    for number in range(5):
        await broker.control.send(single, str(number))
    await driver.call("consume", group=single, topic=single, orderly=True)
    assert await driver.bodies(single, 5) == ["0", "1", "2", "3", "4"]


@pytest.mark.feature("Push consumer, broadcasting", "go", "rust")
async def test_broadcasting(driver: Driver, topic: str) -> None:
    await driver.call("send", topic=topic, body="to all")
    for member in (f"{topic}-1", f"{topic}-2"):
        await driver.call("consume", group=topic, topic=topic, member=member, broadcasting=True)
        assert await driver.bodies(member, 1) == ["to all"]


@pytest.mark.feature("Failed messages are retried", "go", "rust")
@pytest.mark.feature("Dead letters after 16 retries", "go", "rust")
async def test_sixteen_retries(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    sent = await driver.call("send", topic=topic, body="again", tag="a", keys=["7"])
    await driver.call("consume", group=topic, topic=topic, failures=99)
    for times, delay_s in enumerate(LEVELS_S[2:]):
        received = await driver.next(topic)
        assert (received.topic, received.body, received.times) == (topic, "again", times)
        assert (received.tag, received.keys, received.message_id) == ("a", "7", sent["message_id"])
        due_ms = (await broker.control.clock())["now_ms"] + delay_s * 1_000
        assert await broker.pending(f"%RETRY%{topic}") == [due_ms]
        await broker.control.move_to(due_ms)
    assert (await driver.next(topic)).times == 16
    await broker.control.wait_delivered(f"%DLQ%{topic}", 1, wait="30s")
    [dead] = (await broker.control.browse(f"%DLQ%{topic}", 0))["messages"]
    assert (dead["body"], dead["tag"], dead["message_id"]) == ("again", "a", sent["message_id"])


@pytest.mark.feature("Offsets survive a restart of the consumer", "go", "rust")
async def test_a_consumer_continues_at_its_offset(
    broker: RemotingBroker, driver: Driver, single: str
) -> None:
    await goes_on_where_it_was(broker, driver, single)


@pytest.mark.feature("Queues are shared by the members of a group", "go", "rust")
async def test_members_share_the_queues(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    await share_the_queues(broker, driver, topic)


@pytest.mark.feature("Lite pull consumer", "rust")
async def test_lite_pull(rust: Driver, topic: str) -> None:
    for number in range(5):
        await rust.call("send", topic=topic, body=str(number))
    await rust.call("poll", group=topic, topic=topic, count=5)
    assert set(await rust.bodies(topic, 5)) == {"0", "1", "2", "3", "4"}
    await rust.call("close", member=topic)
    await rust.call("send", topic=topic, body="after a restart")
    await rust.call("poll", group=topic, topic=topic, count=1)
    assert await rust.bodies(topic, 1) == ["after a restart"]


@pytest.mark.feature("Pop consumer", "rust")
async def test_pop(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    await broker.control.put_group(topic)
    mode = {"topic": topic, "consumerGroup": topic, "mode": "POP", "popShareQueueNum": 0}
    async with connected(broker.host, broker.port) as tool:
        await tool.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode())
    for number in range(20):
        await broker.control.send(topic, str(number))
    await rust.call("consume", group=topic, topic=topic, pop=True)
    received = [await rust.next(topic) for _ in range(20)]
    assert sorted(int(one.body) for one in received) == list(range(20))
    assert all("POP_CK" in one.properties for one in received)
    await committed(broker, topic)
