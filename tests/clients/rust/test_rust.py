"""What works with the Rust client."""

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from mocketmq import BrokerError
from mocketmq.remoting.wire.codes import RequestCode
from tests.clients.access import keys_are_checked, keys_are_needed, written
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S, Driver, running_driver
from tests.clients.remoting.early_consumers import gets_the_first_message
from tests.clients.remoting.restarts import committed, goes_on_where_it_was
from tests.clients.remoting.snippets import running_program, snippet
from tests.clients.remoting.test_delaying import HOUR_MS, LEVELS_S, arrives_at
from tests.clients.rust.conftest import build
from tests.clients.rust.versions import FOLDER
from tests.support.remoting import connected

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

REFUSED = "broker.operation.failed"
"""What the client says to any refusal of the broker."""


@pytest_asyncio.fixture(loop_scope="session")
async def single(broker: RemotingBroker, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    return topic


@pytest.mark.feature("Send and wait", "rust")
@pytest.mark.feature("A topic that does not exist yet", "rust")
@pytest.mark.feature("Tags, keys and properties", "rust")
@pytest.mark.feature("Push consumer", "rust")
async def test_a_message_arrives_as_it_was_sent(rust: Driver, topic: str) -> None:
    properties = {"colour": "grün", "price": "7"}
    body = "Ein Wort, 两个字, 🙂\n"
    sent = await rust.call("send", topic=topic, body=body, tag="a", keys=["k1", "k2"], properties=properties)
    assert (sent["is_ok"], sent["queue_offset"]) == (True, 0)
    await rust.call("consume", group=topic, topic=topic)
    received = await rust.next(topic)
    assert (received.topic, received.body, received.message_id) == (topic, body, sent["message_id"])
    assert (received.queue_id, received.queue_offset) == (sent["queue_id"], 0)
    assert (received.tag, received.keys, received.times) == ("a", "k1 k2", 0)
    assert properties.items() <= received.properties.items()


@pytest.mark.feature("Push consumer", "rust")
async def test_a_consumer_that_starts_before_its_topic_exists(
    broker: RemotingBroker, rust: Driver, topic: str
) -> None:
    await gets_the_first_message(broker, rust, topic)


@pytest.mark.feature("Send with a callback", "rust")
@pytest.mark.feature("Send oneway", "rust")
@pytest.mark.feature("Batches", "rust")
async def test_other_ways_to_send(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    sent = await rust.call("send_async", topic=topic, body="with a callback")
    assert sent["is_ok"]
    await rust.call("send_oneway", topic=topic, body="oneway")
    sent = await rust.call("send_batch", messages=[{"topic": topic, "body": f"{n}"} for n in range(3)])
    assert len(sent["message_id"].split(",")) == len(sent["offset_message_id"].split(",")) == 3
    await broker.control.wait_delivered(topic, 5)
    messages = await broker.control.receive(topic, group="GID_billing", max_messages=5)
    assert {message["body"] for message in messages} == {"with a callback", "oneway", "0", "1", "2"}
    assert set(sent["message_id"].split(",")) <= {message["message_id"] for message in messages}


@pytest.mark.feature("Queues chosen by key or selector", "rust")
async def test_a_key_chooses_the_queue(rust: Driver, topic: str) -> None:
    sent = [
        await rust.call("send_orderly", topic=topic, body=f"{n}", sharding_key=f"{n % 3}") for n in range(9)
    ]
    for part in range(3):
        assert len({one["queue_id"] for one in sent[part::3]}) == 1


@pytest.mark.feature("Large bodies, compressed", "rust")
@pytest.mark.feature("To and from the JSON API", "rust")
async def test_by_json_and_back(broker: RemotingBroker, rust: Driver, single: str) -> None:
    body = "all work and no play " * 5_000
    await rust.call("send", topic=single, body=body)
    await broker.control.send(single, "from JSON", tag="a", keys=["7"])
    messages = await broker.control.receive(single, group="GID_billing", max_messages=2)
    assert [message["body"] for message in messages] == [body, "from JSON"]
    assert messages[0]["sys_flag"] & 1  # the client has compressed it
    await rust.call("consume", group=single, topic=single)
    received = [await rust.next(single) for _ in range(2)]  # side by side, so in any order
    assert {(one.body, one.tag, one.keys) for one in received} == {
        (body, None, None),
        ("from JSON", "a", "7"),
    }


@pytest.mark.feature("Delay levels", "rust")
@pytest.mark.feature("All 18 levels, to the millisecond", "rust")
async def test_every_level(broker: RemotingBroker, rust: Driver, single: str) -> None:
    await rust.call("consume", group=single, topic=single)
    now_ms = (await broker.control.clock())["now_ms"]
    for level in range(1, 19):
        await rust.call("send", topic=single, body=str(level), delay_level=level)
    for level, delay_s in enumerate(LEVELS_S, start=1):
        assert await arrives_at(broker, rust, single, now_ms + delay_s * 1_000) == str(level)


@pytest.mark.feature("`__STARTDELIVERTIME`", "rust")
@pytest.mark.feature("Timers: `TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`", "rust")
async def test_any_time(broker: RemotingBroker, rust: Driver, single: str) -> None:
    await rust.call("consume", group=single, topic=single)
    instant = str(int(time.time() * 1_000) + HOUR_MS)
    for name, text in {
        "__STARTDELIVERTIME": instant,
        "TIMER_DELIVER_MS": instant,
        "TIMER_DELAY_SEC": "90",
        "TIMER_DELAY_MS": "1234567",
    }.items():
        await rust.call("send", topic=single, body=name, properties={name: text})
        [due_ms] = await broker.pending(single)
        assert await arrives_at(broker, rust, single, due_ms) == name


@pytest.mark.feature("Delayed messages are recalled", "rust")
async def test_recall(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    sent = [
        await rust.call("send", topic=topic, body=body, properties={"TIMER_DELAY_SEC": "90"})
        for body in ("unwanted", "wanted")
    ]
    recalled = await rust.call("recall", topic=topic, recall_handle=sent[0]["recall_handle"])
    assert recalled == sent[0]["message_id"]
    await broker.control.advance("90s")
    [message] = await broker.control.receive(topic, group="GID_billing", max_messages=9)
    assert message["body"] == "wanted"


@pytest.mark.feature("Tag filters", "rust")
async def test_tags(rust: Driver, topic: str) -> None:
    for tag in ("a", "b", "c", "d"):
        await rust.call("send", topic=topic, body=tag, tag=tag)
    await rust.call("send", topic=topic, body="none")
    await rust.call("consume", group=topic, topic=topic, tags="a || d")
    assert set(await rust.bodies(topic, 2)) == {"a", "d"}
    await rust.call("send", topic=topic, body="last", tag="d")
    assert await rust.bodies(topic, 1) == ["last"]


@pytest.mark.feature("SQL92 filters", "rust")
async def test_sql(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    for price in ("9", "10", "20", "21"):
        await rust.call("send", topic=topic, body=price, properties={"price": price})
    await broker.control.send(topic, "free")
    await rust.call("consume", group=topic, topic=topic, sql="price BETWEEN 10 AND 20 OR price IS NULL")
    assert set(await rust.bodies(topic, 3)) == {"10", "20", "free"}


@pytest.mark.feature("Push consumer, in order", "rust")
async def test_in_order(broker: RemotingBroker, rust: Driver, single: str) -> None:
    for number in range(5):
        await broker.control.send(single, str(number))
    await rust.call("consume", group=single, topic=single, orderly=True)
    assert await rust.bodies(single, 5) == ["0", "1", "2", "3", "4"]


@pytest.mark.feature("Push consumer, broadcasting", "rust")
async def test_broadcasting(rust: Driver, topic: str) -> None:
    await rust.call("send", topic=topic, body="to all")
    for member in (f"{topic}-1", f"{topic}-2"):
        await rust.call("consume", group=topic, topic=topic, member=member, broadcasting=True)
        assert await rust.bodies(member, 1) == ["to all"]


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


@pytest.mark.feature("Failed messages are retried", "rust")
@pytest.mark.feature("Dead letters after 16 retries", "rust")
async def test_sixteen_retries(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    sent = await rust.call("send", topic=topic, body="again", tag="a", keys=["7"])
    await rust.call("consume", group=topic, topic=topic, failures=99)
    for times, delay_s in enumerate(LEVELS_S[2:]):
        received = await rust.next(topic)
        assert (received.topic, received.body, received.times) == (topic, "again", times)
        assert (received.tag, received.keys, received.message_id) == ("a", "7", sent["message_id"])
        due_ms = (await broker.control.clock())["now_ms"] + delay_s * 1_000
        assert await broker.pending(f"%RETRY%{topic}") == [due_ms]
        await broker.control.move_to(due_ms)
    assert (await rust.next(topic)).times == 16
    await broker.control.wait_delivered(f"%DLQ%{topic}", 1)
    [dead] = (await broker.control.browse(f"%DLQ%{topic}", 0))["messages"]
    assert (dead["body"], dead["tag"], dead["message_id"]) == ("again", "a", sent["message_id"])


@pytest.mark.feature("Offsets survive a restart of the consumer", "rust")
async def test_a_consumer_goes_on_where_it_was(broker: RemotingBroker, rust: Driver, single: str) -> None:
    await goes_on_where_it_was(broker, rust, single)


@pytest.mark.feature("Queues are shared by the members of a group", "rust")
async def test_members_share_the_queues(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=4, write_queues=4)
    members = f"{topic}-1", f"{topic}-2"
    for member in members:
        await rust.call("consume", group=topic, topic=topic, member=member)
    for queue_id in range(4):
        await broker.control.send(topic, str(queue_id), queue_id=queue_id)
    shares = {member: set(await rust.bodies(member, 2)) for member in members}
    assert set().union(*shares.values()) == {"0", "1", "2", "3"}


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


async def test_a_consumer_reports_on_itself(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    """It consumes a given message as well, but its answer has names that no tool knows."""
    sent = await rust.call("send", topic=topic, body="again")
    await rust.call("consume", topic=topic, group=topic)
    await rust.next(topic)
    consumer = await broker.consumer_of(topic)
    info = await broker.control.running_info(consumer, group=topic)
    assert topic in {one["topic"] for one in info["subscriptionSet"]}
    with pytest.raises(BrokerError, match=r"the client's answer of .* cannot be read"):
        await broker.control.consume(consumer, sent["message_id"], group=topic)
    assert (await rust.next(topic)).message_id == sent["message_id"]


@pytest.mark.feature("Namespace", "rust")
@pytest.mark.feature("Access keys are accepted", "rust")
async def test_as_for_aliyun(
    broker: RemotingBroker, rust_client: tuple[str, ...], home: Path, topic: str
) -> None:
    options = {"namespace": "MQ_INST_1", "access_key": "any", "secret": "any"}
    async with running_driver(rust_client, home, name_server=broker.name_server, **options) as driver:
        await driver.call("send", topic=topic, body="inside")
        await driver.call("consume", group=topic, topic=topic)
        assert await driver.bodies(topic, 1) == ["inside"]
    [message] = await broker.control.receive(f"MQ_INST_1%{topic}", group="GID_billing")
    assert message["body"] == "inside"


@pytest.mark.feature("Access keys are checked", "rust")
async def test_keys(rust_client: tuple[str, ...], home: Path, tmp_path: Path, topic: str) -> None:
    async with running_remoting_broker(*written(tmp_path)) as broker:

        def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
            keys = {"access_key": key, "secret": secret}
            return running_driver(rust_client, home, name_server=broker.name_server, **keys)

        await keys_are_checked(broker, start, topic, REFUSED)
        async with running_driver(rust_client, home, name_server=broker.name_server) as client:
            await keys_are_needed(client, topic, REFUSED)


async def test_the_program_of_the_docs(home: Path, tmp_path: Path) -> None:
    async with running_remoting_broker() as broker:
        for name in ("Cargo.toml", "Cargo.lock"):
            (tmp_path / name).write_text((FOLDER / name).read_text())
        source = tmp_path / "src" / "bin" / "orders.rs"
        source.parent.mkdir(parents=True)
        source.write_text(snippet("rust", broker.name_server, broker.url))
        program = build("orders", tmp_path)
        async with running_program(program, home=home) as output, asyncio.timeout(WAIT_S):
            assert len((await output.readline()).strip()) == 32
            [due_ms] = await broker.pending("orders")
            await broker.control.move_to(due_ms)
            assert await output.readline() == b"order 7 was not paid\n"
