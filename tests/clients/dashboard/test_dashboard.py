"""Uses of the RocketMQ Dashboard through the REST calls of its pages."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from tests.clients.dashboard.conftest import Dashboard, DashboardError
from tests.clients.remoting.conftest import RemotingBroker
from tests.doors.remoting.consuming import HEART_BEAT, beat, consumer, subscription
from tests.support.patience import HANGING_S
from tests.support.remoting import RemotingClient, connected

pytestmark = [pytest.mark.from_source, pytest.mark.asyncio(loop_scope="session")]

EVER = 9_999_999_999_999
COLLECTED_S = HANGING_S
"""Maximum wait in real seconds for the Dashboard's chart data, which it collects once a minute."""
CONSUME_DIRECTLY, RUNNING_INFO = 309, 307
CLUSTER = {"clusterNameList": ["DefaultCluster"], "brokerNameList": ["broker-a"]}


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid4().hex}"


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex}"


async def filled(broker: RemotingBroker, topic: str, group: str) -> list[str]:
    """Send five messages to queue 0, of which the group finishes three, and return their unique keys."""
    sent = [await broker.control.send(topic, f"body {n}", keys=[f"key-{n}"], queue_id=0) for n in range(5)]
    await broker.control.acknowledge(group, await broker.control.receive(topic, group=group, max_messages=3))
    return [one["message_id"] for one in sent]


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until the Dashboard shows data, instead of nothing or a missing file."""
    async with asyncio.timeout(COLLECTED_S):
        while True:
            try:
                if found := await look():
                    return found
            except DashboardError:
                pass
            await asyncio.sleep(1)


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_the_cluster(broker: RemotingBroker, dashboard: Dashboard) -> None:
    shown = await dashboard.get("/cluster/list.query")
    assert shown["clusterInfo"]["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    [status] = shown["brokerServer"]["broker-a"].values()
    assert status["brokerVersionDesc"] == "V5_5_0"
    assert status["scheduleMessageOffset_18"]
    address = shown["clusterInfo"]["brokerAddrTable"]["broker-a"]["brokerAddrs"]["0"]
    assert address == f"{broker.host}:{broker.port}"
    configuration = await dashboard.get("/cluster/brokerConfig.query", brokerAddr=address)
    assert configuration["brokerName"] == "broker-a"


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_a_topic_from_its_creation_to_its_end(dashboard: Dashboard, topic: str) -> None:
    wanted = {
        "topicName": topic,
        **CLUSTER,
        "writeQueueNums": 3,
        "readQueueNums": 3,
        "perm": 6,
        "order": False,
        "messageType": "NORMAL",
    }
    assert await dashboard.post("/topic/createOrUpdate.do", wanted)
    shown = (await dashboard.get("/topic/list.query"))["topicList"]
    assert topic in shown
    assert "%SYS%SCHEDULE_TOPIC_XXXX" in shown
    [configured] = await dashboard.get("/topic/examineTopicConfig.query", topic=topic)
    assert (configured["writeQueueNums"], configured["perm"]) == (3, 6)
    [queues] = (await dashboard.get("/topic/route.query", topic=topic))["queueDatas"]
    assert queues["readQueueNums"] == 3
    message = {"topic": topic, "tag": "t", "key": "k", "messageBody": "hello", "traceEnabled": False}
    sent = await dashboard.post("/topic/sendTopicMessage.do", message)
    assert sent["sendStatus"] == "SEND_OK"
    table = (await dashboard.get("/topic/stats.query", topic=topic))["offsetTable"]
    assert sorted(queue["maxOffset"] for queue in table.values()) == [0, 0, 1]
    assert await dashboard.post("/topic/deleteTopic.do", topic=topic)
    assert topic not in (await dashboard.get("/topic/list.query"))["topicList"]


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_progress_and_moving_it(
    broker: RemotingBroker, dashboard: Dashboard, topic: str, group: str
) -> None:
    await filled(broker, topic, group)
    assert (await dashboard.get("/topic/queryTopicConsumerInfo.query", topic=topic))["groupList"] == [group]
    found = (await dashboard.get("/topic/queryConsumerByTopic.query", topic=topic))[group]
    assert found["diffTotal"] == 2
    address = f"{broker.host}:{broker.port}"
    of_group = {"consumerGroup": group, "address": address}
    [shown] = await dashboard.get("/consumer/queryTopicByConsumer.query", **of_group)
    first = next(queue for queue in shown["queueStatInfoList"] if queue["queueId"] == 0)
    assert (first["brokerOffset"], first["consumerOffset"]) == (5, 3)
    moved = {"consumerGroupList": [group], "topic": topic, "resetTime": 0, "force": True}
    assert (await dashboard.post("/consumer/resetOffset.do", moved))[group]["status"]
    [shown] = await dashboard.get("/consumer/queryTopicByConsumer.query", **of_group)
    assert shown["diffTotal"] == 5
    skipped = {**moved, "resetTime": -1}
    assert (await dashboard.post("/consumer/skipAccumulate.do", skipped))[group]["status"]
    [shown] = await dashboard.get("/consumer/queryTopicByConsumer.query", **of_group)
    assert shown["diffTotal"] == 0


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_messages_are_found(
    broker: RemotingBroker, dashboard: Dashboard, topic: str, group: str
) -> None:
    keys = await filled(broker, topic, group)
    page = {"topic": topic, "begin": 0, "end": EVER, "pageNum": 1, "pageSize": 10, "taskId": ""}
    shown = (await dashboard.post("/message/queryMessagePageByTopic.query", page))["page"]["content"]
    assert {one["messageBody"] for one in shown} == {f"body {n}" for n in range(5)}
    listed = await dashboard.get("/message/queryMessageByTopic.query", topic=topic, begin=0, end=EVER)
    assert {one["msgId"] for one in listed} == set(keys)
    [one] = await dashboard.get("/message/queryMessageByTopicAndKey.query", topic=topic, key="key-1")
    assert one["messageBody"] == "body 1"
    shown = await dashboard.get("/message/viewMessage.query", topic=topic, msgId=keys[2])
    assert shown["messageView"]["messageBody"] == "body 2"
    [track] = shown["messageTrackList"]
    assert track["consumerGroup"] == group
    assert track["trackType"] in ("NOT_ONLINE", "UNKNOWN")  # the group has no members


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_dead_letters(broker: RemotingBroker, dashboard: Dashboard, topic: str, group: str) -> None:
    await filled(broker, topic, group)
    await broker.control.give_back(group, await broker.control.receive(topic, group=group), delay_level=-1)
    page = {
        "consumerGroup": group,
        "topic": f"%DLQ%{group}",
        "begin": 0,
        "end": EVER,
        "pageNum": 1,
        "pageSize": 10,
        "taskId": "",
    }
    shown = await dashboard.post("/dlqMessage/queryDlqMessageByConsumerGroup.query", page)
    assert [one["messageBody"] for one in shown["page"]["content"]] == ["body 3"]


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_a_group_from_its_creation_to_its_end(dashboard: Dashboard, group: str) -> None:
    wanted = {
        **CLUSTER,
        "subscriptionGroupConfig": {"groupName": group, "retryQueueNums": 2, "retryMaxTimes": 5},
    }
    assert await dashboard.post("/consumer/createOrUpdate.do", wanted)
    [shown] = await dashboard.get("/consumer/examineSubscriptionGroupConfig.query", consumerGroup=group)
    assert shown["subscriptionGroupConfig"]["retryMaxTimes"] == 5
    assert await dashboard.get("/consumer/fetchBrokerNameList.query", consumerGroup=group) == ["broker-a"]
    await dashboard.get("/consumer/group.refresh.all")
    assert group in {one["group"] for one in await dashboard.get("/consumer/groupList.query")}
    gone = {"groupName": group, "brokerNameList": ["broker-a"]}
    assert await dashboard.post("/consumer/deleteSubGroup.do", gone)
    await dashboard.get("/consumer/group.refresh.all")
    assert group not in {one["group"] for one in await dashboard.get("/consumer/groupList.query")}


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_connected_clients_are_listed_and_a_message_is_resent(
    broker: RemotingBroker, dashboard: Dashboard, topic: str, group: str
) -> None:
    key, *_ = await filled(broker, topic, group)
    async with connected(broker.host, broker.port) as client:
        members = consumer(subscription(topic, "a || b"), group=group)
        producer = f"producers-of-{group}"
        await client.ok(HEART_BEAT, body=beat(members, client="member", producers=(producer,)), version=479)
        address = f"{broker.host}:{broker.port}"
        shown = await dashboard.get(
            "/consumer/consumerConnection.query", consumerGroup=group, address=address
        )
        [one] = shown["connectionSet"]
        assert (one["clientId"], one["versionDesc"]) == ("member", "V5_3_3")
        assert shown["subscriptionTable"][topic]["subString"] == "a || b"
        shown = await dashboard.get("/producer/producerConnection.query", producerGroup=producer, topic=topic)
        assert [each["clientId"] for each in shown["connectionSet"]] == ["member"]
        answering = asyncio.create_task(answered(client))
        result = await dashboard.post(
            "/message/consumeMessageDirectly.do",
            topic=topic,
            consumerGroup=group,
            msgId=key,
            clientId="member",
        )
        assert (result["consumeResult"], result["remark"]) == ("CR_SUCCESS", "done")
        await answering


async def answered(client: RemotingClient) -> None:
    """Consume messages that the broker pushes, as a client library does."""
    while (push := await client.push()).code != CONSUME_DIRECTLY:
        if push.code == RUNNING_INFO:
            client.send(push.answer(0, {}, b"{}", None))
    result = {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False, "remark": "done"}
    client.send(push.answer(0, {}, json.dumps(result).encode(), None))


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_the_trace_of_a_message(broker: RemotingBroker, dashboard: Dashboard, topic: str) -> None:
    """The Dashboard sends the message with a tracing producer, and its consumer does not trace."""
    await broker.control.put_topic(topic)
    message = {"topic": topic, "tag": "t", "key": "k", "messageBody": "hello", "traceEnabled": True}
    key = (await dashboard.post("/topic/sendTopicMessage.do", message))["msgId"]
    [found] = await broker.control.receive(topic, group="none")
    consumed = ("SubBefore", "1700000000000", "null", "GID_traced", "R1", key, "0", "k")
    after = ("SubAfter", "R1", key, "7", "true", "k", "0", "1700000000007", "GID_traced")
    body = "".join("\x01".join(record) + "\x02" for record in (consumed, after))
    await broker.control.send("RMQ_SYS_TRACE_TOPIC", body, keys=["k", key])

    shown = await eventually(lambda: dashboard.get("/messageTrace/viewMessage.query", topic=topic, msgId=key))
    assert shown["messageView"]["messageBody"] == found["body"] == "hello"
    graph = await eventually(lambda: dashboard.get("/messageTrace/viewMessageTraceGraph.query", msgId=key))
    producer, [consumer_] = graph["producerNode"], graph["subscriptionNodeList"]
    assert (producer["topic"], producer["keys"], producer["traceNode"]["status"]) == (topic, "k", "success")
    assert producer["traceNode"]["storeHost"] == f"{broker.host}:{broker.port}"
    [node] = consumer_["consumeNodeList"]
    assert (consumer_["subscriptionGroup"], node["requestId"], node["costTime"]) == ("GID_traced", "R1", 7)
    kinds = [
        one["traceType"]
        for one in await dashboard.get("/messageTrace/viewMessageTraceDetail.query", msgId=key)
    ]
    assert kinds == ["Pub", "SubBefore", "SubAfter"]


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_charts(broker: RemotingBroker, dashboard: Dashboard, topic: str, group: str) -> None:
    await filled(broker, topic, group)

    def chart(name: str, **query: str) -> Awaitable[Any]:
        today = datetime.now(UTC).astimezone().strftime("%Y-%m-%d")
        return dashboard.get(f"/dashboard/{name}.query", date=today, **query)

    async def whole() -> list[str] | None:
        points = await chart("topic", topicName=topic) or [""]
        point = points[-1].split(",")
        return point if point[2::2] == ["5", "3"] else None  # else recorded too early

    assert set(await eventually(lambda: chart("broker"))) == {"broker-a:0"}
    _, put_per_second, _, got_per_second, _ = await eventually(whole)
    assert float(put_per_second) > float(got_per_second) > 0
    assert f"{topic},3" in await dashboard.get("/dashboard/topicCurrent.query")


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_missing_things_are_reported(dashboard: Dashboard) -> None:
    with pytest.raises(DashboardError, match="No topic route info in name server for the topic: no/where"):
        await dashboard.get("/topic/stats.query", topic="no/where")
