"""Topics with RocketMQ's command line."""

import json
import re
from pathlib import Path

import pytest

from mocketmq import BrokerError
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import RemotingBroker

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

CLUSTER = ("-c", "DefaultCluster")


@pytest.mark.mqadmin("updateTopic", "topicList", "topicRoute", "topicClusterList")
async def test_a_topic_is_created_listed_and_changed(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    printed = await mqadmin("updateTopic", "-b", broker.address, "-t", topic, "-r", "3", "-w", "2")
    assert "success" in printed
    assert re.search(rf"topicName={topic}, readQueueNums=3, writeQueueNums=2, perm=RW-", printed)
    assert topic in (await mqadmin("topicList")).split()
    [line] = [line for line in (await mqadmin("topicList", "-c")).splitlines() if topic in line]
    assert line.split() == ["DefaultCluster", topic]
    assert (await mqadmin("topicClusterList", "-t", topic)).split() == ["DefaultCluster"]
    await mqadmin("updateTopic", *CLUSTER, "-t", topic, "-r", "5", "-w", "4", "-p", "4", "-u", "true")
    [queues] = (await mqadmin.json("topicRoute", "-t", topic))["queueDatas"]
    assert queues == {
        "brokerName": "broker-a",
        "perm": 4,
        "readQueueNums": 5,
        "topicSysFlag": 1,
        "writeQueueNums": 4,
    }


@pytest.mark.parametrize("by", ["admin", "producer"])
async def test_a_topic_is_created_at_the_brokers_of_a_cluster(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, by: str
) -> None:
    route = await mqadmin.call("route", topic="DefaultCluster")
    assert [queues["readQueueNums"] for queues in route["queueDatas"]] == [16]
    await mqadmin.call("create_topic", by=by, key="DefaultCluster", topic=topic, queues=8)
    made = await broker.control.topic(topic)
    assert (made["read_queues"], made["write_queues"], made["perm"]) == (8, 8, "rw")


@pytest.mark.mqadmin("updateTopicPerm")
async def test_a_topics_permission_is_changed(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    await broker.control.put_topic(topic)
    for where, perm, letters in ((CLUSTER, "4", "r"), (("-b", broker.address), "2", "w")):
        assert "success" in await mqadmin("updateTopicPerm", *where, "-t", topic, "-p", perm)
        assert (await broker.control.topic(topic))["perm"] == letters


@pytest.mark.mqadmin("deleteTopic")
async def test_a_topic_is_deleted_with_its_messages(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    await broker.control.send(topic, "visible")
    await broker.control.send(topic, "delayed", delay_level=3)
    printed = await mqadmin("deleteTopic", *CLUSTER, "-t", topic)
    assert f"delete topic [{topic}] from cluster [DefaultCluster] success" in printed
    assert f"delete topic [{topic}] from NameServer success" in printed
    with pytest.raises(BrokerError):
        await broker.control.topic(topic)
    with pytest.raises(MqadminError, match="No topic route info in name server"):
        await mqadmin("topicRoute", "-t", topic)
    await broker.control.advance("1m")
    assert topic not in (await mqadmin("topicList")).split()


@pytest.mark.mqadmin("updateOrderConf")
async def test_routes_list_ordered_queues_when_enabled(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    await broker.control.put_topic(topic)
    with pytest.raises(MqadminError, match="No config item, Namespace: ORDER_TOPIC_CONFIG"):
        await mqadmin("updateOrderConf", "-t", topic, "-m", "get")
    assert "success" in await mqadmin("updateOrderConf", "-t", topic, "-m", "put", "-v", "broker-a:2")
    assert "broker-a:2" in await mqadmin("updateOrderConf", "-t", topic, "-m", "get")
    assert "orderTopicConf" not in await mqadmin.json("topicRoute", "-t", topic)
    await mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert (await mqadmin.json("topicRoute", "-t", topic))["orderTopicConf"] == "broker-a:2"
    await mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false")
    assert "success" in await mqadmin("updateOrderConf", "-t", topic, "-m", "delete")
    with pytest.raises(MqadminError, match="No config item"):
        await mqadmin("updateOrderConf", "-t", topic, "-m", "get")


@pytest.mark.mqadmin("updateTopic")
async def test_a_topic_for_messages_in_order_is_noted_with_its_queues(mqadmin: Mqadmin, topic: str) -> None:
    assert "success" in await mqadmin("updateTopic", *CLUSTER, "-t", topic, "-w", "2", "-o", "true")
    assert "broker-a:2" in await mqadmin("updateOrderConf", "-t", topic, "-m", "get")


@pytest.mark.mqadmin("updateTopic")
@pytest.mark.parametrize(
    ("name", "arguments", "refusal"),
    [
        ("TBW102", (), r"CODE: 29 .*The topic\[TBW102\] is conflict with system topic\."),
        ("rmq_sys_x", (), "conflict with system topic"),
        ("ok", ("-r", "0"), "read_queues is 0; allowed: 1 to 1024"),
    ],
)
async def test_invalid_topics_are_refused(
    mqadmin: Mqadmin, name: str, arguments: tuple[str, ...], refusal: str
) -> None:
    with pytest.raises(MqadminError, match=refusal):
        await mqadmin("updateTopic", *CLUSTER, "-t", name, *arguments)


@pytest.mark.mqadmin("updateTopic", "updateTopicList", only="mqadmin-5.5")
@pytest.mark.parametrize("mqadmin", ["mqadmin-5.5"], indirect=True)
async def test_attributes_are_kept_and_a_list_of_topics_is_created(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, tmp_path: Path
) -> None:
    await mqadmin("updateTopic", *CLUSTER, "-t", topic, "-a", "+message.type=FIFO")
    with pytest.raises(MqadminError, match=r"unsupported key: colour"):
        await mqadmin("updateTopic", *CLUSTER, "-t", topic, "-a", "+colour=red")
    with pytest.raises(MqadminError, match=r"MIXED message type is not supported"):
        await mqadmin("updateTopic", *CLUSTER, "-t", topic, "-a", "+message.type=MIXED")
    names = [f"{topic}-1", f"{topic}-2"]
    file = tmp_path / "topics.json"
    file.write_text(json.dumps([{"topicName": name, "readQueueNums": 1, "perm": 6} for name in names]))
    assert "success" in await mqadmin("updateTopicList", "-b", broker.address, "-f", str(file))
    assert [(await broker.control.topic(name))["read_queues"] for name in names] == [1, 1]
    await mqadmin("exportMetadata", *CLUSTER, "-t", "-f", str(tmp_path))
    exported = json.loads((tmp_path / "topic.json").read_text())
    config = exported["topicConfigTable"][topic]
    assert (config["attributes"], config["order"]) == ({"message.type": "FIFO"}, False)


@pytest.mark.mqadmin("allocateMQ")
async def test_queues_are_divided_among_addresses(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    await broker.control.put_topic(topic, read_queues=3)
    shares = (await mqadmin.json("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2"))["result"]
    assert {address: len(queues) for address, queues in shares.items()} == {"10.0.0.1": 2, "10.0.0.2": 1}
    assert sorted(queue["queueId"] for queues in shares.values() for queue in queues) == [0, 1, 2]


@pytest.mark.mqadmin("sendMessage", "consumeMessage")
async def test_a_message_is_sent_and_read_from_its_queue(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    await broker.control.put_topic(topic)
    printed = await mqadmin(
        "sendMessage", "-t", topic, "-p", "by hand", "-b", "broker-a", "-i", "2", "-c", "red"
    )
    assert "SEND_OK" in printed
    read = await mqadmin("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "2", "-o", "0", "-c", "1")
    assert "by hand" in read


@pytest.mark.mqadmin("cleanUnusedTopic", "cleanExpiredCQ", "deleteExpiredCommitLog")
async def test_cleaning_loses_nothing(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    await broker.control.send(topic, "stays")
    for command in ("cleanUnusedTopic", "cleanExpiredCQ", "deleteExpiredCommitLog"):
        assert (await mqadmin(command, "-b", broker.address)).strip() == "success"
    assert [message["body"] for message in await broker.control.receive(topic, group="g")] == ["stays"]
