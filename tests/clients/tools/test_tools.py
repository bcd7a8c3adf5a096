"""What the RocketMQ Dashboard and rocketmq-exporter ask a broker, replayed (recorded/README.md)."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mocketmq import Client
from mocketmq.hosts import with_port
from mocketmq.message.message_id import offset_message_id
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.conftest import unhurried
from tests.doors.remoting.consuming import HEART_BEAT, beat, bodies, consumer, subscription
from tests.doors.remoting.inspection import by_queue
from tests.support.remoting import Remoting, RemotingClient, running_remoting

__all__ = ["unhurried"]

RECORDED = Path(__file__).parent / "recorded"
Requests = list[tuple[int, dict[str, str], str]]
"""Code, ext fields and body of each request."""
PAGES: Mapping[str, Requests] = json.loads((RECORDED / "dashboard.json").read_text())
EXPORTER: Mapping[str, Requests] = json.loads((RECORDED / "exporter.json").read_text())
TOPIC, GROUP = "orders", "billing"
ABSENT = re.compile(
    "not exist|not online|[Nn]o topic route|no consumer|can not find|NO_MESSAGE_IN_QUEUE|NO_MATCHED_MESSAGE"
)
"""Remarks of refusals that say what the broker does not have, as the tools expect."""

Answers = Mapping[int, list[Command]]


class Tool:
    """A tool that asks the broker what was recorded."""

    def __init__(self, remoting: Remoting, control: Client) -> None:
        self.remoting = remoting
        self.control = control
        remoting.client.version = 479  # 5.3.3, which the Dashboard uses

    async def page(self, name: str, topic: str = TOPIC, key: str = "-", offset_id: str = "-") -> Answers:
        """Send the requests of a page. Returns their answers by request code."""
        return await self.replay(PAGES[name], topic=topic, key=key, offset_id=offset_id)

    async def replay(self, requests: Requests, **names: str) -> Answers:
        """Send recorded requests, with this test's names. Returns their answers by request code."""
        now_ms = (await self.control.clock())["now_ms"] + 1
        names = {"topic": TOPIC, "group": GROUP, "now": str(now_ms), **names}
        answers: defaultdict[int, list[Command]] = defaultdict(list)
        for code, ext, body in requests:
            given = {name: _filled(value, names) for name, value in ext.items()}
            answers[code].append(await self.remoting.client.call(code, given, _filled(body, names).encode()))
        return answers

    async def fill(self) -> list[str]:
        """Send five messages to queue 0, of which the group finishes three, and return their unique keys."""
        sent = [await self.control.send(TOPIC, f"body {n}", keys=[f"key-{n}"], queue_id=0) for n in range(5)]
        got = await self.control.receive(TOPIC, group=GROUP, max_messages=3)
        await self.control.acknowledge(GROUP, got)
        return [one["message_id"] for one in sent]


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"<{name.replace('_', ' ')}>", value)
    return text


def data(answers: Answers, code: int) -> Any:
    """Return the body of the last answer to this request, which succeeded."""
    answer = answers[code][-1]
    assert answer.code == ResponseCode.SUCCESS, answer
    return fastjson.loads(answer.body)


def found(answers: Answers, code: int) -> list[str]:
    """Return the bodies of the messages in all answers to this request."""
    return [body for answer in answers[code] if answer.code == 0 for body in bodies(answer)]


@pytest.fixture
async def tool() -> AsyncIterator[Tool]:
    async with running_remoting() as remoting, Client(remoting.emulator.url) as control:
        yield Tool(remoting, control)


async def test_every_request_is_supported(tool: Tool) -> None:
    for requests in (*PAGES.values(), *EXPORTER.values()):
        await tool.fill()
        answers = await tool.replay(requests, key="-", offset_id="7F00000100000000FFFFFFFFFFFFFFFF")
        refused = {answer.remark for each in answers.values() for answer in each if answer.code}
        assert [remark for remark in refused if not ABSENT.search(str(remark))] == []


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_the_cluster(tool: Tool) -> None:
    answers = await tool.page("GET /cluster/list.query")
    cluster = data(answers, RequestCode.GET_BROKER_CLUSTER_INFO)
    address = with_port(tool.remoting.emulator.settings.host, tool.remoting.server.broker_port)
    assert cluster["clusterAddrTable"] == {"DefaultCluster": ["broker-a"]}
    assert cluster["brokerAddrTable"]["broker-a"]["brokerAddrs"] == {"0": address}
    status = data(answers, RequestCode.GET_BROKER_RUNTIME_INFO)["table"]
    assert status["brokerVersionDesc"] == "V5_5_0"
    assert status["scheduleMessageOffset_18"] == "0,0"
    [configured] = (await tool.page("GET /cluster/brokerConfig.query"))[RequestCode.GET_BROKER_CONFIG]
    assert b"brokerName=broker-a\n" in configured.body


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_a_topic_from_its_creation_to_its_end(tool: Tool) -> None:
    async def listed() -> list[str]:
        answers = await tool.page("GET /topic/list.query", topic="made")
        system = data(answers, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)["topicList"]
        assert "SCHEDULE_TOPIC_XXXX" in system
        topics: list[str] = data(answers, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)["topicList"]
        return topics

    await tool.page("POST /topic/createOrUpdate.do", topic="made")
    assert "made" in await listed()
    configured = data(
        await tool.page("GET /topic/examineTopicConfig.query", topic="made"), RequestCode.GET_TOPIC_CONFIG
    )
    assert (configured["writeQueueNums"], configured["perm"]) == (3, 6)
    route = data(await tool.page("GET /topic/route.query", topic="made"), RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert [queues["readQueueNums"] for queues in route["queueDatas"]] == [3]
    sent = await tool.page("POST /topic/sendTopicMessage.do", topic="made")
    assert sent[RequestCode.SEND_MESSAGE_V2][0].code == ResponseCode.SUCCESS
    stats = data(await tool.page("GET /topic/stats.query", topic="made"), RequestCode.GET_TOPIC_STATS_INFO)
    assert sorted(queue["maxOffset"] for queue in stats["offsetTable"].values()) == [0, 0, 1]
    await tool.page("POST /topic/deleteTopic.do", topic="made")
    assert "made" not in await listed()


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_progress_and_moving_it(tool: Tool) -> None:
    async def offsets() -> tuple[int, int]:
        answers = await tool.page("GET /consumer/queryTopicByConsumer.query")
        queues = by_queue(data(answers, RequestCode.GET_CONSUME_STATS)["offsetTable"])
        return queues[TOPIC, 0]["brokerOffset"], queues[TOPIC, 0]["consumerOffset"]

    await tool.fill()
    answers = await tool.page("GET /topic/queryTopicConsumerInfo.query")
    assert data(answers, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)["groupList"] == [GROUP]
    answers = await tool.page("GET /topic/queryConsumerByTopic.query")
    assert (
        by_queue(data(answers, RequestCode.GET_CONSUME_STATS)["offsetTable"])[TOPIC, 0]["brokerOffset"] == 5
    )
    assert await offsets() == (5, 3)
    await tool.page("POST /consumer/resetOffset.do")
    assert await offsets() == (5, 0)
    await tool.page("POST /consumer/skipAccumulate.do")
    assert await offsets() == (5, 5)


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_messages_are_found(tool: Tool) -> None:
    keys = await tool.fill()
    everything = [f"body {n}" for n in range(5)]
    for page in ("POST /message/queryMessagePageByTopic.query", "GET /message/queryMessageByTopic.query"):
        answers = await tool.page(page)
        ends = sorted(answer.ext["offset"] for answer in answers[RequestCode.SEARCH_OFFSET_BY_TIMESTAMP])
        assert ends == ["0"] * 7 + ["5"]
        assert found(answers, RequestCode.PULL_MESSAGE)[:5] == everything
    answers = await tool.page("GET /message/queryMessageByTopicAndKey.query")
    assert found(answers, RequestCode.QUERY_MESSAGE) == ["body 1"]
    answers = await tool.page("GET /message/viewMessage.query", key=keys[2])
    assert found(answers, RequestCode.QUERY_MESSAGE) == ["body 2"]
    assert data(answers, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)["groupList"] == [GROUP]
    [members] = answers[RequestCode.GET_CONSUMER_CONNECTION_LIST]
    assert members.code == ResponseCode.CONSUMER_NOT_ONLINE


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_dead_letters(tool: Tool) -> None:
    await tool.fill()
    await tool.control.give_back(GROUP, await tool.control.receive(TOPIC, group=GROUP), delay_level=-1)
    answers = await tool.page("POST /dlqMessage/queryDlqMessageByConsumerGroup.query")
    assert set(found(answers, RequestCode.PULL_MESSAGE)) == {"body 3"}


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_a_group_from_its_creation_to_its_end(tool: Tool) -> None:
    async def configured() -> dict[str, Any]:
        answers = await tool.page("GET /consumer/examineSubscriptionGroupConfig.query")
        groups: dict[str, Any] = data(answers, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return groups["subscriptionGroupTable"]  # type: ignore[no-any-return]

    await tool.page("POST /consumer/createOrUpdate.do")
    assert (await configured())[GROUP]["retryMaxTimes"] == 5
    await tool.page("POST /consumer/deleteSubGroup.do")
    assert GROUP not in await configured()


@pytest.mark.feature("Pages of groups and clients", "dashboard")
async def test_connected_clients_are_listed_and_a_message_is_resent(tool: Tool) -> None:
    key, *_ = await tool.fill()
    async with tool.remoting.another() as member:
        consumers = consumer(subscription(expression="a || b"))
        await member.ok(
            HEART_BEAT, body=beat(consumers, client="member", producers=(f"producers-of-{GROUP}",))
        )
        answers = await tool.page("GET /consumer/consumerConnection.query")
        shown = data(answers, RequestCode.GET_CONSUMER_CONNECTION_LIST)
        assert [one["clientId"] for one in shown["connectionSet"]] == ["member"]
        assert shown["subscriptionTable"][TOPIC]["subString"] == "a || b"
        answers = await tool.page("GET /producer/producerConnection.query")
        shown = data(answers, RequestCode.GET_PRODUCER_CONNECTION_LIST)
        assert [one["clientId"] for one in shown["connectionSet"]] == ["member"]
        answers = await tool.page("GET /message/viewMessage.query", key=key)
        [record] = decode_records(answers[RequestCode.QUERY_MESSAGE][0].body)
        offset_id = offset_message_id(record.store_host, record.log_offset)
        answering = asyncio.create_task(consume(member))
        answers = await tool.page("POST /message/consumeMessageDirectly.do", key=key, offset_id=offset_id)
        result = data(answers, RequestCode.CONSUME_MESSAGE_DIRECTLY)
        assert (result["consumeResult"], result["remark"]) == ("CR_SUCCESS", "done")
        assert await answering == "body 0"


async def consume(member: RemotingClient) -> str:
    """Consume the message that the broker hands over, as a client library does, and return its body."""
    while (push := await member.push()).code != RequestCode.CONSUME_MESSAGE_DIRECTLY:
        pass
    result = {"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False, "remark": "done"}
    member.send(push.answer(0, {}, json.dumps(result).encode(), None))
    [body] = bodies(push)
    return body


@pytest.mark.feature("Pages of messages, dead letters and traces", "dashboard")
async def test_the_trace_of_a_message(tool: Tool) -> None:
    await tool.control.put_topic(TOPIC)
    key = "FD0000000000000000000000000000022E4530946E09841663B10003"
    answers = await tool.page("POST /topic/sendTopicMessage.do (traced)", key=key)
    assert {answer.code for answer in answers[RequestCode.SEND_MESSAGE_V2]} == {ResponseCode.SUCCESS}
    answers = await tool.page("GET /messageTrace/viewMessage.query", key=key)
    assert found(answers, RequestCode.QUERY_MESSAGE) == ["hello"]
    for page in ("viewMessageTraceGraph", "viewMessageTraceDetail"):
        answers = await tool.page(f"GET /messageTrace/{page}.query", key=key)
        [trace] = found(answers, RequestCode.QUERY_MESSAGE)
        assert trace.split("\x01")[:6:5] == ["Pub", key]


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_figures_of_charts(tool: Tool) -> None:
    await tool.fill()
    answers = await tool.page("in the background")
    put, got, nobody = answers[RequestCode.VIEW_BROKER_STATS_DATA]
    assert [fastjson.loads(each.body)["statsDay"]["sum"] for each in (put, got)] == [5, 3]
    assert nobody.remark == f"The stats <GROUP_GET_NUMS> <{TOPIC}@none> not exist"


@pytest.mark.feature("Pages of the cluster and of topics", "dashboard")
async def test_missing_things_are_reported(tool: Tool) -> None:
    answers = await tool.page("GET /topic/stats.query", topic="no/where")
    [route] = answers[RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert route.code == ResponseCode.TOPIC_NOT_EXIST
    assert str(route.remark).startswith("No topic route info in name server for the topic: no/where")


@pytest.mark.feature("Metrics for Prometheus", "exporter")
async def test_metrics_of_the_exporter(tool: Tool) -> None:
    await tool.fill()
    tool.remoting.client.version = 401  # 4.9.4, which the exporter uses
    answers = await tool.replay(EXPORTER["collection of metrics"])
    [topic] = [
        queues
        for queues in (
            by_queue(fastjson.loads(each.body)["offsetTable"])
            for each in answers[RequestCode.GET_TOPIC_STATS_INFO]
            if each.code == ResponseCode.SUCCESS
        )
        if (TOPIC, 0) in queues
    ]
    assert topic[TOPIC, 0]["maxOffset"] == 5
    group = by_queue(data(answers, RequestCode.GET_CONSUME_STATS)["offsetTable"])[TOPIC, 0]
    assert (group["brokerOffset"], group["consumerOffset"]) == (5, 3)
    assert data(answers, RequestCode.GET_BROKER_RUNTIME_INFO)["table"]["brokerVersionDesc"] == "V5_5_0"
