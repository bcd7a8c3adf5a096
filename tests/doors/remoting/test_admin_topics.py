"""Administration of topics (17, 18, 21, 215, 305, 351), and the name server's view of all topics."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mocketmq.rocketmq_versions import V4_9_8
from tests.doors.remoting.producing import pulled, sent
from tests.support.brokers import TOPIC, send
from tests.support.remoting import Remoting, RemotingClient, running_remoting

CREATE, CREATE_ALL, ALL, DELETE, SYSTEM, ONE = 17, 18, 21, 215, 305, 351
NAMES, OF_CLUSTER, SYSTEM_OF_NAME_SERVER, UNREGISTER = 206, 224, 304, 216
UNIT, WITH_UNIT_SUBSCRIBERS, COMMON_WITH_UNIT_SUBSCRIBERS = 311, 312, 313
WIPE, ADD = 205, 327


def wanted(topic: str = TOPIC, **more: object) -> dict[str, str]:
    """Return the required fields of a request to create a topic, and additional fields."""
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    return {name: str(value) for name, value in {**ext, **more}.items()}


async def config(client: RemotingClient, topic: str = TOPIC) -> Any:
    """Return the configuration of a topic."""
    return json.loads((await client.ok(ONE, {"topic": topic})).body)


async def names(client: RemotingClient, code: int, **ext: str) -> list[str]:
    """Return the topics that a request lists."""
    found: list[str] = json.loads((await client.ok(code, ext)).body)["topicList"]
    return found


async def test_all_settings_of_a_topic_survive_a_restart(tmp_path: Path) -> None:
    shown = {
        "attributes": {"message.type": "FIFO"},
        "order": True,
        "perm": 4,
        "readQueueNums": 4,
        "topicFilterType": "MULTI_TAG",
        "topicName": TOPIC,
        "topicSysFlag": 3,
        "writeQueueNums": 2,
    }
    more: dict[str, Any] = {"perm": 4, "topicFilterType": "MULTI_TAG", "topicSysFlag": 3, "order": "true"}
    async with running_remoting(data=str(tmp_path)) as remoting:
        answer = await remoting.client.ok(CREATE, wanted(**more, attributes="+message.type=FIFO"))
        assert answer.remark is None
        assert await config(remoting.client) == shown
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await config(remoting.client) == shown
        table = json.loads((await remoting.client.ok(ALL)).body)
        assert table["topicConfigTable"][TOPIC] == shown
        assert {"counter", "stateVersion", "timestamp"} == table["dataVersion"].keys()
        [queues] = (await remoting.route(TOPIC))["queueDatas"]
        assert (queues["topicSysFlag"], queues["perm"]) == (3, 4)


async def test_an_attribute_is_logged_once(remoting: Remoting, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mocketmq")
    for number in range(3):
        ext = wanted(attributes="+reserve.time=5") | {"topic": f"{TOPIC}-{number}"}
        answer = await remoting.client.ok(CREATE, ext)
        assert answer.remark == f"stored, but without effect in mocketmq: +reserve.time of '{TOPIC}-{number}'"
    assert caplog.messages == [
        "the topic attribute reserve.time is stored and shown, but has no effect in mocketmq"
    ]


async def test_messages_of_a_multi_tag_topic_carry_the_flag() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(CREATE, wanted(topicFilterType="MULTI_TAG"))
        await sent(remoting.client, sys_flag=1)
        [record] = await pulled(remoting.client)
        assert record.sys_flag == 3


async def test_a_changed_topic_keeps_its_attributes_and_takes_the_rest_from_the_request() -> None:
    async with running_remoting() as remoting:
        before = json.loads((await remoting.client.ok(ALL)).body)["dataVersion"]["counter"]
        attributes = "+message.type=FIFO,+reserve.time=5"
        await remoting.client.ok(CREATE, wanted(order="true", attributes=attributes))
        await remoting.client.ok(CREATE, wanted(readQueueNums=8, attributes="-message.type"))
        found = await config(remoting.client)
        assert (found["readQueueNums"], found["order"]) == (8, False)
        assert found["attributes"] == {"reserve.time": "5"}
        after = json.loads((await remoting.client.ok(ALL)).body)["dataVersion"]["counter"]
        assert after == before + 2


@pytest.mark.parametrize(
    ("ext", "refusal"),
    [
        (wanted("TBW102"), "The topic[TBW102] is conflict with system topic."),
        (wanted("%HALF%orders"), "The topic[%HALF%orders] is conflict with system topic."),
        (wanted("päckchen"), "The specified topic contains illegal characters"),
        (wanted(""), "The specified topic is blank."),
        (wanted(readQueueNums=0), "read_queues is 0; allowed: 1 to 1024"),
        (wanted(writeQueueNums=1025), "write_queues is 1025; allowed: 1 to 1024"),
        (wanted(perm=8), "perm is 8; allowed: a sum of 4 (read), 2 (write) and 1 (inherit)"),
        (wanted(perm="rw"), "perm is 'rw'; allowed: a whole number of 32 bits"),
        (wanted(topicFilterType="NO_TAG"), "topicFilterType is 'NO_TAG'; allowed: SINGLE_TAG or MULTI_TAG"),
        (wanted(attributes="message.type=FIFO"), "add/alter attribute format is wrong: message.type"),
        (wanted(attributes="message.type"), "delete attribute format is wrong: message.type"),
        (wanted(attributes="+a=1,+a=2"), "key duplication: +a"),
        (wanted(attributes="+colour=red"), "unsupported key: colour"),
        (wanted(attributes="-message.type"), "only add attribute is supported while creating topic."),
        (wanted(attributes="+message.type=SLOW"), "message.type is 'SLOW'; allowed: UNSPECIFIED or NORMAL"),
        (
            wanted(attributes="+lite.topic.expiration=43201"),
            "lite.topic.expiration is '43201'; allowed: a whole number of minutes from -1 to 43200",
        ),
        (
            wanted(attributes="+reserve.time=soon"),
            "reserve.time is 'soon'; allowed: a whole number of at least -1",
        ),
        (
            wanted(attributes="+reserve.time=1_0"),
            "reserve.time is '1_0'; allowed: a whole number of at least -1",
        ),
        (wanted(attributes="+queue.type=BatchCQ"), "queue.type is 'BatchCQ'; allowed: SimpleCQ"),
        (wanted(attributes="+=1"), "kv string format wrong."),
        ({"topic": TOPIC}, "the custom field <readQueueNums> is null"),
    ],
)
async def test_invalid_topics_are_refused(ext: dict[str, str], refusal: str) -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(CREATE, ext)
        assert answer.code == (29 if refusal.startswith("The ") else 1)
        assert refusal in (answer.remark or "")
        assert remoting.broker.registry.topics.find_topic(TOPIC) is None


@pytest.mark.parametrize(
    ("attributes", "refusal"),
    [
        ("+cleanup.policy=DELETE", "attempt to update an unchangeable attribute. key: cleanup.policy"),
        ("-message.type", "attempt to delete a nonexistent key: message.type"),
    ],
)
async def test_unchangeable_attributes_are_refused(attributes: str, refusal: str) -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(CREATE, wanted(attributes="+cleanup.policy=COMPACTION"))
        answer = await remoting.client.call(CREATE, wanted(attributes=attributes))
        assert (answer.code, answer.remark) == (1, refusal)


@pytest.mark.parametrize("is_a_setting", [True, False])
async def test_topics_of_mixed_messages_need_upstreams_setting(is_a_setting: bool) -> None:
    mixed = wanted(attributes="+message.type=MIXED")
    body = json.dumps(
        {"topicConfigList": [{"topicName": "two", "attributes": {"+message.type": "MIXED"}}]}
    ).encode()
    async with running_remoting(mixed_message_type=is_a_setting) as remoting:
        client, topics = remoting.client, remoting.broker.registry.topics
        if not is_a_setting:
            for answer in (await client.call(CREATE, mixed), await client.call(CREATE_ALL, body=body)):
                assert answer.code == 29
                assert (answer.remark or "").startswith(
                    "MIXED message type is not supported. message.type is"
                )
            assert topics.find_topic(TOPIC) is topics.find_topic("two") is None
            await client.ok(25, body=b"enableMixedMessageType=true")
        assert b"enableMixedMessageType=true\n" in (await client.ok(26)).body
        await client.ok(CREATE, mixed)
        await client.ok(CREATE_ALL, body=body)
        for topic in (TOPIC, "two"):
            assert (await config(client, topic))["attributes"] == {"message.type": "MIXED"}


async def test_a_list_of_topics_is_created_all_or_none() -> None:
    async with running_remoting() as remoting:
        topics = [
            {"topicName": "one", "readQueueNums": 1, "writeQueueNums": 1, "perm": 4, "order": True},
            {"topicName": "two", "attributes": {"+message.type": "DELAY"}},
        ]
        await remoting.client.ok(CREATE_ALL, body=json.dumps({"topicConfigList": topics}).encode())
        one, two = await config(remoting.client, "one"), await config(remoting.client, "two")
        assert (one["readQueueNums"], one["perm"], one["order"]) == (1, 4, True)
        assert (two["readQueueNums"], two["perm"], two["attributes"]) == (16, 6, {"message.type": "DELAY"})
        for bad, code in (
            ({"topicName": "TBW102"}, 29),
            ({"readQueueNums": 1}, 1),
            ({"topicName": "x", "perm": "rw"}, 1),
            (7, 1),
        ):
            body = json.dumps({"topicConfigList": [{"topicName": "three"}, bad]}).encode()
            assert (await remoting.client.call(CREATE_ALL, body=body)).code == code
            assert remoting.broker.registry.topics.find_topic("three") is None


async def test_a_missing_topic_has_no_configuration() -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(ONE, {"topic": TOPIC})
        assert (answer.code, answer.remark) == (17, f"No topic in this broker. topic: {TOPIC}")


async def test_a_topic_deleted_at_the_broker_is_forgotten_by_the_name_server() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await send(remoting.broker, level=3)
        answer = await client.call(UNREGISTER, {"topic": TOPIC, "clusterName": "DefaultCluster"})
        assert (answer.code, remoting.broker.registry.topics.find_topic(TOPIC) is None) == (1, False)
        await client.ok(UNREGISTER, {"topic": TOPIC, "clusterName": "another"})
        assert (await client.ok(DELETE, {"topic": TOPIC})).remark == "1 delayed messages were cancelled"
        assert (await client.call(105, {"topic": TOPIC})).code == 17
        await client.ok(UNREGISTER, {"topic": TOPIC})
        assert (await client.ok(DELETE, {"topic": TOPIC})).remark == "topic 'orders' did not exist"
        answer = await client.call(DELETE, {"topic": "TBW102"})
        assert (answer.code, answer.remark) == (29, "The topic[TBW102] is conflict with system topic.")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "The specified topic is blank."),
        ("a b", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("t" * 128, "The specified topic is longer than topic max length."),
    ],
)
async def test_a_deletion_judges_the_name_as_its_version_of_rocketmq(name: str, problem: str) -> None:
    async with running_remoting(server_version=V4_9_8) as remoting:
        answer = await remoting.client.call(DELETE, {"topic": name})
        assert (answer.code, answer.remark) == (1, problem)
    async with running_remoting() as remoting:
        answer = await remoting.client.call(DELETE, {"topic": name})
        expected = (0, f"topic {name!r} did not exist") if name else (29, problem)
        assert (answer.code, str(answer.remark)[:30]) == (expected[0], expected[1][:30])


async def test_lists_of_topics() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        for number, topic in enumerate(("common", "unit", "subscribed", "both")):
            await client.ok(CREATE, wanted(topic, topicSysFlag=number))
        made = await names(client, NAMES)
        assert {"common", "unit", "subscribed", "both", "TBW102"} <= set(made)
        assert await names(client, OF_CLUSTER, cluster="DefaultCluster") == made
        assert await names(client, OF_CLUSTER, cluster="another") == []
        assert await names(client, UNIT) == ["both", "unit"]
        assert await names(client, WITH_UNIT_SUBSCRIBERS) == ["both", "subscribed"]
        assert await names(client, COMMON_WITH_UNIT_SUBSCRIBERS) == ["subscribed"]
        found = json.loads((await client.ok(SYSTEM_OF_NAME_SERVER)).body)
        address = f"127.0.0.1:{remoting.server.broker_port}"
        assert found == {"brokerAddr": address, "topicList": ["DefaultCluster", "broker-a"]}
        system = await names(client, SYSTEM)
        assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", "rmq_sys_wheel_timer"} <= set(system)
        assert not set(system) & {"common", "unit"}


async def test_the_broker_is_taken_out_of_the_routes_and_back() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(CREATE, wanted())
        await remoting.client.ok(CREATE, wanted("read-only", perm=4))
        count = str(len(list(remoting.broker.registry.topics)))
        assert (await remoting.client.ok(WIPE, {"brokerName": "broker-a"})).ext == {"wipeTopicCount": count}
        assert await perms(remoting) == [4, 4, 5]
        assert (await remoting.client.ok(ADD, {"brokerName": "another"})).ext == {"addTopicCount": "0"}
        assert await perms(remoting) == [4, 4, 5]
        assert (await remoting.client.ok(ADD, {"brokerName": "broker-a"})).ext == {"addTopicCount": count}
        assert await perms(remoting) == [6, 4, 7]


async def perms(remoting: Remoting) -> list[int]:
    """Return the permissions of three topics according to their routes."""
    routes = [await remoting.route(topic) for topic in (TOPIC, "read-only", "TBW102")]
    return [route["queueDatas"][0]["perm"] for route in routes]


async def test_write_only_topic_has_a_route_without_permission() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(CREATE, wanted(perm=2))
        await remoting.client.ok(WIPE, {"brokerName": "broker-a"})
        [queues] = (await remoting.route(TOPIC))["queueDatas"]
        assert queues["perm"] == 0
