"""Slaves that are promoted: they take messages at their addresses, and their brokers come back as slaves."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mocketmq.errors import BrokerStateError
from mocketmq.faults.rule import FaultRule
from mocketmq.settings import BrokerDeclaration
from tests.doors.remoting.broker_pairs import (
    COMMIT,
    LOCK,
    PULL,
    QUERY,
    QUEUES,
    SEND,
    A,
    B,
    Pair,
    bodies,
    message_to,
    pulled,
    running_pair,
    send,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient

BROKER_CONFIG = 26
PLACE = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair(slaves=1) as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        yield pair


@asynccontextmanager
async def at_home(pair: Pair) -> AsyncIterator[RemotingClient]:
    """A client at the port that broker-b had first."""
    async with pair.remoting.another(pair.port_of_b) as client:
        yield client


@asynccontextmanager
async def at_slave(pair: Pair) -> AsyncIterator[RemotingClient]:
    """A client at the port that the slave of broker-b had first."""
    port = pair.broker.registry.brokers.broker_named(B).slave_port
    assert port
    async with pair.remoting.another(port) as client:
        yield client


async def promote(pair: Pair) -> int:
    return (await pair.broker.broker_lives.promote(B)).lost


async def role(client: RemotingClient) -> str:
    """The role of a broker by its configuration."""
    lines = (await client.ok(BROKER_CONFIG)).body.decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)["brokerRole"]


async def behind(pair: Pair) -> None:
    await pair.broker.faults.add_rule(FaultRule(do="replicate-late", by="5s"))


async def routes(pair: Pair, number: int = 0) -> dict[str, str]:
    """Who has which id of broker-b, by the route of the topic at a name server."""
    async with pair.remoting.another(pair.remoting.server.namesrv_ports[number]) as client:
        route = json.loads((await client.ok(105, {"topic": TOPIC})).body)
    registered = pair.broker.registry.brokers.broker_named(B)
    who = {registered.port: "home", registered.slave_port: "slave"}
    return {
        id_: who[int(address.rpartition(":")[2])]
        for each in route["brokerDatas"]
        if each["brokerName"] == B
        for id_, address in each["brokerAddrs"].items()
    }


async def test_writes_go_on_at_the_address_of_the_slave(pair: Pair) -> None:
    await send(pair.b, "one")
    async with at_slave(pair) as connected_before:
        await pair.broker.broker_lives.crash(B)
        assert (await connected_before.call(SEND, message_to(0), b"refused")).code == 2
        assert await promote(pair) == 0
        sent = await send(connected_before, "two")
        assert int(sent["msgId"][8:16], 16) == pair.broker.registry.brokers.broker_named(B).slave_port
        async with at_slave(pair) as slave:
            assert await bodies(slave) == ["one", "two"]
            assert (await slave.ok(PULL, PULL_ONE)).ext["suggestWhichBrokerId"] == "0"
            queue = {"topic": TOPIC, "brokerName": B, "queueId": 0}
            body = json.dumps({"clientId": "one", "consumerGroup": GROUP, "mqSet": [queue]}).encode()
            assert json.loads((await slave.ok(LOCK, body=body)).body) == {"lockOKMQSet": [queue]}


PULL_ONE = {
    **PLACE,
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "0",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
}


async def test_routes_name_the_new_master_at_once_and_the_broker_when_it_is_back(pair: Pair) -> None:
    await send(pair.b, "one")
    lives = pair.broker.broker_lives
    assert await routes(pair) == {"0": "home", "1": "slave"}
    await lives.crash(B)
    await promote(pair)
    assert await routes(pair) == {"0": "slave"}
    await pair.advance(120)
    assert await routes(pair) == {"0": "slave"}
    await lives.start(B)
    assert await routes(pair) == {"0": "slave", "1": "home"}
    await lives.crash(B)
    await pair.advance(120)
    assert await routes(pair) == {"1": "home"}
    await promote(pair)
    assert await routes(pair) == {"0": "home"}
    await lives.start(B)
    assert await routes(pair) == {"0": "home", "1": "slave"}


async def test_the_vip_channel_of_a_promoted_slave_takes_messages(pair: Pair) -> None:
    """Java clients up to 4.4 send to the VIP channel of the master."""
    registered = pair.broker.registry.brokers.broker_named(B)
    assert registered.slave_port
    assert registered.slave_vip_port == registered.slave_port - 2
    async with pair.remoting.another(registered.slave_vip_port) as vip:
        assert (await vip.call(SEND, message_to(0), b"refused")).code == 2
        await pair.broker.broker_lives.crash(B)
        await promote(pair)
        sent = await send(vip, "one")
        assert int(sent["msgId"][8:16], 16) == registered.slave_port
    await pair.broker.broker_lives.crash(B)
    for port in (registered.slave_port, registered.slave_vip_port):
        with pytest.raises(ConnectionRefusedError):
            async with pair.remoting.another(port):
                pass


async def test_a_broker_that_is_back_is_the_slave(pair: Pair) -> None:
    await send(pair.b, "one")
    await pair.broker.broker_lives.crash(B)
    await promote(pair)
    with pytest.raises(ConnectionError):
        async with at_home(pair):
            pass
    await pair.broker.broker_lives.start(B)
    async with at_home(pair) as home, at_slave(pair) as slave:
        assert await bodies(home) == ["one"]
        assert [await role(client) for client in (home, slave)] == ["SLAVE", "ASYNC_MASTER"]
        refused = await home.call(SEND, message_to(0), b"new")
        assert (refused.code, refused.remark) == (
            2,
            "[REJECTREQUEST]system busy, start flow control for a while",
        )
        await send(slave, "two")
        [_, record] = await pulled(home)
        registered = pair.broker.registry.brokers.broker_named(B)
        assert int(record.store_host.rpartition(":")[2]) == registered.slave_port
        await pair.broker.broker_lives.crash(B)
        assert await bodies(home) == ["one", "two"]  # its connection stays, as at each slave
        assert await promote(pair) == 0
        await send(home, "three")
        assert await bodies(home) == ["one", "two", "three"]


async def test_a_promoted_slave_has_the_advertised_host_and_its_own_port() -> None:
    declared = (
        BrokerDeclaration(name=A, advertise="10.0.0.1:7001"),
        BrokerDeclaration(name=B, advertise="10.0.0.2:7002"),
    )
    async with running_pair(slaves=1, declared_brokers=declared) as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        slave_port = pair.broker.registry.brokers.broker_named(B).slave_port

        async def host_in_id(client: RemotingClient) -> str:
            message_id = (await send(client, "one"))["msgId"]
            ip, port = bytes.fromhex(message_id[:8]), int(message_id[8:16], 16)
            return f"{'.'.join(map(str, ip))}:{port}"

        assert await host_in_id(pair.b) == "10.0.0.2:7002"
        async with at_slave(pair) as slave:
            await promote(pair)
            assert await host_in_id(slave) == f"10.0.0.2:{slave_port}"
            async with at_home(pair) as home:
                records = [*await pulled(slave), *await pulled(home)]
                assert {each.store_host for each in records} == {f"10.0.0.2:{slave_port}"}
                await promote(pair)
                assert await host_in_id(home) == "10.0.0.2:7002"


async def test_a_broker_that_runs_changes_places_with_its_slave(pair: Pair) -> None:
    await send(pair.b, "one")
    assert await promote(pair) == 0
    assert await routes(pair) == {"0": "slave", "1": "home"}
    async with at_home(pair) as home, at_slave(pair) as slave:
        assert (await home.call(SEND, message_to(0), b"new")).code == 2
        await send(slave, "two")
        assert await bodies(home) == ["one", "two"]


async def test_what_was_not_replicated_is_lost_and_its_life_says_so(pair: Pair) -> None:
    await behind(pair)
    await send(pair.b, "kept")
    await pair.advance(5)
    await send(pair.b, "lost", UNIQ_KEY="4711")
    await send(pair.b, "lost in time", DELAY="2")
    await send(pair.a, "of another broker")
    await pair.advance(1)
    await pair.broker.broker_lives.shut_down(B)
    await pair.advance(60)
    assert await promote(pair) == 2
    async with at_slave(pair) as slave:
        assert await bodies(slave) == ["kept"]
        await send(slave, "new")
        assert [record.queue_offset for record in await pulled(slave)] == [0, 1]
    assert await bodies(pair.a) == ["of another broker"]
    history = await pair.broker.histories.of("4711")
    assert (history.state, history.life[-1].text) == (
        "lost",
        "lost when broker-b went down, 1s after it was stored",
    )


async def test_messages_that_became_due_meanwhile_are_delivered_by_the_new_master_once(pair: Pair) -> None:
    await send(pair.b, "late", DELAY="2")
    await pair.broker.broker_lives.crash(B)
    await pair.advance(60)
    await promote(pair)
    await pair.advance(0)
    async with at_slave(pair) as slave:
        assert await bodies(slave) == ["late"]
        await pair.broker.broker_lives.start(B)
        await pair.advance(60)
        assert await bodies(slave) == ["late"]


async def test_the_new_master_lacks_offsets_of_the_last_ten_seconds(pair: Pair) -> None:
    for body in "abcd":
        await send(pair.b, body)
    await pair.b.ok(COMMIT, {**PLACE, "commitOffset": "1"})
    await pair.advance(10)
    await pair.b.ok(COMMIT, {**PLACE, "commitOffset": "2"})
    await pair.advance(9)
    await pair.b.ok(COMMIT, {**PLACE, "commitOffset": "4"})
    await pair.broker.broker_lives.crash(B)
    await promote(pair)
    async with at_slave(pair) as slave:
        assert (await slave.ok(QUERY, PLACE)).ext["offset"] == "1"


async def test_the_new_master_has_the_offsets_that_were_committed_at_the_slave(pair: Pair) -> None:
    for body in "abcd":
        await send(pair.b, body)
    await pair.advance(11)
    await pair.b.ok(COMMIT, {**PLACE, "commitOffset": "3"})
    await pair.broker.broker_lives.crash(B)
    async with at_slave(pair) as slave:
        await slave.ok(COMMIT, {**PLACE, "commitOffset": "2"})
        await promote(pair)
        assert (await slave.ok(QUERY, PLACE)).ext["offset"] == "2"
        await pair.broker.broker_lives.start(B)
        assert (await slave.ok(QUERY, PLACE)).ext["offset"] == "2"


async def test_a_broker_that_is_cut_off_ends_when_its_slave_is_promoted(pair: Pair) -> None:
    await send(pair.b, "one")
    await pair.broker.broker_lives.cut_off(B, "name-servers")
    await promote(pair)
    assert await routes(pair) == {"0": "slave"}
    with pytest.raises(ConnectionError):
        async with at_home(pair):
            pass


async def test_only_a_slave_that_runs_is_promoted(pair: Pair) -> None:
    await pair.broker.broker_lives.crash(B)
    await promote(pair)
    with pytest.raises(BrokerStateError, match=r"the slave of broker-b is down; .* Start broker-b first"):
        await promote(pair)
    await pair.broker.broker_lives.crash(B)
    with pytest.raises(BrokerStateError, match="the slave of broker-b is down"):
        await promote(pair)
    await pair.broker.broker_lives.start(B)
    assert await routes(pair) == {"0": "slave", "1": "home"}
    with pytest.raises(BrokerStateError, match="broker-b is running"):
        await pair.broker.broker_lives.start(B)
    async with running_pair() as without:
        with pytest.raises(BrokerStateError, match="broker-b has no slave; start mocketmq with --slaves 1"):
            await promote(without)


async def test_a_reset_of_everything_puts_each_broker_back_in_its_place(pair: Pair) -> None:
    await pair.broker.broker_lives.crash(B)
    await promote(pair)
    async with at_slave(pair) as slave:
        await send(slave, "one")
        await pair.broker.broker_lives.start_all()
        assert (await slave.call(SEND, message_to(0), b"new")).code == 2
    assert await routes(pair) == {"0": "home", "1": "slave"}
    async with at_home(pair) as home:
        await send(home, "two")


async def test_a_frozen_name_server_names_the_old_master() -> None:
    async with running_pair(slaves=1, name_servers=2) as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        pair.broker.name_servers.numbered(2).freeze()
        await pair.broker.broker_lives.crash(B)
        await promote(pair)
        assert await routes(pair, 0) == {"0": "slave"}
        assert await routes(pair, 1) == {"0": "home", "1": "slave"}
        pair.broker.name_servers.numbered(2).correct()
        assert await routes(pair, 1) == {"0": "slave"}


async def controlled(pair: Pair) -> None:
    await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
    await send(pair.b, "one")


@pytest.mark.parametrize("end", ["crash", "shut_down"])
async def test_a_controller_promotes_the_slave_of_a_silent_broker_in_time(end: str) -> None:
    async with running_pair(slaves=1, failover="controller", failover_after_us=10_000_000) as pair:
        await controlled(pair)
        for body, level in (("before", "2"), ("after", "3")):  # due in 5 s and 10 s
            await send(pair.b, body, DELAY=level)
        await pair.advance(1)
        await getattr(pair.broker.broker_lives, end)(B)
        await pair.advance(9)
        assert (await routes(pair)).get("0") == ("home" if end == "crash" else None)
        began_us = pair.broker.clock.now_us()
        await pair.advance(60)
        assert await routes(pair) == {"0": "slave"}
        async with at_slave(pair) as slave:
            assert await bodies(slave) == ["one", "before", "after"]
            delivered = [record.store_ms * 1000 - began_us for record in (await pulled(slave))[1:]]
            assert delivered == [1_000_000, 1_000_000]  # when the slave was promoted, 10 s after the end
            await pair.broker.broker_lives.start(B)
            await pair.advance(60)
            assert await routes(pair) == {"0": "slave", "1": "home"}


async def test_a_controller_leaves_a_broker_alone_that_is_back_in_time() -> None:
    async with running_pair(slaves=1, failover="controller") as pair:
        await controlled(pair)
        await pair.broker.broker_lives.crash(B)
        await pair.advance(9)
        await pair.broker.broker_lives.start(B)
        await pair.broker.broker_lives.cut_off(A, "clients")
        await pair.advance(60)
        assert await routes(pair) == {"0": "home", "1": "slave"}
        assert not any(each.condition.is_promoted for each in pair.broker.registry.brokers)
        await pair.broker.broker_lives.cut_off(B, "name-servers")
        await pair.advance(10)
        assert await routes(pair) == {"0": "slave"}


async def test_a_controller_promotes_every_slave_of_a_cluster_that_crashes_as_a_whole() -> None:
    async with running_pair(slaves=1, failover="controller") as pair:
        await controlled(pair)
        for name in (A, B):
            await pair.broker.broker_lives.crash(name)
        await pair.advance(10)
        assert [each.condition.is_promoted for each in pair.broker.registry.brokers] == [True, True]


async def test_an_outage_by_a_rule_closes_the_port_of_the_new_master(pair: Pair) -> None:
    await promote(pair)
    await pair.broker.faults.add_rule(FaultRule(do="broker-away", broker=B))
    with pytest.raises(ConnectionError):
        async with at_slave(pair):
            pass
    async with at_home(pair) as home:
        assert await bodies(home) == []
    assert await routes(pair) == {"0": "slave", "1": "home"}
