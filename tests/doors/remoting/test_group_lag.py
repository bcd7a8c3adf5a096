"""Tools ask for the progress of groups: 202, 208, 300, 303, 308, 317, 321, 343 and 345."""

from typing import Any

import pytest

from mocketmq.broker.consuming.pull import Pulled
from mocketmq.message.properties import java_hash
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.rocketmq_versions import V4_9_8, V5_0_0
from tests.doors.remoting.consuming import RETRY, commit, join, pull
from tests.doors.remoting.inspection import (
    ALL_CONSUME_STATS,
    CONSUME_QUEUE,
    CONSUME_STATS,
    CORRECTIONS,
    GROUPS_OF,
    SUBSCRIPTION_OF,
    TIME_SPANS,
    TOPIC_STATS,
    TOPICS_OF,
    by_queue,
    look,
)
from tests.doors.remoting.producing import stepped
from tests.support.brokers import GROUP, TOPIC, acknowledge, receive, send
from tests.support.remoting import Remoting, running_remoting

EMPTY = {"brokerOffset": 0, "consumerOffset": 0, "lastTimestamp": 0, "pullOffset": 0}
LONG_MAX = (1 << 63) - 1


async def progress(remoting: Remoting, topic: str = "", group: str = GROUP) -> dict[tuple[str, int], Any]:
    found = await look(remoting.client, CONSUME_STATS, consumerGroup=group, topic=topic)
    return by_queue(found["offsetTable"])


async def test_a_topic_shows_the_ends_of_its_queues() -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting, 5)
        found = await look(remoting.client, TOPIC_STATS, topic=TOPIC)
        table = by_queue(found["offsetTable"])
        assert table.pop((TOPIC, 0)) == {"lastUpdateTimestamp": times[-1], "maxOffset": 5, "minOffset": 0}
        assert set(table) == {(TOPIC, queue_id) for queue_id in (1, 2, 3)}
        assert all(not any(each.values()) for each in table.values())
        assert found["topicPutTps"] > 0


async def test_missing_topic_is_reported() -> None:
    async with running_remoting() as remoting:
        for code in (TOPIC_STATS, TIME_SPANS):
            answer = await remoting.client.call(code, {"topic": "nowhere", "group": GROUP})
            assert (answer.code, "topic[nowhere] not exist" in str(answer.remark)) == (17, True)
        answer = await remoting.client.call(
            CONSUME_QUEUE, {"topic": "nowhere", "queueId": "3", "index": "0", "count": "1"}
        )
        assert (answer.code, answer.remark) == (1, "3@nowhere is not exist!")
        assert await progress(remoting, "nowhere") == await progress(remoting) == {}
        assert await look(remoting.client, GROUPS_OF, topic="nowhere") == {"groupList": []}


async def test_lag_of_a_pulling_group() -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting, 5)
        await commit(remoting.client, 2)
        await pull(remoting.client, 4)
        table = await progress(remoting)
        assert table.pop((TOPIC, 0)) == {
            "brokerOffset": 5,
            "consumerOffset": 2,
            "lastTimestamp": times[1],
            "pullOffset": 4,
        }
        assert list(table.values()) == [EMPTY] * 3
        assert await progress(remoting, TOPIC) == await progress(remoting)
        everything = await look(remoting.client, ALL_CONSUME_STATS, isOrder="false")
        assert (everything["totalDiff"], everything["totalInflightDiff"]) == (3, 2)
        [one] = everything["consumeStatsList"]
        assert by_queue(one[GROUP][0]["offsetTable"]) == await progress(remoting)
        in_order = await look(remoting.client, ALL_CONSUME_STATS, isOrder="true")
        assert (in_order["totalDiff"], in_order["consumeStatsList"]) == (0, [{GROUP: []}])


async def test_messages_received_by_a_group_are_in_flight() -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 5)
        first, *_ = await receive(remoting.broker, 3)
        await acknowledge(remoting.broker, [first])
        mine = (await progress(remoting))[TOPIC, 0]
        assert (mine["brokerOffset"], mine["consumerOffset"], mine["pullOffset"]) == (5, 1, 3)
        found = await look(remoting.client, CONSUME_STATS, consumerGroup=GROUP)
        assert found["consumeTps"] > 0


async def test_pull_beyond_the_end_counts_none_in_flight() -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 1)
        await commit(remoting.client, 1)
        await pull(remoting.client, 70)
        assert (await progress(remoting))[TOPIC, 0]["pullOffset"] == 1


async def test_topics_without_subscribed_members_are_left_out() -> None:
    async with running_remoting() as remoting:
        for topic in ("old", TOPIC):
            await send(remoting.broker, topic=topic, queue=0)
            await commit(remoting.client, 1, topic=topic)
        assert {topic for topic, _ in await progress(remoting)} == {"old", TOPIC}
        await join(remoting.client)
        assert {topic for topic, _ in await progress(remoting)} == {TOPIC}
        assert await look(remoting.client, TOPICS_OF, group=GROUP) == {
            "brokerAddr": f"127.0.0.1:{remoting.server.broker_port}",
            "topicList": ["old", TOPIC],
        }


@pytest.mark.parametrize(("server_version", "shown"), [(V4_9_8, {TOPIC}), (V5_0_0, {"own", TOPIC})])
async def test_a_filter_in_a_pull_counts_as_a_subscription_in_version_5(
    server_version: int, shown: set[str]
) -> None:
    async with running_remoting(server_version=server_version) as remoting:
        for topic in ("own", TOPIC):
            await send(remoting.broker, topic=topic, queue=0)
            await commit(remoting.client, 1, topic=topic)
        await join(remoting.client)
        assert {topic for topic, _ in await progress(remoting)} == {TOPIC}
        await pull(remoting.client, 0, topic="own")
        assert {topic for topic, _ in await progress(remoting)} == shown
        await remoting.client.ok(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
        assert {topic for topic, _ in await progress(remoting)} == shown  # the offsets are kept
        await commit(remoting.client, 1)  # creates the group again
        assert {topic for topic, _ in await progress(remoting)} == shown
        await remoting.client.ok(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "own"})
        await send(remoting.broker, topic="own", queue=0)
        assert not await progress(remoting, "own")


async def test_groups_of_a_topic_have_members_or_offsets() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, queue=0)
        await commit(remoting.client, 1, group="gone")
        await join(remoting.client)
        assert await look(remoting.client, GROUPS_OF, topic=TOPIC) == {"groupList": [GROUP, "gone"]}
        assert await look(remoting.client, GROUPS_OF, topic=RETRY) == {"groupList": []}


async def test_subscription_of_a_group_is_reported() -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        found = await look(remoting.client, SUBSCRIPTION_OF, group=GROUP, topic=TOPIC)
        assert found["subscriptionData"]["subString"] == "*"
        assert found["subscriptionData"]["subVersion"] == 1
        assert await look(remoting.client, SUBSCRIPTION_OF, group=GROUP, topic="other") == {
            "group": GROUP,
            "topic": "other",
        }


async def test_consume_time_of_each_queue_is_reported() -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting, 5)
        await commit(remoting.client, 3)
        spans = (await look(remoting.client, TIME_SPANS, topic=TOPIC, group=GROUP))["consumeTimeSpanSet"]
        mine, *others = spans
        assert mine == {
            "consumeTimeStamp": times[2],
            "delayTime": 2_000,  # since the fourth of five messages, a second apart
            "maxTimeStamp": times[4],
            "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": TOPIC},
            "minTimeStamp": times[0],
        }
        assert [each["delayTime"] for each in others] == [0, 0, 0]
        fresh = (await look(remoting.client, TIME_SPANS, topic=TOPIC, group="fresh"))["consumeTimeSpanSet"]
        assert (fresh[0]["consumeTimeStamp"], fresh[0]["delayTime"]) == (times[0], 5_000)


@pytest.mark.parametrize(
    ("others", "compared", "found"),
    [("", "nobody", 2), ("slow", "nobody", 4), ("", "slow", 2), ("slow,none", "slow", LONG_MAX)],
)
async def test_offset_of_the_slowest_group_is_reported(others: str, compared: str, found: int) -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 5)
        for group, offset in (("slow", 2), ("fast", 4)):
            await commit(remoting.client, offset, group=group)
        body = await look(
            remoting.client, CORRECTIONS, topic=TOPIC, compareGroup=compared, filterGroups=others
        )
        assert body == {"correctionOffsets": {"0": found}}


async def test_entries_of_a_queue_are_listed() -> None:
    async with running_remoting() as remoting:
        for n in range(3):
            await send(remoting.broker, str(n), queue=0, tag="t")
        ext = {"topic": TOPIC, "queueId": 0, "index": 1, "consumerGroup": GROUP}
        found = await look(remoting.client, CONSUME_QUEUE, **ext, count=1)
        assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
        assert found["filterData"] == f"{GROUP}@{TOPIC} is not online!"
        [entry] = found["queueData"]
        record = await remoting.client.ok(33, {"offset": "1"})
        assert entry["physicSize"] == len(record.body)
        assert (entry["physicOffset"], entry["tagsCode"]) == (1, java_hash("t"))
        await join(remoting.client)
        found = await look(remoting.client, CONSUME_QUEUE, **ext, count=100)
        assert len(found["queueData"]) == 2
        assert found["subscriptionData"]["topic"] == TOPIC
        beyond = await remoting.client.ok(
            CONSUME_QUEUE, {"topic": TOPIC, "queueId": "0", "index": "3", "count": "1"}
        )
        assert beyond.remark == f"Index 3 of 0@{TOPIC} is not exist!"


@pytest.mark.interpreted
async def test_entries_of_large_messages_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        for _ in range(12):
            await send(remoting.broker, "x" * 200_000, queue=0)
        reader, sizes = remoting.broker.pull, list[int]()
        browse = reader.browse

        async def browse_and_count(*args: Any, **more: Any) -> Pulled:
            found = await browse(*args, **more)
            sizes.append(sum(len(message.body) for message in found.messages))
            return found

        monkeypatch.setattr(reader, "browse", browse_and_count)
        found = await look(remoting.client, CONSUME_QUEUE, topic=TOPIC, queueId=0, index=1, count=10)
        assert [entry["physicOffset"] for entry in found["queueData"]] == [*range(1, 11)]
        assert max(sizes) <= 256 << 10


async def test_an_entry_of_a_level_queue_tells_when_it_is_due() -> None:
    async with running_remoting() as remoting:
        due_ms = remoting.broker.clock.now_us() // 1_000 + 10_000
        await send(remoting.broker, level=3)
        found = await look(
            remoting.client, CONSUME_QUEUE, topic="SCHEDULE_TOPIC_XXXX", queueId=2, index=0, count=1
        )
        assert [entry["tagsCode"] for entry in found["queueData"]] == [due_ms]


async def test_offsets_survive_retention() -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 5)
        await commit(remoting.client, 2)
        [queue, *_] = remoting.broker.registry.topics.get(TOPIC).queues
        queue.min_offset = 4  # as after retention
        mine = (await progress(remoting))[TOPIC, 0]
        assert (mine["consumerOffset"], mine["lastTimestamp"]) == (2, 0)
