"""Two brokers with a slave each, as an operator sees and changes them with RocketMQ's command line."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from tests.clients.java.conftest import running_mqadmin
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

A, B = "broker-a", "broker-b"
QUEUES = 2
IN_CLUSTER = ("-c", "DefaultCluster")


class Cluster(NamedTuple):
    """The cluster, with the addresses of brokers and slaves by name and id."""

    broker: RemotingBroker
    addresses: dict[tuple[str, str], str]

    def at(self, name: str) -> tuple[str, str]:
        """Return the option of a command for one broker."""
        return "-b", self.addresses[name, "0"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster() -> AsyncIterator[Cluster]:
    options = ("--brokers", "2", "--slaves", "1", "--topic-queues", str(QUEUES))
    async with running_remoting_broker(*options) as broker:
        addresses = {}
        for name, doors in (await broker.control.info())["doors"]["brokers"].items():
            addresses[name, "0"] = doors["broker"]["address"]
            addresses[name, "1"] = doors["slave"]["address"]
        yield Cluster(broker, addresses)


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["mqadmin-4.9", "mqadmin-5.5"])
async def mqadmin(
    request: pytest.FixtureRequest,
    cluster: Cluster,
    built: None,  # noqa: ARG001
    home: Path,
) -> AsyncIterator[Mqadmin]:
    async with running_mqadmin(request.param, cluster.broker.name_server, home) as mqadmin:
        yield mqadmin


def rows(printed: str) -> list[list[str]]:
    """Return the words of the lines that name a broker."""
    return [line.split() for line in printed.splitlines() if "broker-" in line]


async def queues(mqadmin: Mqadmin, topic: str) -> list[tuple[str, int, int, int]]:
    """Return the topic's route: by broker the number of queues to read and to write, and the permission."""
    route = await mqadmin.json("topicRoute", "-t", topic)
    return [
        (each["brokerName"], each["readQueueNums"], each["writeQueueNums"], each["perm"])
        for each in route["queueDatas"]
    ]


async def test_the_cluster_has_brokers_and_slaves(cluster: Cluster, mqadmin: Mqadmin) -> None:
    listed = {(row[1], row[2]): row[3] for row in rows(await mqadmin("clusterList"))}
    assert listed == cluster.addresses
    for address in listed.values():
        assert "brokerVersionDesc" in await mqadmin("brokerStatus", "-b", address)
    everyone = await mqadmin("brokerStatus", *IN_CLUSTER)
    versions = [line for line in everyone.splitlines() if "brokerVersionDesc" in line]
    masters = {cluster.addresses[name, "0"] for name in (A, B)}
    assert masters <= {line.split()[0] for line in versions}


async def test_a_topic_is_created_and_changed_at_one_broker_or_at_all(
    cluster: Cluster, mqadmin: Mqadmin, topic: str
) -> None:
    printed = await mqadmin("updateTopic", *cluster.at(B), "-t", topic, "-r", "3", "-w", "3")
    assert f"create topic to {cluster.addresses[B, '0']} success" in printed
    assert await queues(mqadmin, topic) == [(B, 3, 3, 6)]
    await mqadmin("updateTopic", *cluster.at(A), "-t", topic, "-r", "1", "-w", "1")
    assert await queues(mqadmin, topic) == [(A, 1, 1, 6), (B, 3, 3, 6)]
    assert (await mqadmin("topicClusterList", "-t", topic)).split() == ["DefaultCluster"]
    await mqadmin("updateTopicPerm", *cluster.at(A), "-t", topic, "-p", "4")
    assert await queues(mqadmin, topic) == [(A, 1, 1, 4), (B, 3, 3, 6)]
    printed = await mqadmin("updateTopic", *IN_CLUSTER, "-t", topic, "-r", "4", "-w", "4")
    assert all(f"create topic to {cluster.addresses[name, '0']} success" in printed for name in (A, B))
    assert await queues(mqadmin, topic) == [(A, 4, 4, 6), (B, 4, 4, 6)]
    await mqadmin("deleteTopic", *IN_CLUSTER, "-t", topic)
    with pytest.raises(MqadminError, match="No topic route info in name server"):
        await mqadmin("topicRoute", "-t", topic)


async def test_queues_and_progress_are_shown_by_broker(
    cluster: Cluster, mqadmin: Mqadmin, topic: str
) -> None:
    control, group = cluster.broker.control, f"G-{topic}"
    await control.create_topic(topic, queues=1)
    for number in range(5):
        await control.send(topic, f"{number}", queue_id=number % 2)  # three to broker-a
    assert [row[:4] for row in rows(await mqadmin("topicStatus", "-t", topic))] == [
        [A, "0", "0", "3"],
        [B, "0", "0", "2"],
    ]
    await control.acknowledge(group, await control.receive(topic, group=group, max_messages=8))
    await control.send(topic, "behind", queue_id=1)
    progress = [row[:6] for row in rows(await mqadmin("consumerProgress", "-g", group)) if row[0] == topic]
    assert progress == [[topic, A, "0", "3", "3", "0"], [topic, B, "0", "3", "2", "1"]]
    printed = await mqadmin("queryMsgByOffset", "-t", topic, "-b", B, "-i", "0", "-o", "2")
    assert f"Store Host:          {cluster.addresses[B, '0']}" in printed
    await mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    progress = [row[:6] for row in rows(await mqadmin("consumerProgress", "-g", group)) if row[0] == topic]
    assert progress == [[topic, A, "0", "3", "0", "3"], [topic, B, "0", "3", "0", "3"]]


async def test_one_broker_takes_no_messages_for_a_while(
    cluster: Cluster, mqadmin: Mqadmin, topic: str
) -> None:
    await cluster.broker.control.create_topic(topic, queues=1)
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        await mqadmin(command, "-b", B)
        assert await queues(mqadmin, topic) == [(A, 1, 1, 6), (B, 1, 1, perm)]


async def test_a_broker_that_crashed_leaves_its_slave(cluster: Cluster, mqadmin: Mqadmin, topic: str) -> None:
    control = cluster.broker.control
    await control.create_topic(topic, queues=1)
    await control.send(topic, "kept", queue_id=1)
    await control.crash_broker(B)
    with pytest.raises(MqadminError, match=r"connect to .* failed"):  # the route still names it
        await mqadmin("clusterList")
    await control.advance("2m")
    listed = {(row[1], row[2]) for row in rows(await mqadmin("clusterList"))}
    assert listed == {(A, "0"), (A, "1"), (B, "1")}
    assert (await mqadmin("topicStatus", "-t", topic)).split().count(B) == 1
    route = await mqadmin.json("topicRoute", "-t", topic)
    [addresses] = [each["brokerAddrs"] for each in route["brokerDatas"] if each["brokerName"] == B]
    assert addresses == {"1": cluster.addresses[B, "1"]}
    await control.start_broker(B)
    assert {(row[1], row[2]) for row in rows(await mqadmin("clusterList"))} == set(cluster.addresses)
