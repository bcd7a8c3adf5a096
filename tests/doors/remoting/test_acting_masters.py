"""Acting masters: slaves that stand in for brokers that are silent, and take no messages."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.doors.remoting.broker_pairs import (
    COMMIT,
    LOCK,
    QUERY,
    QUEUES,
    SEND,
    B,
    Pair,
    bodies,
    message_to,
    running_pair,
    send,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient

UNLOCK, CLUSTER = 42, 106
PLACE = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
QUEUE = {"topic": TOPIC, "brokerName": B, "queueId": 0}
LOCKS = json.dumps({"clientId": "one", "consumerGroup": GROUP, "mqSet": [QUEUE]}).encode()
OTHERS_LOCKS = LOCKS.replace(b'"one"', b'"two"')


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair(slaves=1, failover="acting-master") as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        await send(pair.b, "one")
        yield pair


@asynccontextmanager
async def slave_of(pair: Pair) -> AsyncIterator[RemotingClient]:
    port = pair.broker.registry.brokers.broker_named(B).slave_port
    assert port
    async with pair.remoting.another(port) as client:
        yield client


async def named(pair: Pair, code: int) -> tuple[dict[str, int], dict[str, Any]]:
    """The ports of broker-b by id, and the rest of the answer, in a route or in the list of the cluster."""
    async with pair.remoting.another(pair.remoting.server.namesrv_port) as client:
        answer = json.loads((await client.ok(code, {"topic": TOPIC})).body)
    datas = answer["brokerDatas"] if "brokerDatas" in answer else answer["brokerAddrTable"].values()
    [data] = [each for each in datas if each["brokerName"] == B]
    assert data["enableActingMaster"] is True
    return {id_: int(at.rpartition(":")[2]) for id_, at in data["brokerAddrs"].items()}, answer


async def perm(pair: Pair) -> int:
    _, route = await named(pair, 105)
    [found] = [each["perm"] for each in route["queueDatas"] if each["brokerName"] == B]
    return int(found)


async def test_routes_give_the_slave_id_0_and_make_the_broker_read_only(pair: Pair) -> None:
    registered = pair.broker.registry.brokers.broker_named(B)
    both = {"0": registered.port, "1": registered.slave_port}
    await pair.broker.broker_lives.crash(B)
    await pair.advance(9.9)
    assert ((await named(pair, 105))[0], await perm(pair)) == (both, 6)
    await pair.advance(0.1)
    assert ((await named(pair, 105))[0], await perm(pair)) == ({"0": registered.slave_port}, 4)
    assert (await named(pair, CLUSTER))[0] == {"1": registered.slave_port}
    await pair.broker.broker_lives.start(B)
    assert ((await named(pair, 105))[0], await perm(pair)) == (both, 6)
    await pair.broker.broker_lives.shut_down(B)
    assert ((await named(pair, 105))[0], await perm(pair)) == ({"0": registered.slave_port}, 4)


async def test_an_acting_master_serves_pulls_and_locks_and_takes_no_messages(pair: Pair) -> None:
    async with slave_of(pair) as slave:
        assert json.loads((await slave.ok(LOCK, body=LOCKS)).body) == {"lockOKMQSet": []}
        await pair.broker.broker_lives.shut_down(B)
        assert await bodies(slave) == ["one"]
        assert json.loads((await slave.ok(LOCK, body=LOCKS)).body) == {"lockOKMQSet": [QUEUE]}
        assert json.loads((await slave.ok(LOCK, body=OTHERS_LOCKS)).body) == {"lockOKMQSet": []}
        await slave.ok(UNLOCK, body=LOCKS)
        assert json.loads((await slave.ok(LOCK, body=OTHERS_LOCKS)).body) == {"lockOKMQSet": [QUEUE]}
        refused = await slave.call(SEND, message_to(0), b"new")
        assert (refused.code, (refused.remark or "")[:25]) == (14, "service not available now")
        async with pair.back() as b:  # where the locks of its slave do not hold
            assert json.loads((await b.ok(LOCK, body=LOCKS)).body) == {"lockOKMQSet": [QUEUE]}
            assert (await slave.call(UNLOCK, body=LOCKS)).code == 1
            assert await bodies(b) == ["one"]


async def test_offsets_are_handed_back_when_the_broker_is_back(pair: Pair) -> None:
    for body in "ab":
        await send(pair.b, body)
    await pair.b.ok(COMMIT, {**PLACE, "commitOffset": "1"})
    async with slave_of(pair) as slave:
        await pair.broker.broker_lives.crash(B)
        await slave.ok(COMMIT, {**PLACE, "commitOffset": "3"})
        async with pair.back() as b:
            assert (await b.ok(QUERY, PLACE)).ext["offset"] == "3"


async def test_a_broker_that_name_servers_do_not_hear_has_an_acting_master(pair: Pair) -> None:
    registered = pair.broker.registry.brokers.broker_named(B)
    await pair.broker.broker_lives.cut_off(B, "name-servers")
    await pair.advance(10)
    assert (await named(pair, 105))[0] == {"0": registered.slave_port}
    async with slave_of(pair) as slave:
        assert await bodies(slave) == ["one"]
    await pair.broker.broker_lives.reconnect(B)
    assert (await named(pair, 105))[0] == {"0": registered.port, "1": registered.slave_port}


async def test_an_acting_master_can_be_promoted(pair: Pair) -> None:
    await pair.broker.broker_lives.shut_down(B)
    async with slave_of(pair) as slave:
        await pair.broker.broker_lives.promote(B)
        await send(slave, "two")
        assert await bodies(slave) == ["one", "two"]
    assert await perm(pair) == 6
