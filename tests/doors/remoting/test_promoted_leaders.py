"""Static topics while slaves are promoted: logical queues keep their offsets, messages and brokers."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mocketmq.faults.rule import FaultRule
from tests.doors.remoting.broker_pairs import QUERY, SEND, A, B, Pair, message_to, running_pair, send
from tests.doors.remoting.static_topics import (
    ALTERNATING,
    AT_A,
    BLOCK,
    Item,
    commit,
    create,
    detail,
    move,
    move_between,
    offset_of,
    pull,
    pull_all,
    put,
)
from tests.support.brokers import TOPIC
from tests.support.remoting import RemotingClient

BUSY, SYSTEM_ERROR, NOT_LEADER, ROUTE = 2, 1, 501, 105


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair(slaves=1) as pair:
        yield pair


@asynccontextmanager
async def at_slave(pair: Pair, name: str) -> AsyncIterator[RemotingClient]:
    """A client at the port that the broker's slave had first."""
    port = pair.broker.registry.brokers.broker_named(name).slave_port
    assert port
    async with pair.remoting.another(port) as client:
        yield client


async def fail_over(pair: Pair, name: str) -> int:
    """Crash a broker and promote its slave. Returns the number of lost messages."""
    await pair.broker.broker_lives.crash(name)
    return (await pair.broker.broker_lives.promote(name)).lost


async def test_logical_queues_go_on_at_the_promoted_slave_of_their_leader(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    for number, client in enumerate((pair.a, pair.b, pair.a, pair.b)):
        await send(client, f"{number}-0", number)
    await pair.advance(20)
    await commit(pair.b, 1, 3)
    await pair.advance(20)
    await pair.broker.broker_lives.crash(B)
    async with at_slave(pair, B) as slave:
        assert (await slave.call(SEND, message_to(1), b"early")).code == BUSY
        await pair.broker.broker_lives.promote(B)
        assert (await send(slave, "1-1", 1))["queueOffset"] == "1"
        assert (await slave.call(SEND, message_to(0), b"astray")).code == NOT_LEADER
        assert await pull_all(slave, number=1) == [("1-0", 0), ("1-1", 1)]
        assert await pull_all(slave, number=3) == [("3-0", 0)]
        assert await offset_of(slave, QUERY, 3) == 1
        await pair.broker.broker_lives.start(B)
        async with pair.remoting.another(pair.port_of_b) as home:
            assert await pull_all(home, number=1) == [("1-0", 0), ("1-1", 1)]
            assert (await home.call(SEND, message_to(1), b"late")).code == BUSY
    for number in (0, 2):
        assert await pull_all(pair.a, number=number) == [(f"{number}-0", 0)]


async def test_routes_keep_the_mappings_of_a_leader_that_fails_over(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    route = await pair.remoting.route(TOPIC)
    mappings = route["topicQueueMappingByBroker"]
    [before] = [each for each in route["brokerDatas"] if each["brokerName"] == B]
    await pair.broker.broker_lives.crash(B)
    await pair.advance(120)
    async with pair.remoting.another(pair.remoting.server.namesrv_port) as name_server:

        async def route_now() -> tuple[dict[str, str], object]:
            route = json.loads((await name_server.ok(ROUTE, {"topic": TOPIC})).body)
            [at_b] = [each["brokerAddrs"] for each in route["brokerDatas"] if each["brokerName"] == B]
            return at_b, route["topicQueueMappingByBroker"]

        master, slave = before["brokerAddrs"]["0"], before["brokerAddrs"]["1"]
        assert await route_now() == ({"1": slave}, mappings)
        await pair.broker.broker_lives.promote(B)
        assert await route_now() == ({"0": slave}, mappings)
        await pair.broker.broker_lives.start(B)
        assert await route_now() == ({"0": slave, "1": master}, mappings)


async def test_delayed_messages_reach_their_logical_queue_once(pair: Pair) -> None:
    await create(pair, ALTERNATING)
    await send(pair.b, "due", 1, DELAY="2")
    await pair.broker.broker_lives.crash(B)
    await pair.advance(60)
    await pair.broker.broker_lives.promote(B)
    await pair.advance(0)
    async with at_slave(pair, B) as slave:
        assert await pull_all(slave, number=1) == [("due", 0)]
        await pair.broker.broker_lives.start(B)
        await pair.advance(60)
        assert await pull_all(slave, number=1) == [("due", 0)]


async def test_older_messages_come_from_the_promoted_slave_of_their_broker(pair: Pair) -> None:
    await move_between(pair, "ab", "c")
    await pair.broker.broker_lives.crash(A)
    assert (await pull(pair.b, 0)).code == SYSTEM_ERROR
    await pair.broker.broker_lives.promote(A)
    assert await pull_all(pair.b) == [("a", 0), ("b", 1), ("c", BLOCK)]
    await commit(pair.b, BLOCK + 1)
    await fail_over(pair, B)
    async with at_slave(pair, B) as slave:
        assert await pull_all(slave) == [("a", 0), ("b", 1), ("c", BLOCK)]
        assert await pull_all(slave, BLOCK + 1) == []


async def test_a_group_goes_back_by_what_its_offsets_lack_at_the_new_leader(pair: Pair) -> None:
    await move_between(pair, "ab", "cd")
    await commit(pair.b, BLOCK + 1)
    await pair.advance(20)
    await commit(pair.b, BLOCK + 2)
    await fail_over(pair, B)
    async with at_slave(pair, B) as slave:
        assert await offset_of(slave, QUERY) == BLOCK + 1
        assert await pull_all(slave, BLOCK + 1) == [("d", BLOCK + 1)]


async def test_a_group_that_lost_its_first_commit_at_the_new_leader_repeats_its_messages(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await commit(pair.a, 1)
    await pair.advance(20)
    await move(pair)
    await send(pair.b, "b")
    await commit(pair.b, BLOCK + 1)
    await fail_over(pair, B)
    async with at_slave(pair, B) as slave:
        assert await pull_all(slave, await offset_of(slave, QUERY)) == [("b", BLOCK)]


async def test_logical_offsets_of_lost_messages_are_used_again(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    await pair.broker.faults.add_rule(FaultRule(do="replicate-late", by="5s"))
    await send(pair.b, "kept")
    await pair.advance(5)
    await send(pair.b, "lost")
    assert await fail_over(pair, B) == 1
    async with at_slave(pair, B) as slave:
        assert (await send(slave, "new"))["queueOffset"] == str(BLOCK + 1)
        assert await pull_all(slave) == [("a", 0), ("kept", BLOCK), ("new", BLOCK + 1)]


async def test_a_logical_queue_moves_to_a_promoted_slave(pair: Pair) -> None:
    await create(pair, AT_A)
    await send(pair.a, "a")
    await move(pair)
    await send(pair.b, "b")
    await fail_over(pair, A)
    items: list[Item] = [(0, 0, A, 0), (1, 0, B, BLOCK), (2, 1, A, 2 * BLOCK)]
    async with at_slave(pair, A) as slave:
        await put(slave, detail(A, {0: items}, epoch=3), 2)
        await put(pair.b, detail(B, {0: items}, epoch=3), 1)
        assert (await send(slave, "c"))["queueOffset"] == str(2 * BLOCK)
        assert await pull_all(slave) == [("a", 0), ("b", BLOCK), ("c", 2 * BLOCK)]
        assert (await pair.b.call(SEND, message_to(0), b"late")).code == NOT_LEADER
    await pair.broker.broker_lives.start(A)
    async with pair.remoting.another() as home:
        assert await pull_all(home) == [("a", 0), ("b", BLOCK), ("c", 2 * BLOCK)]
