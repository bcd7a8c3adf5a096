"""Consumer groups and their offsets with RocketMQ's command line."""

import json
import re
from pathlib import Path

import pytest

from mocketmq import BrokerError
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import RemotingBroker

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

CLUSTER = ("-c", "DefaultCluster")


async def sent(broker: RemotingBroker, topic: str, count: int) -> None:
    """Create a topic with one queue and this many messages."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    for number in range(count):
        await broker.control.send(topic, f"{number}")


async def committed(broker: RemotingBroker, group: str, topic: str) -> int:
    """Return the group's committed offset in the topic's queue."""
    [queue] = [one for one in (await broker.control.group(group))["queues"] if one["topic"] == topic]
    offset: int = queue["committed_offset"]
    return offset


@pytest.mark.mqadmin("updateSubGroup", "getConsumerConfig", "deleteSubGroup")
async def test_a_group_is_created_shown_and_deleted(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    group = f"G-{topic}"
    settings = ("-s", "true", "-m", "false", "-d", "false", "-q", "2", "-r", "5", "-i", "1", "-w", "2")
    printed = await mqadmin("updateSubGroup", "-b", broker.address, "-g", group, *settings, "-a", "false")
    assert f"create subscription group to {broker.address} success" in printed
    made = await broker.control.group(group)
    assert (made["max_retries"], made["retry_queues"]) == (5, 2)
    printed = await mqadmin("getConsumerConfig", "-g", group)
    shown: dict[str, str] = dict(re.findall(r"^(\S+) *=  (.*?) *$", printed, re.MULTILINE))
    wanted = {
        "groupName": group,
        "consumeEnable": "true",
        "consumeFromMinEnable": "false",
        "consumeBroadcastEnable": "false",
        "retryQueueNums": "2",
        "retryMaxTimes": "5",
        "brokerId": "1",
        "whichBrokerWhenConsumeSlowly": "2",
        "notifyConsumerIdsChangedEnable": "false",
    }
    assert wanted.items() <= shown.items()
    assert "delete subscription group" in await mqadmin("deleteSubGroup", *CLUSTER, "-g", group)
    with pytest.raises(BrokerError):
        await broker.control.group(group)


@pytest.mark.mqadmin("deleteSubGroup")
@pytest.mark.parametrize("is_cleaned", [True, False])
async def test_a_deleted_groups_offsets_are_kept_by_default(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, is_cleaned: bool
) -> None:
    await sent(broker, topic, 2)
    await broker.control.acknowledge(topic, await broker.control.receive(topic, group=topic))
    flag = ("-r", str(is_cleaned).lower())
    await mqadmin("deleteSubGroup", "-b", broker.address, "-g", topic, *flag)
    [message] = await broker.control.receive(topic, group=topic)
    assert message["body"] == ("0" if is_cleaned else "1")


@pytest.mark.mqadmin("updateSubGroupList", only="mqadmin-5.5")
@pytest.mark.parametrize("mqadmin", ["mqadmin-5.5"], indirect=True)
async def test_a_list_of_groups_is_created(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, tmp_path: Path
) -> None:
    names = [f"G1-{topic}", f"G2-{topic}"]
    file = tmp_path / "groups.json"
    file.write_text(json.dumps([{"groupName": name, "retryMaxTimes": 7} for name in names]))
    assert "success" in await mqadmin("updateSubGroupList", "-b", broker.address, "-f", str(file))
    assert [(await broker.control.group(name))["max_retries"] for name in names] == [7, 7]


@pytest.mark.mqadmin("resetOffsetByTime", "skipAccumulatedMessage")
async def test_a_groups_offsets_are_reset(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    await sent(broker, topic, 3)
    printed = await mqadmin("skipAccumulatedMessage", "-g", topic, "-t", topic)
    assert printed.split()[-3:] == ["broker-a", "0", "3"]
    assert await committed(broker, topic, topic) == 3
    printed = await mqadmin("resetOffsetByTime", "-g", topic, "-t", topic, "-s", "0")
    assert printed.split()[-3:] == ["broker-a", "0", "0"]
    assert await committed(broker, topic, topic) == 0
    if mqadmin.version == "mqadmin-5.5":
        where = ("-b", broker.address, "-q", "0", "-o", "2")
        await mqadmin("resetOffsetByTime", "-g", topic, "-t", topic, "-s", "0", *where)
        assert await committed(broker, topic, topic) == 2
        with pytest.raises(MqadminError, match="Target offset 9 not in consume queue range"):
            await mqadmin("resetOffsetByTime", "-g", topic, "-t", topic, "-s", "0", *where[:-1], "9")


@pytest.mark.mqadmin("cloneGroupOffset")
async def test_a_group_starts_at_another_groups_offsets(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str
) -> None:
    await sent(broker, topic, 3)
    await mqadmin("skipAccumulatedMessage", "-g", topic, "-t", topic)
    clone = f"clone-{topic}"
    assert "success" in await mqadmin("cloneGroupOffset", "-s", topic, "-d", clone, "-t", topic)
    assert await committed(broker, clone, topic) == 3
