"""Settings of broker and name server: 25, 26, 318, 319, 5001; key-value configurations: 100 to 102, 219."""

import asyncio
import json
from pathlib import Path

import pytest

from mocketmq.broker.removal.retention import Retention
from mocketmq.settings import TimedSchemeName
from tests.support.brokers import TOPIC, send
from tests.support.remoting import Remoting, RemotingClient, running_remoting

UPDATE, GET, UPDATE_NAME_SERVER, GET_NAME_SERVER = 25, 26, 318, 319
PUT_KV, GET_KV, DELETE_KV, LIST_KV = 100, 101, 102, 219
CLEAN_QUEUES, CLEAN_TOPICS, DELETE_OLD = 306, 316, 329
SWITCH_TIMERS, MOVE_POPS = 5_001, 200_056
ORDERS = "ORDER_TOPIC_CONFIG"


async def settings(client: RemotingClient, code: int = GET) -> dict[str, str]:
    """Return the settings by name."""
    lines = (await client.ok(code)).body.decode().splitlines()
    pairs = [line.partition("=") for line in lines]
    return {name: value for name, _, value in pairs}


async def test_the_broker_lists_its_settings() -> None:
    async with running_remoting(levels="1s 2m", topic_queues=7, durability="normal") as remoting:
        answer = await remoting.client.ok(GET)
        assert json.loads(answer.ext["version"]).keys() == {"counter", "stateVersion", "timestamp"}
        wanted = {
            "brokerName": "broker-a",
            "brokerClusterName": "DefaultCluster",
            "brokerId": "0",
            "brokerIP1": "127.0.0.1",
            "listenPort": str(remoting.server.broker_port),
            "messageDelayLevel": "1s 2m",
            "defaultTopicQueueNums": "7",
            "autoCreateTopicEnable": "true",
            "flushDiskType": "ASYNC_FLUSH",
            "storePathRootDir": ":memory:",
            "aclEnable": "false",
        }
        assert wanted.items() <= (await settings(remoting.client)).items()


async def test_administrator_switches_automatic_creation() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        body = b"autoCreateTopicEnable=false\nautoCreateSubscriptionGroup=false\n"
        assert (await client.ok(UPDATE, body=body)).remark == "changed until the next start"
        found = await settings(client)
        assert (found["autoCreateTopicEnable"], found["autoCreateSubscriptionGroup"]) == ("false", "false")
        assert (await client.call(105, {"topic": "TBW102"})).code == 17
        with pytest.raises(Exception, match="not exist"):
            await send(remoting.broker)
        with pytest.raises(Exception, match="not exist"):
            await remoting.broker.registry.groups.for_use("anybody")
        await client.ok(UPDATE, body=b"autoCreateTopicEnable=true\ndefaultTopicQueueNums=9")
        assert (await remoting.route("TBW102"))["queueDatas"][0]["perm"] == 7
        await send(remoting.broker)
        assert len(remoting.broker.registry.topics.get(TOPIC).queues) == 9


@pytest.mark.parametrize(
    ("body", "code", "refusal"),
    [
        (b"messageDelayLevel=1s", 16, "'messageDelayLevel' cannot be changed while mocketmq runs; only auto"),
        (b"noSuchThing=1", 16, "'noSuchThing' cannot be changed"),
        (b"autoCreateTopicEnable=yes", 1, "autoCreateTopicEnable is 'yes'; allowed: true or false"),
        (b"defaultTopicQueueNums=1025", 1, "defaultTopicQueueNums is '1025'; allowed: 1 to 1024"),
        (b"defaultTopicQueueNums=many", 1, "allowed: 1 to 1024"),
        (b"autoCreateTopicEnable", 1, "allowed: lines of name=value"),
        (b"=true", 1, "allowed: lines of name=value"),
        (b"\xff\xfe=1", 16, "cannot be changed"),
    ],
)
async def test_a_list_of_changes_is_applied_all_or_none(body: bytes, code: int, refusal: str) -> None:
    async with running_remoting() as remoting:
        before = await settings(remoting.client)
        answer = await remoting.client.call(UPDATE, body=b"autoCreateSubscriptionGroup=false\n" + body)
        assert answer.code == code
        assert refusal in (answer.remark or "")
        assert await settings(remoting.client) == before


async def test_setting_the_current_value_changes_nothing() -> None:
    async with running_remoting() as remoting:
        before = await settings(remoting.client)
        body = "".join(f"{name}={value}\n" for name, value in before.items()).encode()
        await remoting.client.ok(UPDATE, body=b"# a comment\n\n" + body)
        assert await settings(remoting.client) == before


async def test_routes_list_ordered_queues_when_the_setting_is_on(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        await remoting.broker.registry.topics.put(TOPIC, 4, 4, 6)
        await client.ok(PUT_KV, {"namespace": ORDERS, "key": TOPIC, "value": "broker-a:4"})
        assert "orderTopicConf" not in await remoting.route(TOPIC)
        await client.ok(UPDATE_NAME_SERVER, body=b"orderMessageEnable=true\n")
        assert (await remoting.route(TOPIC))["orderTopicConf"] == "broker-a:4"
        assert await settings(client, GET_NAME_SERVER) == {
            "clusterTest": "false",
            "orderMessageEnable": "true",
        }
        answer = await client.call(UPDATE_NAME_SERVER, body=b"clusterTest=true")
        assert (answer.code, "only orderMessageEnable can" in (answer.remark or "")) == (16, True)
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert "orderTopicConf" not in await remoting.route(TOPIC)
        assert (await remoting.client.ok(GET_KV, {"namespace": ORDERS, "key": TOPIC})).ext == {
            "value": "broker-a:4"
        }


async def test_key_value_configurations(tmp_path: Path) -> None:
    sky = {"namespace": "colours", "key": "sky"}
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        answer = await client.call(GET_KV, sky)
        assert (answer.code, answer.remark) == (22, "No config item, Namespace: colours Key: sky")
        answer = await client.call(LIST_KV, {"namespace": "colours"})
        assert (answer.code, answer.remark) == (22, "No config item, Namespace: colours")
        await client.ok(PUT_KV, sky | {"value": "grey"})
        await client.ok(PUT_KV, sky | {"value": "blau, 蓝"})
        await client.ok(PUT_KV, {"namespace": "colours", "key": "grass", "value": "green"})
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        table = json.loads((await client.ok(LIST_KV, {"namespace": "colours"})).body)
        assert table == {"table": {"sky": "blau, 蓝", "grass": "green"}}
        await client.ok(DELETE_KV, sky)
        await client.ok(DELETE_KV, sky)
        assert (await client.call(GET_KV, sky)).code == 22
        await client.ok(DELETE_KV, {"namespace": "colours", "key": "grass"})
        assert json.loads((await client.ok(LIST_KV, {"namespace": "colours"})).body) == {"table": {}}
        assert (await client.call(PUT_KV, sky)).remark == "the custom field <value> is null"
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert (await remoting.client.call(LIST_KV, {"namespace": "colours"})).code == 22


async def test_cleaning_removes_only_expired_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the first automatic turn could remove the message on a slow machine.
    monkeypatch.setattr(Retention, "start", lambda _retention: asyncio.ensure_future(asyncio.sleep(0)))
    async with running_remoting(retain_bytes=1) as remoting:
        await send(remoting.broker)
        for code in (CLEAN_QUEUES, CLEAN_TOPICS):
            answer = await remoting.client.ok(code)
            assert answer.remark == "nothing to clean: removal leaves no files behind"
        assert sum(
            queue.next_offset - queue.min_offset
            for queue in remoting.broker.registry.topics.get(TOPIC).queues
        )
        assert (await remoting.client.ok(DELETE_OLD)).remark == "1 messages were removed"


@pytest.mark.parametrize(("scheme", "right", "wrong"), [("directories", "F", "R"), ("sorted", "R", "F")])
async def test_timers_cannot_move_between_files_and_rocksdb(
    tmp_path: Path, scheme: TimedSchemeName, right: str, wrong: str
) -> None:
    async with running_remoting(data=str(tmp_path), timed_scheme=scheme) as remoting:
        answer = await remoting.client.ok(SWITCH_TIMERS, {"E_T": right})
        assert answer.remark == "switch timer engine success"
        refused = await remoting.client.call(SWITCH_TIMERS, {"E_T": wrong})
        assert refused.code == 29
        assert str(refused.remark).endswith(f"otherwise in files; it is {scheme}")
        for ext in ({}, {"E_T": ""}, {"E_T": "r"}):
            refused = await remoting.client.call(SWITCH_TIMERS, ext)
            assert (refused.code, str(refused.remark).partition(":")[0]) == (29, "param error")


async def test_there_are_no_pops_to_move(remoting: Remoting) -> None:
    answer = await remoting.client.ok(MOVE_POPS)
    assert answer.remark == "nothing to move: pops are not kept in RocksDB"
