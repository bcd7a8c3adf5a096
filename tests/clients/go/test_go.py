"""What works with RocketMQ's Go client."""

import asyncio
import time
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.go.conftest import build
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, Driver, running_driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import goes_on_where_it_was
from tests.clients.remoting.snippets import running_program, snippet
from tests.clients.remoting.test_delaying import HOUR_MS, LEVELS_S, arrives_at

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def single(broker: RemotingBroker, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    return topic


@pytest.mark.feature("Send and wait", "go")
@pytest.mark.feature("A topic that does not exist yet", "go")
@pytest.mark.feature("Tags, keys and properties", "go")
@pytest.mark.feature("Push consumer", "go")
async def test_a_message_arrives_as_it_was_sent(go: Driver, topic: str) -> None:
    properties = {"colour": "grün", "price": "7"}
    body = "Ein Wort, 两个字, 🙂\n"
    sent = await go.call("send", topic=topic, body=body, tag="a", keys=["k1", "k2"], properties=properties)
    assert (sent["is_ok"], sent["queue_offset"]) == (True, 0)
    await go.call("consume", group=topic, topic=topic)
    received = await go.next(topic)
    assert (received.topic, received.body, received.message_id) == (topic, body, sent["message_id"])
    assert (received.queue_id, received.queue_offset) == (sent["queue_id"], 0)
    assert (received.tag, received.keys, received.times) == ("a", "k1 k2", 0)
    assert properties.items() <= received.properties.items()


@pytest.mark.feature("Push consumer", "go")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, go: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, go, topic)


@pytest.mark.feature("Send with a callback", "go")
@pytest.mark.feature("Send oneway", "go")
@pytest.mark.feature("Batches", "go")
async def test_other_ways_to_send(broker: RemotingBroker, go: Driver, topic: str) -> None:
    sent = await go.call("send_async", topic=topic, body="with a callback")
    assert sent["is_ok"]
    await go.call("send_oneway", topic=topic, body="oneway")
    sent = await go.call("send_batch", messages=[{"topic": topic, "body": f"{n}"} for n in range(3)])
    assert len(sent["offset_message_id"].split(",")) == 3  # the client makes no ids for them
    await broker.control.wait_delivered(topic, 5)
    messages = await broker.control.receive(topic, group="GID_billing", max_messages=5)
    assert {message["body"] for message in messages} == {"with a callback", "oneway", "0", "1", "2"}


@pytest.mark.feature("Queues chosen by key or selector", "go")
async def test_a_key_chooses_the_queue(go: Driver, topic: str) -> None:
    sent = [
        await go.call("send_orderly", topic=topic, body=f"{n}", sharding_key=f"{n % 3}") for n in range(9)
    ]
    for part in range(3):
        assert len({one["queue_id"] for one in sent[part::3]}) == 1


@pytest.mark.feature("Large bodies, compressed", "go")
@pytest.mark.feature("To and from the JSON API", "go")
async def test_by_json_and_back(broker: RemotingBroker, go: Driver, single: str) -> None:
    body = "all work and no play " * 5_000
    await go.call("send", topic=single, body=body)
    await broker.control.send(single, "from JSON", tag="a", keys=["7"])
    messages = await broker.control.receive(single, group="GID_billing", max_messages=2)
    assert [message["body"] for message in messages] == [body, "from JSON"]
    await go.call("consume", group=single, topic=single)
    received = [await go.next(single) for _ in range(2)]  # side by side, so in any order
    assert {(one.body, one.tag, one.keys) for one in received} == {(body, "", ""), ("from JSON", "a", "7")}


@pytest.mark.feature("Delay levels", "go")
@pytest.mark.feature("All 18 levels, to the millisecond", "go")
async def test_every_level(broker: RemotingBroker, go: Driver, single: str) -> None:
    await go.call("consume", group=single, topic=single)
    now_ms = (await broker.control.clock())["now_ms"]
    for level in range(1, 19):
        await go.call("send", topic=single, body=str(level), delay_level=level)
    for level, delay_s in enumerate(LEVELS_S, start=1):
        assert await arrives_at(broker, go, single, now_ms + delay_s * 1_000) == str(level)


@pytest.mark.feature("`__STARTDELIVERTIME`", "go")
@pytest.mark.feature("Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`", "go")
async def test_any_time(broker: RemotingBroker, go: Driver, single: str) -> None:
    await go.call("consume", group=single, topic=single)
    instant = str(int(time.time() * 1_000) + HOUR_MS)
    for name, text in {
        "__STARTDELIVERTIME": instant,
        "TIMER_DELIVER_MS": instant,
        "TIMER_DELAY_SEC": "90",
        "TIMER_DELAY_MS": "1234567",
    }.items():
        await go.call("send", topic=single, body=name, properties={name: text})
        [due_ms] = await broker.pending(single)
        assert await arrives_at(broker, go, single, due_ms) == name


@pytest.mark.feature("Tag filters", "go")
async def test_tags(go: Driver, topic: str) -> None:
    for tag in ("a", "b", "c", "d"):
        await go.call("send", topic=topic, body=tag, tag=tag)
    await go.call("send", topic=topic, body="none")
    await go.call("consume", group=topic, topic=topic, tags="a || d")
    assert set(await go.bodies(topic, 2)) == {"a", "d"}
    await go.call("send", topic=topic, body="last", tag="d")
    assert await go.bodies(topic, 1) == ["last"]


@pytest.mark.feature("Push consumer, in order", "go")
async def test_in_order(broker: RemotingBroker, go: Driver, single: str) -> None:
    for number in range(5):
        await broker.control.send(single, str(number))
    await go.call("consume", group=single, topic=single, orderly=True)
    assert await go.bodies(single, 5) == ["0", "1", "2", "3", "4"]


@pytest.mark.feature("Push consumer, broadcasting", "go")
async def test_broadcasting(go: Driver, topic: str) -> None:
    await go.call("send", topic=topic, body="to all")
    for member in (f"{topic}-1", f"{topic}-2"):
        await go.call("consume", group=topic, topic=topic, member=member, broadcasting=True)
        assert await go.bodies(member, 1) == ["to all"]


@pytest.mark.feature("Failed messages are retried", "go")
async def test_retries(broker: RemotingBroker, go: Driver, topic: str) -> None:
    await go.call("send", topic=topic, body="again", tag="a", keys=["7"])
    await go.call("consume", group=topic, topic=topic, failures=2)
    assert (await go.next(topic)).times == 0
    for times, delay_ms in ((1, 10_000), (2, 30_000)):
        due_ms = (await broker.control.clock())["now_ms"] + delay_ms
        assert await broker.pending(f"%RETRY%{topic}") == [due_ms]
        await broker.control.move_to(due_ms)
        retried = await go.next(topic)
        assert (retried.topic, retried.body, retried.times) == (topic, "again", times)
        assert (retried.tag, retried.keys) == ("a", "7")


@pytest.mark.feature("Offsets survive a restart of the consumer", "go")
async def test_a_consumer_goes_on_where_it_was(broker: RemotingBroker, go: Driver, single: str) -> None:
    await goes_on_where_it_was(broker, go, single)


@pytest.mark.feature("Namespace", "go")
@pytest.mark.feature("Access keys are accepted", "go")
@pytest.mark.feature("The address is discovered over HTTP", "go")
async def test_another_way_in(
    broker: RemotingBroker, go_client: tuple[str, ...], home: Path, topic: str
) -> None:
    discovery = f"{broker.url}/rocketmq/nsaddr"
    keys = {"access_key": "any", "secret": "any"}
    async with running_driver(go_client, home, discovery=discovery, namespace="MQ_INST_1", **keys) as driver:
        await driver.call("send", topic=topic, body="inside")
        await driver.call("consume", group=topic, topic=topic)
        assert await driver.bodies(topic, 1) == ["inside"]
    [message] = await broker.control.receive(f"MQ_INST_1%{topic}", group="GID_billing")
    assert message["body"] == "inside"


async def test_the_program_of_the_docs(home: Path, tmp_path: Path) -> None:
    async with running_remoting_broker() as broker:
        source, program = tmp_path / "main.go", tmp_path / "program"
        source.write_text(snippet("go", broker.name_server, broker.url))
        build(source, program)
        async with running_program(program, home=home) as output, asyncio.timeout(WAIT_S):
            assert len((await output.readline()).strip()) == 32
            [due_ms] = await broker.pending("orders")
            await broker.control.move_to(due_ms)
            assert await output.readline() == b"order 7 was not paid\n"
