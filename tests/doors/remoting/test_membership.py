"""Clients and groups by 34, 35, 38 and 46: members, and notifications about them."""

import asyncio
import json
from typing import Any

import pytest

from mocketmq.broker.filters.filter import TagFilter
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.errors import shorten
from tests.doors.remoting.consuming import (
    CHECK_CONFIG,
    CONSUMERS,
    DLQ,
    HEART_BEAT,
    MEMBERS_CHANGED,
    RETRY,
    UNREGISTER,
    beat,
    consumer,
    join,
    members,
    pull,
    subscription,
)
from tests.support.brokers import GROUP, TOPIC, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting


async def told(client: RemotingClient, group: str = GROUP) -> None:
    """Check that the client's only pending push reports changed members of the group."""
    pushed = await client.push()
    assert (pushed.code, pushed.ext, pushed.body, pushed.is_oneway) == (
        MEMBERS_CHANGED,
        {"consumerGroup": group},
        b"",
        True,
    )
    await untold(client)


async def untold(client: RemotingClient) -> None:
    """Check that the client has received no notification."""
    await members(client)
    assert client.pushes.empty()


def subscriptions(remoting: Remoting) -> dict[str, str]:
    """Return the group's subscriptions."""
    group = remoting.broker.registry.clients.find_connected_group(GROUP)
    assert group is not None
    return {topic: each.expression for topic, each in group.subscriptions.items()}


async def test_pipelined_member_list_includes_the_preceding_heartbeat() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        joined = client.ask(HEART_BEAT, body=beat(consumer()))
        listed = client.ask(CONSUMERS, {"consumerGroup": GROUP})
        assert json.loads((await listed).body) == {"consumerIdList": ["one"]}
        answer = await joined
        assert (answer.code, answer.remark, answer.ext, answer.body) == (0, None, {}, b"")


async def test_heartbeat_creates_group_and_retry_topic() -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        broker = remoting.broker
        assert broker.registry.groups.get(GROUP).max_retries == 16
        retry = broker.registry.topics.get(RETRY)
        assert (retry.read_queues, retry.write_queues, retry.perm) == (1, 1, PERM_READ | PERM_WRITE)
        assert broker.registry.topics.find_topic(DLQ) is None
        assert broker.registry.topics.find_topic(TOPIC) is None
        before = broker.store.writer.commits
        await remoting.client.ok(HEART_BEAT, body=beat(consumer()))
        assert broker.store.writer.commits == before


async def test_retry_topic_has_the_retry_queues_of_its_group() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 3, 5)
        await join(remoting.client)
        assert remoting.broker.registry.topics.get(RETRY).read_queues == 5
        assert remoting.broker.registry.groups.get(GROUP).max_retries == 3


@pytest.mark.parametrize("group", [GROUP, "no such/name", "CID_RMQ_SYS_HALF"])
async def test_uncreatable_group_still_has_members(group: str) -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(group=group), consumer(group=f"{GROUP}2")))
        assert await members(remoting.client, group) == ["one"]
        assert list(remoting.broker.registry.groups) == []
        assert (await pull(remoting.client, consumerGroup=GROUP)).code == 26


async def test_producers_create_no_consumer_group() -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(producers=("makers", "CLIENT_INNER_PRODUCER")))
        assert list(remoting.broker.registry.groups) == []
        assert await members(remoting.client, "makers") == []
        [member] = remoting.broker.registry.clients
        assert member.producers == ["makers", "CLIENT_INNER_PRODUCER"]


# Notifications


async def test_all_members_are_notified_when_one_joins_or_leaves() -> None:
    async with running_remoting() as remoting:
        one = remoting.client
        await join(one)
        async with remoting.another() as two, remoting.another() as stranger:
            await stranger.ok(HEART_BEAT, body=beat(consumer(group="others"), client="stranger"))
            await told(stranger, "others")
            await join(two, "two")
            await told(one)
            assert await members(one) == await members(two) == ["one", "two"]
            await one.ok(HEART_BEAT, body=beat(consumer()))
            await two.ok(HEART_BEAT, body=beat(consumer(), client="two"))
            await untold(one)
            await untold(two)
            await two.ok(UNREGISTER, {"clientID": "two", "consumerGroup": GROUP})
            await told(one)
            await untold(two)
            assert await members(two) == ["one"]
            await untold(stranger)


async def test_a_closed_connection_leaves_its_groups_at_once() -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        async with remoting.another() as two:
            await join(two, "two")
            await told(remoting.client)
        await told(remoting.client)
        assert await members(remoting.client) == ["one"]
    async with running_remoting() as remoting:
        async with remoting.another() as alone:
            await join(alone)
        async with asyncio.timeout(PATIENCE_S):
            while await members(remoting.client):
                pass
        assert list(remoting.broker.registry.clients) == []


async def test_two_connections_of_one_client_are_two_members() -> None:
    async with running_remoting() as remoting, remoting.another() as again:
        await join(remoting.client)
        await join(again)
        assert await members(again) == ["one", "one"]


async def test_a_change_of_client_id_is_reported() -> None:
    async with running_remoting() as remoting:
        await join(remoting.client)
        await join(remoting.client, "other")
        assert await members(remoting.client) == ["other"]


async def test_members_are_notified_of_changed_topics_not_filters() -> None:
    async with running_remoting() as remoting, remoting.another() as two:
        one = remoting.client
        await join(one)
        await join(two, "two")
        await told(one)
        more = consumer(subscription(), subscription("more", "A"))
        await one.ok(HEART_BEAT, body=beat(more))
        await told(one)
        await told(two)
        assert subscriptions(remoting) == {TOPIC: "*", "more": "A"}
        await one.ok(HEART_BEAT, body=beat(consumer(subscription(), subscription("more", "B", 2))))
        await untold(one)
        assert subscriptions(remoting) == {TOPIC: "*", "more": "B"}
        await two.ok(HEART_BEAT, body=beat(consumer(), client="two"))
        await told(one)
        await told(two)
        assert subscriptions(remoting) == {TOPIC: "*"}


async def test_heartbeat_without_subscriptions_keeps_them() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await join(client)
        brief = beat({**consumer(), "subscriptionDataSet": []}, withoutSub=True)
        await client.ok(HEART_BEAT, body=brief)
        await untold(client)
        assert subscriptions(remoting) == {TOPIC: "*"}
        [member] = remoting.broker.registry.clients
        assert [each.topic for each in member.consumers[GROUP].subscriptions] == [TOPIC]
        async with remoting.another() as two:  # as after a restart of the broker
            await two.ok(
                HEART_BEAT,
                body=beat({**consumer(), "subscriptionDataSet": []}, client="two", withoutSub=True),
            )
            await told(client)
        assert subscriptions(remoting) == {TOPIC: "*"}


async def test_broadcast_members_are_not_notified() -> None:
    async with running_remoting() as remoting, remoting.another() as two:
        for client, name in ((remoting.client, "one"), (two, "two")):
            await client.ok(HEART_BEAT, body=beat(consumer(messageModel="BROADCASTING"), client=name))
        await untold(two)
        await untold(remoting.client)
        assert await members(two) == ["one", "two"]
        await send(remoting.broker, queue=0)
        assert (await pull(two)).code == 0
        assert remoting.broker.consuming_groups.get(GROUP).queues == {}


async def test_members_are_notified_when_a_non_member_unregisters() -> None:
    async with running_remoting() as remoting, remoting.another() as stranger:
        await join(remoting.client)
        await stranger.ok(UNREGISTER, {"clientID": "stranger", "consumerGroup": GROUP})
        assert (await remoting.client.push()).code == MEMBERS_CHANGED
        assert await members(stranger) == ["one"]


async def test_leaving_one_group_keeps_the_other_memberships() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        groups = (consumer(), consumer(group="others"))
        await client.ok(HEART_BEAT, body=beat(*groups, producers=("makers", "menders")))
        await client.ok(UNREGISTER, {"clientID": "one", "consumerGroup": GROUP, "producerGroup": "makers"})
        [member] = remoting.broker.registry.clients
        assert (member.producers, list(member.consumers)) == (["menders"], ["others"])
        assert (await members(client), await members(client, "others")) == ([], ["one"])
        await client.ok(UNREGISTER, {"clientID": "one", "consumerGroup": "others"})
        await client.ok(UNREGISTER, {"clientID": "one", "producerGroup": "menders"})
        await client.ok(UNREGISTER, {"clientID": "one", "producerGroup": "menders", "consumerGroup": "x"})
        assert list(remoting.broker.registry.clients) == []


# Dialects


def described(remoting: Remoting) -> Any:
    """Return how the only client consumes."""
    [member] = remoting.broker.registry.clients
    return member.consumers[GROUP]


async def test_a_cpp_client_sends_numbers_instead_of_names() -> None:
    async with running_remoting() as remoting:
        body = {
            "clientID": "10.0.0.1@7",
            "consumerDataSet": [
                {
                    "groupName": GROUP,
                    "consumeType": 1,
                    "messageModel": 0,
                    "consumeFromWhere": 4,
                    "subscriptionDataSet": [
                        {"topic": TOPIC, "subString": "A", "subVersion": "1700000000000"}
                    ],
                }
            ],
        }
        await remoting.client.ok(
            HEART_BEAT, body=json.dumps(body).encode() + b"\n", language="CPP", version=333
        )
        assert described(remoting)[1:4] == ("CONSUME_PASSIVELY", "BROADCASTING", "CONSUME_FROM_FIRST_OFFSET")
        [wanted] = described(remoting).subscriptions
        assert wanted[:4] == (TOPIC, "A", 1_700_000_000_000, "TAG")
        assert wanted.tag_filter.tags == {"A"}
        [member] = remoting.broker.registry.clients
        assert (member.client_id, member.language, member.version) == ("10.0.0.1@7", "CPP", 333)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET")),
        (
            {"consumeType": 0, "messageModel": 1, "consumeFromWhere": 0},
            ("CONSUME_ACTIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"),
        ),
        ({"consumeType": "CONSUME_POP", "messageModel": 7, "consumeFromWhere": 6}, ("CONSUME_POP", "7", "6")),
    ],
)
async def test_omitted_fields_have_their_defaults(given: dict[str, Any], found: tuple[str, ...]) -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat({"groupName": GROUP, **given}))
        assert described(remoting)[1:4] == found
        assert described(remoting).subscriptions == []


@pytest.mark.parametrize(
    ("given", "tags"),
    [
        ({"subString": None}, set()),
        ({"subString": ""}, set()),
        ({"subString": "A||B", "expressionType": ""}, {"A", "B"}),
        ({"subString": "A||B", "expressionType": None, "codeSet": ["65", "66"]}, {"A", "B"}),
        ({"subString": "||"}, set()),
        ({"subString": "A", "expressionType": "REGEX"}, set()),
    ],
)
async def test_subscriptions_of_all_dialects_are_understood(given: dict[str, Any], tags: set[str]) -> None:
    async with running_remoting() as remoting:
        await remoting.client.ok(HEART_BEAT, body=beat(consumer({**subscription(), **given})))
        [wanted] = described(remoting).subscriptions
        assert isinstance(wanted.tag_filter, TagFilter)
        assert wanted.tag_filter.tags == tags


TEXT = "; allowed: text of 1 to 1024 characters"
OBJECTS = "; allowed: a list of JSON objects"
WHOLE = "; allowed: a whole number of 64 bits"


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (b"", f"clientID is None{TEXT}"),
        (b"[]", "body is []; allowed: a JSON object"),
        (b'{"clientID":""}', f"clientID is ''{TEXT}"),
        (b'{"clientID":7}', f"clientID is 7{TEXT}"),
        (beat({}), f"groupName is None{TEXT}"),
        (beat(consumer(group="g" * 1_025)), f"groupName is {shorten('g' * 1_025)}{TEXT}"),
        (beat(client="c" * 1_025), f"clientID is {shorten('c' * 1_025)}{TEXT}"),
        (beat(7), f"consumerDataSet is 7{OBJECTS}"),
        (b'{"clientID":"a","consumerDataSet":"x"}', f"consumerDataSet is 'x'{OBJECTS}"),
        (beat(consumer({"topic": TOPIC, "subVersion": "soon"})), f"subVersion is 'soon'{WHOLE}"),
        (beat(consumer({"topic": TOPIC, "subVersion": [1]})), f"subVersion is [1]{WHOLE}"),
        (beat(consumer({"subString": "*"})), f"topic is None{TEXT}"),
    ],
)
async def test_an_empty_heartbeat_is_refused(body: bytes, remark: str) -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(HEART_BEAT, body=body)
        assert (answer.code, answer.remark) == (1, remark)
        assert list(remoting.broker.registry.clients) == []


async def test_heartbeat_with_excessive_sql_is_refused() -> None:
    """All other clients would have to wait while the broker parses it."""
    wanted = [subscription(f"t{n}", f"a = '{n:>16000}'", expressionType="SQL92") for n in range(3)]
    async with running_remoting() as remoting:
        client = remoting.client
        await client.ok(HEART_BEAT, body=beat(consumer(*wanted[:2])))
        answer = await client.call(
            HEART_BEAT, body=beat(consumer(wanted[2], group="g"), consumer(*wanted[:2]))
        )
        assert (answer.code, answer.remark) == (
            1,
            "the SQL92 filters of a heartbeat have 48,018 characters; allowed: 32,768 together",
        )
        assert await members(client, "g") == []


# 46


@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (subscription(), False),
        (None, False),
        ({"topic": TOPIC}, False),
        (subscription(expressionType="REGEX"), True),
    ],
)
async def test_clients_can_check_filters(wanted: Any, refused: bool) -> None:
    async with running_remoting() as remoting:
        body = {"clientId": "one", "group": GROUP, "subscriptionData": wanted, "namespace": ""}
        answer = await remoting.client.call(CHECK_CONFIG, body=json.dumps(body).encode())
        sentence = "The broker does not support consumer to filter message by REGEX"
        assert (answer.code, answer.remark) == ((1, sentence) if refused else (0, None))
