"""Administration of groups (200, 201, 207, 225, 352), effects of settings, and 43, 45, 222, 314."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.registry.groups import GroupConfig
from tests.doors.remoting.consuming import (
    HEART_BEAT,
    MEMBERS_CHANGED,
    RESET_OFFSET,
    beat,
    commit,
    committed,
    consumer,
    join,
    pull,
)
from tests.doors.remoting.inspection import (
    CONSUME_STATS,
    GROUPS_OF,
    TIME_SPANS,
    TOPICS_OF,
    by_queue,
    look,
)
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, receive, send
from tests.support.remoting import Remoting, RemotingClient, running_remoting

CREATE, CREATE_ALL, ALL, DELETE, ONE = 200, 225, 201, 207, 352
OFFSETS, DELAY_OFFSETS, CLONE, DELETE_TOPIC = 43, 45, 314, 215

USUAL = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupName": GROUP,
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryMaxTimes": 16,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


async def create(client: RemotingClient, **config: object) -> str | None:
    """Create a group, and return the remark of the answer."""
    return (await client.ok(CREATE, body=json.dumps({"groupName": GROUP, **config}).encode())).remark


async def config(client: RemotingClient, group: str = GROUP) -> Any:
    """Return the configuration of a group."""
    return json.loads((await client.ok(ONE, {"group": group})).body)


async def test_a_group_has_upstreams_default_settings() -> None:
    async with running_remoting() as remoting:
        assert await create(remoting.client) is None
        assert await config(remoting.client) == USUAL
        table = json.loads((await remoting.client.ok(ALL)).body)
        assert table["subscriptionGroupTable"][GROUP] == USUAL
        answer = await remoting.client.call(ONE, {"group": "nobody"})
        assert (answer.code, answer.remark) == (26, "No group in this broker")


async def test_setting_without_effect_is_logged_once(
    remoting: Remoting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mocketmq")
    for number in range(3):
        group = f"{GROUP}-{number}"
        assert await create(remoting.client, groupName=group, consumeMessageOrderly=True) is None
        remark = await create(remoting.client, groupName=group, consumeTimeoutMinute=5)
        assert remark == f"stored, but without effect in mocketmq: consumeTimeoutMinute of '{group}'"
    assert caplog.messages == [
        "the group setting consumeTimeoutMinute is stored and shown, but has no effect in mocketmq"
    ]


@pytest.mark.parametrize(
    "policy",
    [
        {"type": "LINEAR"},
        {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": -1}},
        {"customizedRetryPolicy": {"next": []}},
        {"customizedRetryPolicy": {"next": [1.5]}},
    ],
)
async def test_retry_policies_that_clients_could_not_follow_are_refused(
    remoting: Remoting, policy: object
) -> None:
    body = json.dumps({"groupName": GROUP, "groupRetryPolicy": policy}).encode()
    answer = await remoting.client.call(CREATE, body=body)
    assert (answer.code, str(answer.remark).partition(":")[0]) == (1, "groupRetryPolicy")
    assert remoting.broker.registry.groups.find_group(GROUP) is None


async def test_group_settings_survive_a_restart_and_unused_ones_are_reported(
    tmp_path: Path,
) -> None:
    given = {
        "consumeEnable": False,
        "consumeTimeoutMinute": 5,
        "retryMaxTimes": 3,
        "retryQueueNums": 2,
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
    }
    async with running_remoting(data=str(tmp_path)) as remoting:
        remark = await create(remoting.client, **given)
        assert remark == f"stored, but without effect in mocketmq: consumeTimeoutMinute of '{GROUP}'"
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await config(remoting.client) == USUAL | given
        await create(remoting.client)
        assert await config(remoting.client) == USUAL


async def test_attributes_are_kept_without_their_sign_until_they_are_removed(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert await create(remoting.client, attributes={"+priority.factor": "50"}) is None
        await create(remoting.client, retryMaxTimes=3)
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert (await config(remoting.client))["attributes"] == {"priority.factor": "50"}
        table = json.loads((await remoting.client.ok(ALL)).body)["subscriptionGroupTable"]
        assert table[GROUP]["attributes"] == {"priority.factor": "50"}
        await create(remoting.client, attributes={"+priority.factor": "0"})
        assert (await config(remoting.client))["attributes"] == {"priority.factor": "0"}
        await create(remoting.client, attributes={"-priority.factor": ""})
        assert (await config(remoting.client))["attributes"] == {}


@pytest.mark.parametrize(
    ("is_known", "attributes", "refusal"),
    [
        (False, {"+colour": "red"}, "unsupported key: colour"),
        (True, {"+colour": "red"}, "unsupported key: colour"),
        (
            False,
            {"+lite.sub.model": "exclusive"},
            "lite.sub.model is 'exclusive'; allowed: Shared or Exclusive",
        ),
        (
            False,
            {"+priority.factor": "101"},
            "priority.factor is '101'; allowed: a whole number from 0 to 100",
        ),
        (
            False,
            {"+priority.factor": "high"},
            "priority.factor is 'high'; allowed: a whole number from 0 to 100",
        ),
        (False, {"+priority.factor": ""}, "priority.factor is ''; allowed: a whole number from 0 to 100"),
        (
            False,
            {"-priority.factor": ""},
            "only add attribute is supported while creating topic. key: priority.factor",
        ),
        (
            False,
            {"priority.factor": "1"},
            "only add attribute is supported while creating topic. key: riority.factor",
        ),
        (True, {"priority.factor": "1"}, "wrong format key: riority.factor"),
        (True, {"-priority.factor": ""}, "attempt to delete a nonexistent key: priority.factor"),
        (
            True,
            {"+priority.factor": "1", "-priority.factor": ""},
            "alter duplication key. key: priority.factor",
        ),
        (False, {"+": "1"}, "kv string format wrong."),
    ],
)
async def test_unknown_attributes_are_refused(
    is_known: bool, attributes: dict[str, str], refusal: str
) -> None:
    async with running_remoting() as remoting:
        if is_known:
            await create(remoting.client)
        body = json.dumps({"groupName": GROUP, "attributes": attributes}).encode()
        answer = await remoting.client.call(CREATE, body=body)
        assert (answer.code, answer.remark) == (1, refusal)
        both = json.dumps({"groupConfigList": [{"groupName": "other"}, json.loads(body)]}).encode()
        assert (await remoting.client.call(CREATE_ALL, body=both)).remark == refusal
        assert [group.name for group in remoting.broker.registry.groups] == [GROUP] * is_known


async def test_group_listed_twice_gets_both_changes() -> None:
    async with running_remoting() as remoting:
        changes = [{"+priority.factor": "7"}, {}]
        groups = [{"groupName": GROUP, "attributes": change} for change in changes]
        await remoting.client.ok(CREATE_ALL, body=json.dumps({"groupConfigList": groups}).encode())
        assert (await config(remoting.client))["attributes"] == {"priority.factor": "7"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"groupName": ""}',
        b'{"groupName": "no such name"}',
        b'{"groupName": "g", "retryMaxTimes": -1}',
        b'{"groupName": "g", "retryMaxTimes": "many"}',
        b'{"groupName": "g", "retryQueueNums": 0}',
        b'{"groupName": "g", "consumeEnable": 1}',
        b'{"groupName": "g", "brokerId": "one"}',
    ],
)
async def test_invalid_groups_are_refused(body: bytes) -> None:
    async with running_remoting() as remoting:
        answer = await remoting.client.call(CREATE, body=body)
        assert (answer.code, bool(answer.remark)) == (1, True)
        both = b'{"groupConfigList":[{"groupName":"other"},%b]}' % (body or b"7")
        assert (await remoting.client.call(CREATE_ALL, body=both)).code == 1
        assert not list(remoting.broker.registry.groups)


async def test_a_list_of_groups_is_created() -> None:
    async with running_remoting() as remoting:
        groups = [{"groupName": "one", "retryMaxTimes": 2}, {"groupName": "two"}]
        await remoting.client.ok(CREATE_ALL, body=json.dumps({"groupConfigList": groups}).encode())
        assert [group.max_retries for group in remoting.broker.registry.groups] == [2, 16]


async def test_a_disabled_group_cannot_consume() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, queue=0)
        await join(remoting.client)
        await create(remoting.client, consumeEnable=False)
        answer = await pull(remoting.client)
        assert (answer.code, answer.remark) == (16, f"subscription group no permission, {GROUP}")
        await create(remoting.client, consumeEnable=True)
        assert (await pull(remoting.client)).code == 0


async def test_group_may_forbid_broadcasting() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker, queue=0)
        await create(remoting.client, consumeBroadcastEnable=False)
        await join(remoting.client)
        assert (await pull(remoting.client, flags=0)).code == 0
        body = beat(consumer(messageModel="BROADCASTING"))
        await remoting.client.ok(HEART_BEAT, body=body)
        answer = await pull(remoting.client, flags=0)
        assert (answer.code, answer.remark) == (
            16,
            f"the consumer group[{GROUP}] can not consume by broadcast way",
        )


@pytest.mark.parametrize("is_told", [True, False])
async def test_members_are_notified_of_others_unless_disabled(is_told: bool) -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await create(remoting.client, notifyConsumerIdsChangedEnable=is_told)
        await remoting.client.ok(HEART_BEAT, body=beat(consumer()))
        await other.ok(HEART_BEAT, body=beat(consumer(), client="two"))
        await remoting.client.ok(106)
        pushed = [remoting.client.pushes.get_nowait().code for _ in range(remoting.client.pushes.qsize())]
        assert set(pushed) == ({MEMBERS_CHANGED} if is_told else set())


@pytest.mark.parametrize(
    ("flag", "offset"), [({}, 2), ({"removeOffset": "true"}, 0), ({"cleanOffset": "true"}, 0)]
)
async def test_a_group_is_deleted_with_its_offsets_on_request(flag: dict[str, str], offset: int) -> None:
    async with running_remoting() as remoting:
        for _ in range(3):
            await send(remoting.broker, queue=0)
        await commit(remoting.client, 2)
        assert (await remoting.client.ok(DELETE, {"groupName": GROUP, **flag})).remark is None
        assert remoting.broker.registry.groups.find_group(GROUP) is None
        answer = await remoting.client.ok(DELETE, {"groupName": GROUP, **flag})
        assert answer.remark == "group 'billing' did not exist"
        await create(remoting.client)
        assert await committed(remoting.client) == offset


@pytest.mark.parametrize("is_restarted", [True, False])
async def test_the_offsets_of_a_deleted_group_are_reported(tmp_path: Path, is_restarted: bool) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        for _ in range(3):
            await send(remoting.broker, queue=0)
            await remoting.broker.mover.advance(1 * S)
        await commit(remoting.client, 2)
        await remoting.client.ok(DELETE, {"groupName": GROUP})
        if not is_restarted:
            await check_offsets_are_told(remoting)
    if is_restarted:
        async with running_remoting(data=str(tmp_path)) as remoting:
            await check_offsets_are_told(remoting)


async def check_offsets_are_told(remoting: Remoting) -> None:
    client = remoting.client
    assert await committed(client) == 2
    assert await committed(client, setZeroIfNotFound="false") == 2
    assert (await client.ok(OFFSETS)).body == b'{"offsetTable":{"orders@billing":{0:2}}}'
    assert (await look(client, GROUPS_OF, topic=TOPIC))["groupList"] == [GROUP]
    assert (await look(client, TOPICS_OF, group=GROUP))["topicList"] == [TOPIC]
    queues = by_queue((await look(client, CONSUME_STATS, consumerGroup=GROUP))["offsetTable"])
    assert [queues[TOPIC, 0][name] for name in ("brokerOffset", "consumerOffset", "pullOffset")] == [3, 2, 2]
    spans = (await look(client, TIME_SPANS, topic=TOPIC, group=GROUP))["consumeTimeSpanSet"]
    [span] = [span for span in spans if span["messageQueue"]["queueId"] == 0]
    assert span["consumeTimeStamp"] - span["minTimeStamp"] == 1_000
    assert remoting.broker.registry.groups.find_group(GROUP) is None
    await client.ok(DELETE_TOPIC, {"topic": TOPIC})
    assert (await client.ok(OFFSETS)).body == b'{"offsetTable":{}}'


async def test_offsets_of_all_groups_and_levels_in_upstreams_form() -> None:
    async with running_remoting(levels="1s 5s") as remoting:
        await send(remoting.broker, queue=1)
        await send(remoting.broker, level=1)
        await send(remoting.broker, level=2)
        await remoting.broker.mover.advance(1 * S)
        await remoting.broker.registry.groups.put("other", 16, 1, GroupConfig())
        await commit(remoting.client, 1, 1)
        assert (await remoting.client.ok(DELAY_OFFSETS)).body == b'{"offsetTable":{1:1,2:0}}'
        assert (await remoting.client.ok(OFFSETS)).body == b'{"offsetTable":{"orders@billing":{1:1}}}'


async def cloned(client: RemotingClient, **ext: str) -> int:
    """Copy a group's offsets to another group, and return the code of the answer."""
    return (await client.call(CLONE, {"srcGroup": GROUP, "destGroup": "copy", **ext})).code


async def test_a_group_starts_at_another_groups_offsets() -> None:
    async with running_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        for topic in (TOPIC, "another"):
            for _ in range(3):
                await send(broker, topic=topic, queue=0)
            await commit(client, 2, topic=topic)
        assert await cloned(client, offline="true", topic=TOPIC) == 0
        assert broker.committed_offsets.of("copy", TOPIC, 0) == 2
        assert broker.committed_offsets.of("copy", "another", 0) is None
        await join(client)  # with a subscription to TOPIC only
        assert await cloned(client, offline="false") == 0
        assert broker.committed_offsets.of("copy", "another", 0) is None
        assert await cloned(client, offline="true") == 0
        assert broker.committed_offsets.of("copy", "another", 0) == 2
        assert await cloned(client, srcGroup="nobody", offline="true") == 26


async def test_one_queue_is_reset_to_a_time_or_an_offset() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        for queue in (0, 1):
            for _ in range(3):
                await send(remoting.broker, queue=queue)
            await commit(client, 3, queue)
        ext = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "false"}
        body = (await client.ok(RESET_OFFSET, {**ext, "queueId": "1", "offset": "-1"})).body
        assert body == b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:0}}'
        assert [await committed(client, queue) for queue in (0, 1)] == [3, 0]
        await client.ok(RESET_OFFSET, {**ext, "queueId": "1", "offset": "2"})
        assert [await committed(client, queue) for queue in (0, 1)] == [3, 2]
        answer = await client.call(RESET_OFFSET, {**ext, "queueId": "1", "offset": "4"})
        assert (answer.code, answer.remark) == (1, "Target offset 4 not in consume queue range [0-3]")
        assert (await client.call(RESET_OFFSET, {**ext, "queueId": "9", "offset": "1"})).code == 29


async def test_disabled_group_refuses_receivers_by_receipt() -> None:
    async with running_remoting() as remoting:
        await send(remoting.broker)
        await acknowledge(remoting.broker, await receive(remoting.broker, 1))
        await create(remoting.client, consumeEnable=False)
        with pytest.raises(Exception, match="no permission"):
            await receive(remoting.broker)
