"""Statistics, progress, connections and messages in RocketMQ's command line."""

import json
from pathlib import Path

import pytest

from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import RemotingBroker
from tests.doors.remoting.consuming import HEART_BEAT, beat, consumer, subscription
from tests.support.remoting import connected

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

CLUSTER = ("-c", "DefaultCluster")


@pytest.fixture
def group(topic: str) -> str:
    return f"G-{topic}"


async def filled(broker: RemotingBroker, topic: str, group: str) -> list[str]:
    """Send five messages to queue 0 of two, of which the group finishes three; return their unique keys."""
    await broker.control.put_topic(topic, read_queues=2, write_queues=2)
    sent = [
        await broker.control.send(topic, f"body {n}", keys=[f"key{n}"], tag="t", queue_id=0) for n in range(5)
    ]
    await broker.control.acknowledge(group, await broker.control.receive(topic, group=group, max_messages=3))
    return [one["message_id"] for one in sent]


def rows(printed: str) -> list[list[str]]:
    """Return the words of a table's lines, without the title."""
    return [line.split() for line in printed.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.mqadmin("brokerStatus")
async def test_the_running_statistics(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    async def status() -> dict[str, str]:
        lines = (await mqadmin("brokerStatus", "-b", broker.address)).splitlines()
        return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    before = await status()
    await filled(broker, topic, group)
    await broker.control.send(topic, "later", delay_level=18)
    after = await status()
    assert after["brokerVersionDesc"] == "V5_5_0"
    for name, more in (("msgPutTotalTodayNow", 6), ("msgGetTotalTodayNow", 3), ("commitLogMaxOffset", 6)):
        assert int(after[name]) >= int(before[name]) + more  # other tests may consume at the same time
    delivered, end = map(int, before["scheduleMessageOffset_18"].split(","))
    assert after["scheduleMessageOffset_18"] == f"{delivered},{end + 1}"
    await broker.control.advance("2h")
    assert (await status())["scheduleMessageOffset_18"] == f"{end + 1},{end + 1}"
    assert f"{end + 1},{end + 1}" in await mqadmin("brokerStatus", *CLUSTER)


@pytest.mark.mqadmin("haStatus", only="mqadmin-5.5")
@pytest.mark.parametrize("mqadmin", ["mqadmin-5.5"], indirect=True)
async def test_the_broker_is_a_master_without_slaves(broker: RemotingBroker, mqadmin: Mqadmin) -> None:
    for where in (("-b", broker.address), CLUSTER):
        printed = await mqadmin("haStatus", *where)
        assert f"#MasterAddr\t{broker.address}\n" in printed
        assert "#SlaveNum\t0\n#InSyncSlaveNum\t0\n" in printed


@pytest.mark.mqadmin("clusterList")
async def test_the_cluster(broker: RemotingBroker, mqadmin: Mqadmin) -> None:
    [line] = rows(await mqadmin("clusterList"))
    assert line[:5] == ["DefaultCluster", "broker-a", "0", broker.address, "V5_5_0"]
    [line] = rows(await mqadmin("clusterList", "-m"))
    assert line[:2] == ["DefaultCluster", "broker-a"]


@pytest.mark.mqadmin("statsAll")
async def test_statistics_of_topics_and_groups(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    await broker.control.send(topic, "nobody consumes", queue_id=0)
    [line] = rows(await mqadmin("statsAll", "-t", topic))
    assert (line[0], line[1], line[3:]) == (topic, "0", ["1", "NO_CONSUMER"])
    await filled(broker, topic, group)
    [line] = rows(await mqadmin("statsAll", "-t", topic, "-a"))
    lag, put_per_second, got_per_second, put, got = line[2:]
    assert (line[:2], lag, put, got) == ([topic, group], "3", "6", "3")
    assert float(put_per_second) > 0
    assert float(got_per_second) > 0


@pytest.mark.mqadmin("topicStatus")
async def test_where_queues_end(broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str) -> None:
    await filled(broker, topic, group)
    full, empty = rows(await mqadmin("topicStatus", "-t", topic))[:2]
    assert full[:4] == ["broker-a", "0", "0", "5"]
    assert empty == ["broker-a", "1", "0", "0"]
    with pytest.raises(MqadminError, match="No topic route info in name server for the topic: no/where"):
        await mqadmin("topicStatus", "-t", "no/where")


@pytest.mark.mqadmin("consumerProgress", "brokerConsumeStats")
async def test_how_far_a_group_has_come(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    await filled(broker, topic, group)
    await broker.control.put_topic(f"%RETRY%{group}", read_queues=1, write_queues=1)
    [first, _, *totals] = rows(await mqadmin("consumerProgress", "-g", group))
    assert first[:6] == [topic, "broker-a", "0", "5", "3", "2"]
    assert ["Consume", "Diff", "Total:", "2"] in totals or ["Diff", "Total:", "2"] in totals
    [line] = [line for line in rows(await mqadmin("consumerProgress")) if line[0] == group]
    assert line[-1] == "2"
    every = rows(await mqadmin("brokerConsumeStats", "-b", broker.address))
    [line] = [line for line in every if line[:2] == [topic, group]]
    assert line[2:7] == ["broker-a", "0", "5", "3", "2"]
    in_order = rows(await mqadmin("brokerConsumeStats", "-b", broker.address, "-o", "true"))
    assert [line for line in in_order if topic in line] == []


@pytest.mark.mqadmin("consumerConnection", "producerConnection", "producer")
async def test_connected_clients_are_listed(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str
) -> None:
    with pytest.raises(MqadminError, match=rf"the consumer group\[{group}\] not online"):
        await mqadmin("consumerConnection", "-g", group)
    await broker.control.put_topic(topic)
    async with connected(broker.host, broker.port) as client:
        members = consumer(subscription(topic, "a || b"), group=group)
        await client.ok(HEART_BEAT, body=beat(members, client="member", producers=(group,)), version=317)
        printed = await mqadmin("consumerConnection", "-g", group)
        assert ["member", client.address, "JAVA", "V4_5_2"] in [line.split() for line in printed.splitlines()]
        assert [topic, "a", "||", "b"] in [line.split() for line in printed.splitlines()]
        [line] = rows(await mqadmin("producerConnection", "-g", group, "-t", topic))
        assert line == ["0001", "member", client.address, "JAVA", "V4_5_2"]
        printed = await mqadmin("producer", "-b", broker.address)
        [mine] = [line for line in printed.splitlines() if group in line]
        assert "clientId=member" in mine
        assert f"remoteIP={client.address}" in mine


@pytest.mark.mqadmin("queryMsgById", "queryMsgByKey", "queryMsgByUniqueKey", "queryMsgByOffset")
async def test_messages_are_found(broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str) -> None:
    keys = await filled(broker, topic, group)
    [line] = rows(await mqadmin("queryMsgByKey", "-t", topic, "-k", "key1"))
    assert line[:3] == [keys[1], "0", "1"]  # 5.5 adds the key of its index
    found = {
        "queryMsgByUniqueKey": ("-t", topic, "-i", keys[2]),
        "queryMsgByOffset": ("-t", topic, "-b", "broker-a", "-i", "0", "-o", "2"),
    }
    offset_id = ""
    for command, arguments in found.items():
        lines = (await mqadmin(command, *arguments)).splitlines()
        shown = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        wanted = {"Topic": topic, "Tags": "[t]", "Keys": "[key2]", "Queue ID": "0", "Queue Offset": "2"}
        assert wanted.items() <= shown.items(), command
        offset_id = shown.get("OffsetID", offset_id)
    of_topic = () if mqadmin.version == "mqadmin-4.9" else ("-t", topic)
    printed = await mqadmin("queryMsgById", *of_topic, "-i", offset_id)
    assert f"{topic}" in printed
    assert "[key2]" in printed
    assert group in printed  # not consumed, because the group has no members


@pytest.mark.mqadmin("queryCq")
async def test_entries_of_a_queue(broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str) -> None:
    await filled(broker, topic, group)
    place = ("-t", topic, "-q", "0", "-i", "3", "-c", "5", "-b", broker.address)
    printed = await mqadmin("queryCq", *place, "-g", group)
    assert f"{group}@{topic} is not online!" in printed
    assert "max: 5, min: 0" in printed
    assert printed.count("ConsumeQueueData{") == 2
    assert "tagsCode=116" in printed


@pytest.mark.mqadmin("printMsg", "consumeMessage")
async def test_messages_are_printed(broker: RemotingBroker, mqadmin: Mqadmin, topic: str, group: str) -> None:
    await filled(broker, topic, group)
    printed = await mqadmin("printMsg", "-t", topic, "-d", "true")
    assert [f"BODY: body {n}" in printed for n in range(5)] == [True] * 5
    printed = await mqadmin("consumeMessage", "-t", topic, "-b", "broker-a", "-i", "0", "-o", "3", "-c", "2")
    assert [f"BODY: body {n}" in printed for n in range(5)] == [False, False, False, True, True]


@pytest.mark.mqadmin("sendMessage", "checkMsgSendRT", "sendMsgStatus")
async def test_messages_are_sent(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    [line] = rows(await mqadmin("sendMessage", "-t", topic, "-p", "hello", "-k", "key", "-c", "tag"))
    assert line[:3] == ["broker-a", "0", "SEND_OK"]
    [message] = (await broker.control.browse(topic, 0))["messages"]
    assert (message["body"], message["tag"], message["keys"]) == ("hello", "tag", ["key"])
    printed = await mqadmin("checkMsgSendRT", "-t", topic, "-a", "3", "-s", "10")
    assert [line[:3] for line in rows(printed)[:3]] == [["broker-a", "0", "true"]] * 3
    assert "SEND_OK" in await mqadmin("sendMsgStatus", "-b", "broker-a", "-s", "10", "-c", "2")


@pytest.mark.mqadmin("allocateMQ", "exportMetrics")
async def test_other_facts_of_the_cluster(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, tmp_path: Path
) -> None:
    await broker.control.put_topic(topic, read_queues=2, write_queues=2)
    shares = (await mqadmin.json("allocateMQ", "-t", topic, "-i", "one,two"))["result"]
    assert {name: len(queues) for name, queues in shares.items()} == {"one": 1, "two": 1}
    await mqadmin("exportMetrics", *CLUSTER, "-f", str(tmp_path))
    exported = json.loads((tmp_path / "metrics.json").read_text())
    assert "broker-a" in json.dumps(exported)
