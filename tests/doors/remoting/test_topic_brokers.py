"""Topics that only some brokers of a cluster have, or that have other numbers of queues at each."""

import json
from collections.abc import AsyncIterator, Sequence

import pytest

from mocketmq.broker.registry.topic_config import ABSENT, PLAIN, QueuesAtBroker
from mocketmq.errors import InvalidArgumentError, WrongQueueError
from mocketmq.message.message import Message
from tests.doors.remoting.broker_pairs import PULL, SEND, A, B, Pair, bodies, message_to, running_pair, send
from tests.doors.remoting.popping import POP, pop_of
from tests.doors.remoting.test_admin_topics import ALL, CREATE, CREATE_ALL, ONE, config, wanted
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient, running_remoting

NOT_FOUND, NO_PERMISSION = 17, 16
STATISTICS, TIME_SPANS, ASSIGNMENT = 202, 303, 400
READ, READ_WRITE = 4, 6
APPLY_FIRST = f"topic[{TOPIC}] not exist, apply first please!"


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    """Two brokers without the topic."""
    async with running_pair() as pair:
        yield pair


def at(queues: int, perm: int = READ_WRITE) -> QueuesAtBroker:
    return QueuesAtBroker(queues, queues, perm)


async def create(client: RemotingClient, queues: int, perm: int = READ_WRITE) -> None:
    await client.ok(CREATE, wanted(readQueueNums=queues, writeQueueNums=queues, perm=perm))


async def route(pair: Pair) -> list[tuple[str, int, int, int]]:
    """The topic's route: by broker the number of queues to read and to write, and the permission."""
    found = await pair.remoting.route(TOPIC)
    assert [each["brokerName"] for each in found["brokerDatas"]] == [
        each["brokerName"] for each in found["queueDatas"]
    ]
    return [
        (each["brokerName"], each["readQueueNums"], each["writeQueueNums"], each["perm"])
        for each in found["queueDatas"]
    ]


async def test_a_topic_is_created_at_the_broker_that_is_asked(pair: Pair) -> None:
    await create(pair.b, 3)
    assert await route(pair) == [(B, 3, 3, READ_WRITE)]
    await create(pair.a, 1)
    assert await route(pair) == [(A, 1, 1, READ_WRITE), (B, 3, 3, READ_WRITE)]
    assert (await config(pair.a))["readQueueNums"] == 1
    assert (await config(pair.b))["readQueueNums"] == 3
    for number, (client, queue) in enumerate([(pair.a, 0), (pair.b, 0), (pair.b, 1), (pair.b, 2)]):
        await send(client, str(number), queue)
    assert [await bodies(pair.b, queue) for queue in range(3)] == [["1"], ["2"], ["3"]]
    assert await bodies(pair.a) == ["0"]
    for client, queue in ((pair.a, 1), (pair.b, 3)):
        refused = await client.call(SEND, message_to(queue), b"beyond")
        assert f"request queueId[{queue}] is illegal, {TOPIC} has 0 to {queue - 1}" in (refused.remark or "")


async def test_the_same_at_each_broker_is_the_topic_of_a_cluster(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        await create(client, 3)
    assert await route(pair) == [(A, 3, 3, READ_WRITE), (B, 3, 3, READ_WRITE)]
    topic = pair.broker.registry.topics.get(TOPIC)
    assert not topic.config.at
    assert topic.writable_count == len(topic.readable) == 6


async def test_a_broker_without_the_topic_refuses_as_upstream(pair: Pair) -> None:
    await pair.remoting.broker.registry.used_topics.set_auto_create(is_on=False)
    await create(pair.b, 2)
    pull = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "0",
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subVersion": "0",
    }
    asked: Sequence[tuple[int, dict[str, str]]] = [
        (SEND, message_to(0)),
        (SEND, message_to(-1)),
        (PULL, pull),
        (POP, pop_of(-1)),
        (POP, pop_of(0)),
        (STATISTICS, {"topic": TOPIC}),
        (TIME_SPANS, {"topic": TOPIC, "group": GROUP}),
    ]
    for code, ext in asked:
        refused = await pair.a.call(code, ext, b"x")
        assert (refused.code, (refused.remark or "").startswith(APPLY_FIRST)) == (NOT_FOUND, True), refused
        assert f"{A} does not have it" in (refused.remark or "")
        assert (await pair.b.call(code, ext, b"x")).code != NOT_FOUND
    missing = await pair.a.call(ONE, {"topic": TOPIC})
    assert (missing.code, missing.remark) == (NOT_FOUND, f"No topic in this broker. topic: {TOPIC}")
    tables = [json.loads((await client.ok(ALL)).body)["topicConfigTable"] for client in (pair.a, pair.b)]
    assert [TOPIC in table for table in tables] == [False, True]


async def test_a_send_creates_the_topic_where_it_goes(pair: Pair) -> None:
    await send(pair.b, "first", 1)
    assert await route(pair) == [(B, 2, 2, READ_WRITE)]
    assert await bodies(pair.b, 1) == ["first"]
    await send(pair.a, "second")
    assert await route(pair) == [(A, 2, 2, READ_WRITE), (B, 2, 2, READ_WRITE)]
    assert await bodies(pair.a) == ["second"]


async def test_a_broker_can_be_drained_by_its_permission(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        await create(client, 2)
    await send(pair.a, "old")
    await create(pair.a, 2, perm=READ)
    assert await route(pair) == [(A, 2, 2, READ), (B, 2, 2, READ_WRITE)]
    refused = await pair.a.call(SEND, message_to(0), b"new")
    assert (refused.code, refused.remark) == (
        NO_PERMISSION,
        f"the topic[{TOPIC}] sending message is forbidden",
    )
    assert await bodies(pair.a) == ["old"]
    for _ in range(20):  # other doors go to the broker that takes messages
        sent = await pair.broker.sender.send(Message(TOPIC, b"x", {}))
        assert pair.broker.registry.brokers.name_of(sent.queue) == B
    await create(pair.a, 2, perm=2)
    assert (await pair.a.call(POP, pop_of(0))).code == NO_PERMISSION


async def test_several_topics_are_created_at_one_broker(pair: Pair) -> None:
    body = json.dumps({"topicConfigList": [{"topicName": name} for name in ("one", "two")]}).encode()
    await pair.b.ok(CREATE_ALL, body=body)
    for name in ("one", "two"):
        found = await pair.remoting.route(name)
        assert [each["brokerName"] for each in found["queueDatas"]] == [B]


async def test_a_topic_of_a_broker_stays_so_over_restarts_and_changes(pair: Pair) -> None:
    topics = pair.broker.registry.topics
    await topics.put_at(TOPIC, {1: at(3)})
    await topics.reload()
    assert await route(pair) == [(B, 3, 3, READ_WRITE)]
    await topics.put(TOPIC, 5, 4, READ_WRITE)
    assert await route(pair) == [(B, 5, 4, READ_WRITE)]


async def test_queues_are_numbered_as_in_a_topic_of_all_brokers(pair: Pair) -> None:
    await pair.broker.registry.topics.put_at(TOPIC, {0: at(1), 1: at(3)})
    topic = pair.broker.registry.topics.get(TOPIC)
    assert [queue.queue_id for queue in topic.writable] == [0, 1, 3, 5]
    assert [topic.writable_number(index) for index in range(topic.writable_count)] == [0, 1, 3, 5]
    for number in (0, 1, 3, 5):
        await pair.broker.sender.send(Message(TOPIC, str(number).encode(), {}, number))
    assert [await bodies(pair.b, queue) for queue in range(3)] == [["1"], ["3"], ["5"]]
    for number in (2, 4):
        with pytest.raises(WrongQueueError, match="is illegal"):
            await pair.broker.sender.send(Message(TOPIC, b"x", {}, number))


async def test_a_consumer_is_assigned_the_queues_of_each_broker(pair: Pair) -> None:
    await pair.broker.registry.topics.put_at(TOPIC, {0: at(1), 1: at(3)})
    asked = {"topic": TOPIC, "consumerGroup": GROUP, "clientId": "one", "messageModel": "BROADCASTING"}
    answer = json.loads((await pair.a.ok(ASSIGNMENT, body=json.dumps(asked).encode())).body)
    queues = [one["messageQueue"] for one in answer["messageQueueAssignments"]]
    assert [(queue["brokerName"], queue["queueId"]) for queue in queues] == [(A, 0), (B, 0), (B, 1), (B, 2)]


async def test_retry_topics_are_at_all_brokers(pair: Pair) -> None:
    retries = f"%RETRY%{GROUP}"
    await pair.b.ok(CREATE, wanted(retries, readQueueNums=2, writeQueueNums=2))
    found = await pair.remoting.route(retries)
    assert [(each["brokerName"], each["readQueueNums"]) for each in found["queueDatas"]] == [(A, 2), (B, 2)]


async def test_a_topic_needs_a_broker_and_lite_topics_all(pair: Pair) -> None:
    topics = pair.broker.registry.topics
    with pytest.raises(InvalidArgumentError, match="at least one broker"):
        await topics.put_at(TOPIC, {0: ABSENT, 1: ABSENT})
    for name, kind in ((TOPIC, PLAIN.typed("lite")), (f"%RETRY%{GROUP}", PLAIN)):
        with pytest.raises(
            InvalidArgumentError, match=r"brokers is \['broker-b'\]; allowed: all brokers alike"
        ):
            await topics.put_at(name, {1: at(2)}, kind)
        assert topics.find_topic(name) is None
    await pair.b.ok(CREATE, wanted(attributes="+message.type=LITE"))
    assert [name for name, *_ in await route(pair)] == [A, B]


async def test_priorities_choose_among_the_queues_of_a_broker(pair: Pair) -> None:
    await pair.broker.registry.topics.put_at(TOPIC, {0: at(1), 1: at(3)})
    for client, expected in ((pair.a, "0"), (pair.b, "2")):
        sent = await send(client, "urgent", 0, _SYS_MSG_PRIORITY_="9")
        assert sent["queueId"] == expected


async def test_one_broker_needs_no_note_of_its_queues() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client, 3)
        rows = await remoting.broker.store.database.rows("SELECT config FROM topics WHERE name = ?", (TOPIC,))
        assert rows == [('{"filter_type":"SINGLE_TAG"}',)]
