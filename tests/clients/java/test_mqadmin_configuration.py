"""Changes of name server and broker settings with RocketMQ's command line."""

import json
import re
from pathlib import Path

import pytest

from mocketmq import BrokerError
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import RemotingBroker

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

CLUSTER = ("-c", "DefaultCluster")


def table(printed: str) -> dict[str, str]:
    """Return the lines ``name  =  value`` by name."""
    return dict(re.findall(r"^(\S+) +=  (.*?) *$", printed, re.MULTILINE))


@pytest.mark.mqadmin("updateKvConfig", "deleteKvConfig")
async def test_a_value_is_put_and_deleted(mqadmin: Mqadmin) -> None:
    assert "success" in await mqadmin("updateKvConfig", "-s", "colours", "-k", "sky", "-v", "blue")
    assert "success" in await mqadmin("deleteKvConfig", "-s", "colours", "-k", "sky")


@pytest.mark.mqadmin("wipeWritePerm", "addWritePerm")
async def test_routes_show_read_only_topics(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    await broker.control.put_topic(topic)
    count = len(await broker.control.topics())
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        assert f"OK, {count}" in await mqadmin(command, "-b", "broker-a")
        [queues] = (await mqadmin.json("topicRoute", "-t", topic))["queueDatas"]
        assert queues["perm"] == perm
    assert "OK, 0" in await mqadmin("wipeWritePerm", "-b", "another")
    assert (await mqadmin.json("topicRoute", "-t", topic))["queueDatas"][0]["perm"] == 6


@pytest.mark.mqadmin("getNamesrvConfig", "updateNamesrvConfig")
async def test_the_name_servers_settings(broker: RemotingBroker, mqadmin: Mqadmin) -> None:
    assert broker.name_server in await mqadmin("getNamesrvConfig")
    for value in ("true", "false"):
        await mqadmin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", value)
        assert table(await mqadmin("getNamesrvConfig"))["orderMessageEnable"] == value
    with pytest.raises(MqadminError, match=r"clusterTest.* cannot be changed while mocketmq runs"):
        await mqadmin("updateNamesrvConfig", "-k", "clusterTest", "-v", "true")


@pytest.mark.mqadmin("getBrokerConfig", "updateBrokerConfig")
async def test_the_brokers_settings(broker: RemotingBroker, mqadmin: Mqadmin, topic: str) -> None:
    where = ("-b", broker.address)
    wanted = {
        "brokerName": "broker-a",
        "brokerClusterName": "DefaultCluster",
        "brokerIP1": broker.host,
        "listenPort": str(broker.port),
        "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "autoCreateTopicEnable": "true",
        "defaultTopicQueueNums": "4",
    }
    assert wanted.items() <= table(await mqadmin("getBrokerConfig", *where)).items()
    assert "success" in await mqadmin(
        "updateBrokerConfig", *where, "-k", "autoCreateTopicEnable", "-v", "false"
    )
    assert table(await mqadmin("getBrokerConfig", *CLUSTER))["autoCreateTopicEnable"] == "false"
    with pytest.raises(BrokerError, match="not exist"):
        await broker.control.send(topic, "nowhere")
    await mqadmin("updateBrokerConfig", *CLUSTER, "-k", "autoCreateTopicEnable", "-v", "true")
    await broker.control.send(topic, "there")


@pytest.mark.mqadmin("updateBrokerConfig")
@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [
        (
            "messageDelayLevel",
            "1s 2s",
            "CODE: 16 .*messageDelayLevel.* cannot be changed while mocketmq runs",
        ),
        ("noSuchThing", "1", "noSuchThing.* cannot be changed"),
        ("autoCreateTopicEnable", "yes", "autoCreateTopicEnable is 'yes'; allowed: true or false"),
        ("defaultTopicQueueNums", "0", "allowed: 1 to 1024"),
    ],
)
async def test_unchangeable_settings_are_refused(
    broker: RemotingBroker, mqadmin: Mqadmin, name: str, value: str, refusal: str
) -> None:
    with pytest.raises(MqadminError, match=refusal):
        await mqadmin("updateBrokerConfig", "-b", broker.address, "-k", name, "-v", value)


@pytest.mark.mqadmin("exportMetadata", "exportConfigs")
async def test_metadata_and_settings_are_exported(
    broker: RemotingBroker, mqadmin: Mqadmin, topic: str, tmp_path: Path
) -> None:
    await broker.control.put_topic(topic, read_queues=3)
    await broker.control.put_group(topic, max_retries=7)
    assert "success" in await mqadmin("exportMetadata", *CLUSTER, "-f", str(tmp_path))
    exported = json.loads((tmp_path / "metadata.json").read_text())
    assert exported["topicConfigTable"][topic]["readQueueNums"] == 3
    assert exported["subscriptionGroupTable"][topic]["retryMaxTimes"] == 7
    assert "success" in await mqadmin("exportConfigs", *CLUSTER, "-f", str(tmp_path))
    configs = json.loads((tmp_path / "configs.json").read_text())
    assert configs["clusterScale"]["namesrvSize"] == 1
