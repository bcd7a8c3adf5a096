"""The name server: routes of topics (105), lists of brokers and topics (106, 206)."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.requests.routes import MAX_MISSES
from tests.doors.remoting.gates import until
from tests.doors.remoting.producing import sent
from tests.support.remoting import Remoting, running_remoting

CREATE = {
    **{"readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG"},
    **{"defaultTopic": "TBW102", "topicSysFlag": "0", "order": "false"},
}
ALI_ONS: dict[str, Any] = {"language": "JAVA", "version": 121}
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


async def refused(remoting: Remoting, topic: str, **client: Any) -> None:
    """Check that the name server reports a missing topic in upstream's words, and does not create it."""
    answer = await remoting.client.call(105, {"topic": topic}, **client)
    assert (answer.code, answer.remark) == (
        17,
        f"No topic route info in name server for the topic: {topic}{FAQ}",
    )
    assert remoting.broker.registry.topics.find_topic(topic) is None


async def test_a_route_is_compact_standard_json_in_upstreams_order(remoting: Remoting) -> None:
    await remoting.broker.registry.topics.put("orders", 4, 2, PERM_READ | PERM_WRITE)
    answer = await remoting.client.ok(105, {"topic": "orders"})
    address = f"127.0.0.1:{remoting.server.broker_port}"
    assert answer.body.decode() == (
        f'{{"brokerDatas":[{{"brokerAddrs":{{"0":"{address}"}},"brokerName":"broker-a",'
        '"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
        '"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,'
        '"writeQueueNums":2}]}'
    )
    assert (answer.remark, answer.ext) == (None, {})


async def test_the_template_of_topics_is_inherited_where_first_use_makes_topics(
    tmp_path: Path,
) -> None:
    data = str(tmp_path)
    async with running_remoting(data=data) as remoting:
        (queues,) = (await remoting.route("TBW102"))["queueDatas"]
        assert (queues["perm"], queues["writeQueueNums"]) == (7, 8)
    async with running_remoting(data=data, auto_create_topics=False) as remoting:
        assert (await remoting.client.call(105, {"topic": "TBW102"})).code == 17


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_DefaultRegion"])
@pytest.mark.parametrize("auto_create", [True, False])
async def test_trace_topics_have_routes(topic: str, auto_create: bool) -> None:
    async with running_remoting(auto_create_topics=auto_create) as remoting:
        (queues,) = (await remoting.route(topic))["queueDatas"]
        assert (queues["perm"], queues["readQueueNums"], queues["writeQueueNums"]) == (6, 1, 1)


@pytest.mark.parametrize(("topic", "queues", "perm"), [("DefaultCluster", 16, 7), ("broker-a", 1, 7)])
async def test_the_clusters_and_the_brokers_name_are_topics(topic: str, queues: int, perm: int) -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        assert topic in json.loads((await remoting.client.ok(206)).body)["topicList"]
        (found,) = (await remoting.route(topic))["queueDatas"]
        assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (queues, queues, perm)
        await sent(remoting.client, topic=topic)
        for code, ext in ((17, CREATE), (215, {})):
            answer = await remoting.client.call(code, ext | {"topic": topic})
            assert (answer.code, answer.remark) == (29, f"The topic[{topic}] is conflict with system topic.")


async def test_the_clusters_name_is_a_template() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, default_topic="DefaultCluster", default_topic_queue_nums=9)
        assert remoting.broker.registry.topics.get("orders").write_queues == 9


@pytest.mark.parametrize(
    ("topic", "queues"),
    [
        ("DefaultCluster_REPLY_TOPIC", 1),
        ("SELF_TEST_TOPIC", 1),
        ("OFFSET_MOVED_EVENT", 1),
        ("BenchmarkTest", 1_024),
    ],
)
async def test_upstreams_system_topics_exist_on_request(topic: str, queues: int) -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        (found,) = (await remoting.route(topic))["queueDatas"]
        assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (queues, queues, 6)


async def test_a_topic_is_created_when_its_route_is_requested() -> None:
    async with running_remoting(topic_queues=3) as remoting:
        (queues,) = (await remoting.route("orders"))["queueDatas"]
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)
        assert not remoting.broker.registry.topics.get("orders").is_system


@pytest.mark.parametrize(
    "settings",
    [
        {"auto_create_topics": "send"},
        {"profile": "rocketmq4"},
        {"profile": "rocketmq4", "auto_create_topics": True},
    ],
)
async def test_a_topic_is_created_by_the_first_send_as_upstream(settings: dict[str, Any]) -> None:
    async with running_remoting(**settings) as remoting:
        await refused(remoting, "orders")
        await remoting.route("TBW102")
        await sent(remoting.client, default_topic_queue_nums=5)
        assert (await remoting.route("orders"))["queueDatas"][0]["writeQueueNums"] == 5


async def test_route_creates_no_topic_without_automatic_creation() -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        await remoting.broker.registry.groups.put("GID_billing", 16, 1)
        for topic in ("orders", "%DLQ%GID_billing"):
            await refused(remoting, topic)


async def test_automatic_creation_can_be_switched_at_run_time(remoting: Remoting) -> None:
    await remoting.client.ok(25, body=b"autoCreateTopicEnable=false")
    await refused(remoting, "orders")
    await remoting.client.ok(25, body=b"autoCreateTopicEnable=true")
    await remoting.route("orders")


@pytest.mark.parametrize(
    "topic",
    [
        *("", " ", "no such name", "päckchen", "x" * 128, "CHECKPOINT_TOPIC", "rmq_sys_x", "%HALF%orders"),
        *("%DLQ%GID_unknown", "%DLQ%", "%RETRY%", "%RETRY%no/name"),
    ],
)
async def test_a_topic_that_cannot_be_created_is_refused_in_upstreams_words(
    remoting: Remoting, topic: str
) -> None:
    for client in ({}, ALI_ONS):
        await refused(remoting, topic, **client)


async def test_dead_letter_topic_has_a_route_before_any_dead_letter() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put("GID_billing", 16, 1)
        (queues,) = (await remoting.route("%DLQ%GID_billing"))["queueDatas"]
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)


async def test_lookups_do_not_recreate_a_deleted_topic(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await remoting.route("orders")
        await remoting.broker.reset.delete_topic("orders")
        await refused(remoting, "orders")
    async with running_remoting(data=str(tmp_path)) as remoting:
        await refused(remoting, "orders")
        await sent(remoting.client)
        await remoting.route("orders")


async def test_a_request_without_a_topic_is_refused(remoting: Remoting) -> None:
    answer = await remoting.client.call(105)
    assert (answer.code, answer.remark) == (1, "the custom field <topic> is null")


async def test_route_for_ali_ons_creates_the_topic() -> None:
    async with running_remoting(auto_create_topics="send") as remoting:
        await refused(remoting, "orders", version=121, language="CPP")
        await remoting.client.ok(105, {"topic": "orders"}, **ALI_ONS)
        assert (await remoting.route("orders"))["queueDatas"][0]["writeQueueNums"] == 4


async def test_route_for_ali_ons_respects_automatic_creation() -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        await refused(remoting, "orders", **ALI_ONS)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"auto_create_topics": "send"},
            "topic 'orders' does not exist; a first message to it, or mocketmq topics create, creates it",
        ),
        (
            {"auto_create_topics": False},
            "topic 'orders' does not exist, and auto_create_topics is false; create it by mocketmq topics"
            " create, or declare it in the configuration as [[topics]]",
        ),
    ],
)
async def test_a_missing_topic_is_logged_once_with_a_hint(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], reason: str
) -> None:
    caplog.set_level(logging.INFO, "mocketmq.remoting")
    async with running_remoting(**settings) as remoting:
        for topic in ("orders", "orders", "%RETRY%billing", "TBW102", "TBW102"):
            await remoting.client.call(105, {"topic": topic})
    assert caplog.messages == [f"no route: {reason}"]


async def test_refused_topic_creation_logs_the_reason(
    remoting: Remoting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mocketmq.remoting")
    await remoting.route("bills")
    await remoting.broker.reset.delete_topic("bills")
    for topic in ("bills", "no such name", "rmq_sys_x", "%DLQ%GID_unknown"):
        await refused(remoting, topic)
    assert [line.removeprefix("no route: ") for line in caplog.messages] == [
        "topic 'bills' was deleted; a message to it, or mocketmq topics create, creates it again",
        "invalid topic name 'no such name': The specified topic contains illegal characters, allowing only"
        " ^[%|a-zA-Z0-9_-]+$",
        "topic 'rmq_sys_x' is a system topic and does not exist yet; only the broker creates it",
        "topic '%DLQ%GID_unknown' belongs to no known group",
    ]


async def test_memory_of_missed_names_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mocketmq.remoting")
    async with running_remoting(auto_create_topics="send") as remoting:
        for number in range(MAX_MISSES + 10):
            await refused(remoting, f"t{number}")
    assert len(caplog.records) == MAX_MISSES


async def test_the_cluster_is_this_broker(remoting: Remoting) -> None:
    address = f"127.0.0.1:{remoting.server.broker_port}"
    assert json.loads((await remoting.client.ok(106)).body) == {
        "brokerAddrTable": {
            "broker-a": {
                "brokerAddrs": {"0": address},
                "brokerName": "broker-a",
                "cluster": "DefaultCluster",
                "enableActingMaster": False,
            }
        },
        "clusterAddrTable": {"DefaultCluster": ["broker-a"]},
    }


async def test_all_topics_are_listed(remoting: Remoting) -> None:
    await remoting.broker.registry.topics.ensure("orders", 4)
    topics = json.loads((await remoting.client.ok(206)).body)["topicList"]
    assert {"orders", "SCHEDULE_TOPIC_XXXX", "TBW102"} <= set(topics)


@pytest.mark.parametrize(
    ("advertise", "address"),
    [("names.test", "names.test:{}"), ("10.0.0.7:1234", "10.0.0.7:1234"), ("[::1]", "[::1]:{}")],
)
async def test_a_route_names_the_configured_address(advertise: str, address: str) -> None:
    async with running_remoting(advertise=advertise) as remoting:
        (broker,) = (await remoting.route("TBW102"))["brokerDatas"]
        assert broker["brokerAddrs"] == {"0": address.format(remoting.server.broker_port)}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
async def test_route_names_the_address_used_by_the_client(host: str) -> None:
    async with running_remoting(host="0.0.0.0") as remoting:  # noqa: S104 - all of them are tried
        for port in (remoting.server.namesrv_port, remoting.server.broker_port):
            async with remoting.another(port, host) as client:
                route = json.loads((await client.ok(105, {"topic": "TBW102"})).body)
                (broker,) = route["brokerDatas"]
                assert broker["brokerAddrs"] == {"0": f"{host}:{remoting.server.broker_port}"}


async def test_ipv6_is_bracketed_and_ids_hold_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    channels: list[RemotingChannel] = []
    async with running_remoting(host="::1") as remoting:
        monkeypatch.setattr(remoting.broker.registry.clients, "gone", channels.append)
        async with remoting.another() as client:
            route = json.loads((await client.ok(105, {"topic": "TBW102"})).body)
        await until(lambda: channels)
        port = remoting.server.broker_port
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": f"[::1]:{port}"}
        assert remoting.server.namesrv_address == f"[::1]:{remoting.server.namesrv_port}"
    (channel, _) = channels
    assert (channel.advertised, channel.store_host) == (f"[::1]:{port}", f"127.0.0.1:{port}")
    assert channel.remote == client.address


async def test_retry_topic_has_a_route_before_its_group() -> None:
    async with running_remoting() as remoting:
        [queues] = (await remoting.route("%RETRY%GID_billing"))["queueDatas"]
        assert (queues["readQueueNums"], queues["perm"]) == (1, 6)
        assert remoting.broker.registry.groups.find_group("GID_billing")


async def test_retry_route_needs_a_group_that_may_be_created() -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await refused(remoting, "%RETRY%GID_billing")
