"""Priority messages over remoting, as SendMessageProcessor and PopMessageProcessor of 5.5.0 have them."""

import json

import pytest

from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.topic_config import PLAIN
from tests.doors.remoting import recorded
from tests.doors.remoting.popping import ACK, POP, ack, ack_all, change, messages, pop, pop_of
from tests.doors.remoting.producing import BATCH, V1, V2, batch, pulled, refused, sent
from tests.support.brokers import GROUP, TOPIC, S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

CREATE_TOPIC, CREATE_GROUP = 17, 200
PRIORITY = "_SYS_MSG_PRIORITY_"
INVISIBLE_S = 60


async def create(client: RemotingClient, queues: int = 10, topic: str = TOPIC) -> None:
    """Create the topic, as ``mqadmin updateTopic -a +message.type=PRIORITY`` does."""
    ext = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
    ext |= {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
    await client.ok(CREATE_TOPIC, ext | {"attributes": "+message.type=PRIORITY"})


async def send(remoting: Remoting, *priorities: int) -> None:
    for priority in priorities:
        await sent(remoting.client, str(priority).encode(), properties={PRIORITY: str(priority)})


async def test_the_priority_replaces_the_queue_of_the_request() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client, queues=4)
        for code in (V1, V2):
            for priority, queue in ((0, 0), (2, 2), (3, 3), (9, 3)):
                answer = await sent(remoting.client, b"m", code, {PRIORITY: str(priority)}, queue_id=1)
                assert answer["queueId"] == str(queue)
        assert len(await pulled(remoting.client, queue_id=3)) == 4
        assert await pulled(remoting.client, queue_id=1) == []


async def test_a_pop_gets_the_highest_priority_first() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        await send(remoting, 3, 0, 9, 5, 9)
        answer = await remoting.client.ok(POP, pop_of(maxMsgNums=3))
        found = messages(answer)
        assert [one.body for one in found] == ["9", "9", "5"]
        assert answer.ext["startOffsetInfo"] == "0 9 0;0 5 0"
        assert answer.ext["msgOffsetInfo"] == "0 9 0,1;0 5 0"
        assert answer.ext["restNum"] == "2"
        assert [one.properties[PRIORITY] for one in found] == ["9", "9", "5"]
        assert await ack_all(remoting.client, [one.handle for one in found]) == 0
        assert [one.body for one in await pop(remoting.client)] == ["3", "0"]


async def test_redeliveries_follow_and_keep_handles_that_work() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        await send(remoting, *range(10))
        first = await pop(remoting.client, maxMsgNums=4)
        assert [one.body for one in first] == ["9", "8", "7", "6"]
        await remoting.broker.mover.advance(INVISIBLE_S * S)
        await send(remoting, 9, 8)
        found = await pop(remoting.client)
        assert [(one.body, one.times) for one in found] == [
            *((body, 0) for body in ("9", "8", "5", "4", "3", "2", "1", "0")),
            *((body, 1) for body in ("6", "7", "8", "9")),
        ]
        for one in found[:-2]:
            assert await ack(remoting.client, one.handle) == 0
        assert await change(remoting.client, found[-1].handle, 1_000)
        await remoting.broker.mover.advance(S)
        assert [(one.body, one.times) for one in await pop(remoting.client)] == [("9", 2)]


async def test_the_factor_of_the_group_is_set_by_mqadmin() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        for factor, expected in (("0", "3"), ("100", "9")):
            body = json.dumps({"groupName": GROUP, "attributes": {"+priority.factor": factor}}).encode()
            assert (await remoting.client.ok(CREATE_GROUP, body=body)).remark is None
            await send(remoting, 3, 9)
            assert [one.body for one in await pop(remoting.client, maxMsgNums=1)] == [expected]
            await pop(remoting.client)


async def test_an_ordered_pop_has_no_priorities() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        await send(remoting, 3, 9, 5)
        assert [one.body for one in await pop(remoting.client, order=True)] == ["3", "5", "9"]


async def test_a_pull_gets_the_messages_of_its_queue() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        await send(remoting, 3, 9, 3)
        assert [record.body for record in await pulled(remoting.client, queue_id=3)] == [b"3", b"3"]


async def test_a_retry_sent_by_a_client_keeps_its_priority() -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        await remoting.broker.registry.groups.put(GROUP, 2, 1)
        retry = {PRIORITY: "9", "RETRY_TOPIC": TOPIC, "DELAY": "3"}
        await sent(remoting.client, b"again", properties=retry, topic=f"%RETRY%{GROUP}", reconsume_times=1)
        await remoting.broker.mover.advance(10 * S)
        await send(remoting, 0)
        assert [one.body for one in await pop(remoting.client)] == ["0", "again"]


@pytest.mark.parametrize(
    ("code", "body", "properties", "sentence"),
    [
        (V2, b"m", {PRIORITY: "-1"}, "allowed: a whole number from 0 to 2147483647"),
        (V1, b"m", {PRIORITY: "high"}, "allowed: a whole number from 0 to 2147483647"),
        (V2, b"m", {PRIORITY: "1", "DELAY": "3"}, "none together with the property DELAY"),
        (
            V2,
            b"m",
            {PRIORITY: "1", "TIMER_DELAY_SEC": "5"},
            "none together with the property TIMER_DELAY_SEC",
        ),
        (V2, b"m", {PRIORITY: "1", "__SHARDINGKEY": "k"}, "none together with the property __SHARDINGKEY"),
        (
            V2,
            b"m",
            {PRIORITY: "1", "TRAN_MSG": "true", "PGROUP": "makers"},
            "a transactional message cannot have one",
        ),
        (BATCH, batch((b"one", {}), (b"two", {PRIORITY: "1"})), {}, "the messages of a batch share a queue"),
        (BATCH, batch((b"one", {})), {PRIORITY: "1"}, "the messages of a batch share a queue"),
    ],
)
async def test_a_priority_without_effect_is_refused(
    code: int, body: bytes, properties: dict[str, str], sentence: str
) -> None:
    async with running_remoting() as remoting:
        await create(remoting.client)
        told = await refused(remoting.client, body, code, properties)
        assert told[0] == 13
        assert sentence in told[1]
        queues = remoting.broker.registry.topics.queues
        assert [queue for queue in queues if queue.next_offset] == []


async def test_priorities_survive_topics_of_other_types_by_queue_alone() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.topics.put(TOPIC, 4, 4, PERM_READ | PERM_WRITE, PLAIN)
        await send(remoting, 1, 9)
        assert [one.body for one in await pop(remoting.client, maxMsgNums=1)] == ["1"]
        assert len(await pulled(remoting.client, queue_id=3)) == 1


async def test_recorded_requests_pop_the_highest_priority_first() -> None:
    """What Java's client 5.5.0 sent to a real broker (recorded/README.md)."""
    requests = recorded.read(recorded.PRIORITIES)
    topic, group = next((one.ext["topic"], one.ext["consumerGroup"]) for one in requests if one.code == POP)
    async with running_remoting() as remoting:
        await create(remoting.client, topic=topic)
        await remoting.client.ok(CREATE_GROUP, body=json.dumps({"groupName": group}).encode())
        popped: list[str] = []
        for one in requests:
            answer = await remoting.client.call(one.code, one.ext, one.body, version=one.version)
            if one.code == POP:
                popped += [message.body for message in messages(answer, topic)]
            assert answer.code == 0 or one.code == ACK, (one, answer)  # its handle is the real broker's
        assert popped == ["9", "8", "7", "6", "late", "5", "4", "3", "2", "1", "0"]
