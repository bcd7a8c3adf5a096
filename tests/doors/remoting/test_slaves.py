"""Slaves: consumers read from them while their broker is down, and they take nothing."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import UNSET, UnsetType

from mocketmq.errors import InvalidArgumentError, SettingError
from mocketmq.faults.rule import FaultRule
from mocketmq.remoting.listening.ports import bind_ports
from mocketmq.remoting.wire.record import decode_records
from mocketmq.settings import Settings
from tests.doors.remoting.broker_pairs import (
    COMMIT,
    LOCK,
    MAX_OFFSET,
    PULL,
    QUERY,
    QUEUES,
    SEND,
    A,
    B,
    Pair,
    bodies,
    message_to,
    running_pair,
    send,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient, running_remoting

HEARTBEAT, SEND_BACK, END, RESET, CREATE_TOPIC, LIST, CLUSTER, CONFIG = 34, 36, 37, 222, 17, 38, 106, 26


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair(slaves=1) as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        yield pair


@asynccontextmanager
async def slave_of(pair: Pair, name: str = B) -> AsyncIterator[RemotingClient]:
    port = pair.broker.registry.brokers.broker_named(name).slave_port
    assert port
    async with pair.remoting.another(port) as client:
        yield client


async def addresses(pair: Pair) -> dict[str, dict[str, int]]:
    """The ports in the route of the topic, by broker and id."""
    async with pair.remoting.another(pair.remoting.server.namesrv_port) as client:
        route = json.loads((await client.ok(105, {"topic": TOPIC})).body)
    return {
        each["brokerName"]: {
            id_: int(address.rpartition(":")[2]) for id_, address in each["brokerAddrs"].items()
        }
        for each in route["brokerDatas"]
    }


def pull_at(offset: int, *, flags: int = 0, wait_ms: int = 0) -> dict[str, str]:
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(flags),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(wait_ms),
        "subVersion": "0",
    }


def place(**more: str) -> dict[str, str]:
    return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0", **more}


async def test_routes_and_cluster_name_slaves_with_ports_of_their_own(pair: Pair) -> None:
    await send(pair.b, "one")
    brokers = {each.name: {"0": each.port, "1": each.slave_port} for each in pair.broker.registry.brokers}
    assert await addresses(pair) == brokers
    assert len({port for each in brokers.values() for port in each.values()}) == 4
    table = json.loads((await pair.a.ok(CLUSTER)).body)["brokerAddrTable"]
    assert {name: list(each["brokerAddrs"]) for name, each in table.items()} == {A: ["0", "1"], B: ["0", "1"]}
    doors = pair.remoting.server.broker_doors
    assert {name: each.slave.port for name, each in doors.items() if each.slave} == {
        name: ports["1"] for name, ports in brokers.items()
    }


async def test_routes_name_the_slave_alone_once_they_forget_its_broker(pair: Pair) -> None:
    await send(pair.b, "one")
    both = (await addresses(pair))[B]
    await pair.broker.broker_lives.crash(B)
    assert (await addresses(pair))[B] == both
    await pair.advance(120)
    assert (await addresses(pair))[B] == {"1": both["1"]}
    await pair.broker.broker_lives.start(B)
    assert (await addresses(pair))[B] == both
    await pair.broker.broker_lives.shut_down(B)
    assert (await addresses(pair))[B] == {"1": both["1"]}
    hidden = next(iter(pair.broker.name_servers))
    hidden.set_listed(B, is_listed=False)
    assert B not in await addresses(pair)


async def test_messages_are_pulled_from_the_slave_while_its_broker_is_down(pair: Pair) -> None:
    for body in "ab":
        await send(pair.b, body)
    await pair.broker.broker_lives.crash(B)
    async with slave_of(pair) as slave:
        assert await bodies(slave) == ["a", "b"]
        pulled = await slave.ok(PULL, pull_at(1))
        assert pulled.ext["suggestWhichBrokerId"] == "0"
        [record] = decode_records(pulled.body)
        assert (record.body, record.queue_offset) == (b"b", 1)
        assert (await slave.ok(MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})).ext["offset"] == "2"
        assert (await slave.call(PULL, pull_at(2))).code == 19
    async with slave_of(pair, A) as other:
        assert await bodies(other) == []


async def test_a_slave_has_the_role_the_id_and_the_port_of_its_own(pair: Pair) -> None:
    registered = pair.broker.registry.brokers.broker_named(B)

    async def told(client: RemotingClient) -> tuple[str, ...]:
        lines = (await client.ok(CONFIG)).body.decode().splitlines()
        config = dict(line.split("=", 1) for line in lines)
        return tuple(config[name] for name in ("brokerName", "brokerId", "brokerRole", "listenPort"))

    assert await told(pair.b) == (B, "0", "ASYNC_MASTER", str(registered.port))
    async with slave_of(pair) as slave:
        assert await told(slave) == (B, "1", "SLAVE", str(registered.slave_port))


async def test_messages_from_the_slave_have_the_ids_of_the_broker(pair: Pair) -> None:
    sent = await send(pair.b, "one")
    async with slave_of(pair) as slave:
        [record] = decode_records((await slave.ok(PULL, pull_at(0))).body)
    assert int(sent["msgId"][8:16], 16) == pair.port_of_b == int(record.store_host.rpartition(":")[2])


async def test_a_pull_waits_at_the_slave_while_its_broker_runs(pair: Pair) -> None:
    await send(pair.b, "one")
    async with slave_of(pair) as slave:
        found = await slave.ok(PULL, pull_at(0))
        assert found.ext["suggestWhichBrokerId"] == "0"  # sends the consumer to the broker
        waiting = slave.ask(PULL, pull_at(1, flags=2, wait_ms=20_000))
        await slave.ok(MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})
        await send(pair.b, "two")
        [record] = decode_records((await waiting).body)
        assert record.body == b"two"
        assert (await slave.call(PULL, pull_at(2))).code == 19


async def test_a_slave_corrects_no_offset(pair: Pair) -> None:
    await send(pair.b, "one")
    async with slave_of(pair) as slave:
        for offset in (5, -1):
            wrong = await slave.call(PULL, pull_at(offset))
            assert (wrong.code, wrong.ext["nextBeginOffset"]) == (20, str(offset))
        moved = await pair.b.call(PULL, pull_at(-1))
        assert (moved.code, moved.ext["nextBeginOffset"]) == (21, "0")


async def test_the_group_says_which_broker_to_pull_from(pair: Pair) -> None:
    await send(pair.b, "one")
    config = {"groupName": GROUP, "brokerId": 1}
    for client in (pair.a, pair.b):
        await client.ok(200, body=json.dumps(config).encode())
    async with slave_of(pair) as slave:
        for client in (pair.b, slave):
            assert (await client.ok(PULL, pull_at(0))).ext["suggestWhichBrokerId"] == "1"


async def test_a_slave_keeps_its_connections_when_its_broker_goes(pair: Pair) -> None:
    await send(pair.b, "one")
    async with slave_of(pair) as slave:
        await slave.ok(PULL, pull_at(0))
        await pair.broker.broker_lives.crash(B)
        assert await bodies(slave) == ["one"]


REFUSED: list[tuple[int, dict[str, str], int, str]] = [
    (SEND, message_to(0), 2, "[REJECTREQUEST]system busy, start flow control for a while"),
    (
        SEND_BACK,
        {"offset": "0", "group": GROUP, "delayLevel": "1", "originMsgId": "", "originTopic": TOPIC},
        2,
        "[REJECTREQUEST]system busy, start flow control for a while",
    ),
    (
        RESET,
        {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"},
        1,
        "Can not reset offset in slave broker",
    ),
    (
        CREATE_TOPIC,
        {
            "topic": "new",
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
        },
        1,
        "the slave of broker-b only serves reads; send this request to broker-b",
    ),
]


@pytest.mark.parametrize(("code", "ext", "answer", "remark"), REFUSED)
async def test_a_slave_takes_nothing(
    pair: Pair, code: int, ext: dict[str, str], answer: int, remark: str
) -> None:
    async with slave_of(pair) as slave:
        for state in ("running", "crashed"):
            refused = await slave.call(code, ext, b"new")
            assert (refused.code, refused.remark) == (answer, remark)
            if state == "running":
                await pair.broker.broker_lives.crash(B)
    async with pair.back() as b:
        assert await bodies(b) == []
    assert pair.broker.registry.topics.find_topic("new") is None


async def test_slaves_of_4x_refuse_messages_in_their_own_words() -> None:
    async with running_pair(slaves=1, server_version=409) as pair, slave_of(pair) as slave:
        refused = await slave.call(SEND, message_to(0), b"new")
        assert (refused.code, (refused.remark or "")[:25]) == (14, "service not available now")
        _, (code, ext, *_), *_ = REFUSED
        refused = await slave.call(code, ext)
        assert (refused.code, refused.remark) == (1, "SERVICE_NOT_AVAILABLE")


async def test_a_slave_locks_no_queue(pair: Pair) -> None:
    queue = {"topic": TOPIC, "brokerName": B, "queueId": 0}
    body = json.dumps({"clientId": "one", "consumerGroup": GROUP, "mqSet": [queue]}).encode()
    async with slave_of(pair) as slave:
        assert json.loads((await slave.ok(LOCK, body=body)).body) == {"lockOKMQSet": []}
        assert json.loads((await pair.b.ok(LOCK, body=body)).body) == {"lockOKMQSet": [queue]}


async def test_offsets_committed_at_the_slave_are_gone_when_the_broker_is_back(pair: Pair) -> None:
    for body in "abc":
        await send(pair.b, body)
    await pair.b.ok(COMMIT, place(commitOffset="1"))
    async with slave_of(pair) as slave:
        await slave.ok(COMMIT, place(commitOffset="3"))
        assert (await slave.ok(QUERY, place())).ext["offset"] == "1"  # as its broker, which runs
        await pair.broker.broker_lives.crash(B)
        await slave.ok(COMMIT, place(commitOffset="2"))
        assert (await slave.ok(QUERY, place())).ext["offset"] == "2"
        async with pair.back() as b:
            assert (await b.ok(QUERY, place())).ext["offset"] == "1"
            assert (await slave.ok(QUERY, place())).ext["offset"] == "1"


async def test_a_consumer_is_one_member_although_it_is_at_broker_and_slave() -> None:
    consumer: dict[str, Any] = {
        "groupName": GROUP,
        "subscriptionDataSet": [{"topic": TOPIC, "subString": "*"}],
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
    }
    beat = {"clientID": "one", "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "makers"}]}
    async with running_remoting(slaves=1) as remoting:
        registered = remoting.broker.registry.brokers[0]
        assert registered.slave_port
        async with remoting.another(registered.slave_port) as slave:
            for client in (remoting.client, slave):
                await client.ok(HEARTBEAT, body=json.dumps(beat).encode())
            for client in (remoting.client, slave):
                listed = await client.ok(LIST, {"consumerGroup": GROUP})
                assert json.loads(listed.body) == {"consumerIdList": ["one"]}
            producers = [one for one in remoting.broker.registry.clients if one.producers]
            assert len(producers) == 1


def test_an_address_with_a_port_cannot_name_a_slave() -> None:
    with pytest.raises(SettingError, match="a host without a port, with several brokers or slaves"):
        bind_ports(Settings(slaves=1, advertise="broker.example:10911"))


# Lag


async def behind(pair: Pair, broker: str | UnsetType = UNSET) -> str:
    return (await pair.broker.faults.add_rule(FaultRule(do="replicate-late", by="5s", broker=broker))).name


async def test_a_slave_that_is_behind_shows_what_it_has(pair: Pair) -> None:
    name = await behind(pair, B)
    async with slave_of(pair) as slave, slave_of(pair, A) as other:
        await send(pair.a, "at once")
        assert await bodies(other) == ["at once"]
        await send(pair.b, "one")
        assert (await slave.call(PULL, pull_at(0))).code == 20
        await pair.advance(4)
        await send(pair.b, "two")
        await pair.advance(1)
        assert await bodies(slave) == ["one"]
        assert (await slave.ok(MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})).ext["offset"] == "1"
        ahead = await slave.call(PULL, pull_at(2))
        assert (ahead.code, ahead.ext["nextBeginOffset"]) == (20, "2")
        await pair.advance(4)
        assert await bodies(slave) == ["one", "two"]
        await send(pair.b, "three")
        await pair.broker.faults.remove_rules(name)
        assert await bodies(slave) == ["one", "two", "three"]


async def test_a_slave_stays_behind_until_its_broker_is_back(pair: Pair) -> None:
    await behind(pair)
    await send(pair.b, "one")
    await pair.advance(5)
    await send(pair.b, "two")
    assert (await pair.broker.broker_lives.crash(B, 0)).lost == 0
    async with slave_of(pair) as slave:
        await pair.broker.faults.clear()
        await pair.advance(60)
        assert await bodies(slave) == ["one"]
        at_end = await slave.call(PULL, pull_at(1, flags=2, wait_ms=20_000))
        assert at_end.code == 19
        ahead = await slave.call(PULL, pull_at(2))
        assert (ahead.code, ahead.ext["nextBeginOffset"]) == (20, "2")
        async with pair.back() as b:
            assert await bodies(b) == await bodies(slave) == ["one", "two"]


async def test_a_crash_loses_what_is_not_replicated(pair: Pair) -> None:
    await behind(pair)
    for client in (pair.a, pair.b):
        await send(client, "one")
    await pair.advance(5)
    for client in (pair.a, pair.b):
        await send(client, "two")
    assert (await pair.broker.broker_lives.crash(B, "unreplicated")).lost == 1
    async with slave_of(pair) as slave:
        assert await bodies(slave) == ["one"]
    async with pair.back() as b:
        assert (await bodies(b), await bodies(pair.a)) == (["one"], ["one", "two"])
        await pair.broker.faults.clear()
        await send(b, "three")
        assert (await pair.broker.broker_lives.crash(B, "unreplicated")).lost == 0


async def test_only_a_cluster_with_slaves_has_any_that_are_behind() -> None:
    async with running_pair() as pair:
        with pytest.raises(InvalidArgumentError, match="replicate-late needs slaves; start with --slaves 1"):
            await behind(pair)
