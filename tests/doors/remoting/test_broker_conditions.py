"""Brokers that run and are cut off from clients or name servers, or are read-only."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from mocketmq.broker.registry.brokers import ROUTE_LIFETIME_US
from mocketmq.errors import BrokerDownError, BrokerStateError, NoPermissionError
from mocketmq.message.message import Message
from tests.doors.remoting.broker_pairs import QUEUES, SEND, A, B, Pair, bodies, message_to, running_pair, send
from tests.doors.remoting.gates import until
from tests.support.brokers import TOPIC
from tests.support.grpc import running_grpc
from tests.support.remoting import ClosedError

NO_PERMISSION, READ, READ_WRITE = 16, 4, 6
READ_QUEUE, GRPC_FAILED = 2, 50_001
AT_B = {"broker": {"name": B}, "id": -1}


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair() as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, READ_WRITE)
        yield pair


async def perms(pair: Pair) -> dict[str, int]:
    """Return the permission of the topic in its route, by broker."""
    async with pair.remoting.another(pair.remoting.server.namesrv_port) as client:
        answer = await client.ok(105, {"topic": TOPIC})
    return {each["brokerName"]: each["perm"] for each in json.loads(answer.body)["queueDatas"]}


async def test_a_broker_cut_off_from_clients_answers_once_it_is_reconnected(pair: Pair) -> None:
    await pair.broker.broker_lives.cut_off(B, "clients")
    early = pair.b.ask(SEND, message_to(0), b"kept by the network")
    async with pair.remoting.another(pair.port_of_b) as late_client:
        late = late_client.ask(SEND, message_to(0), b"from a new connection")
        await send(pair.a, "the other broker works")
        await pair.advance(600)
        assert await pair.names() == [A, B]
        assert not early.done()
        assert not late.done()
        await pair.broker.broker_lives.reconnect(B)
        assert [(await one).code for one in (early, late)] == [0, 0]
    assert sorted(await bodies(pair.b)) == ["from a new connection", "kept by the network"]


async def test_requests_to_a_broker_that_is_cut_off_count_for_the_memory_limit(pair: Pair) -> None:
    server, body = pair.remoting.server, bytes(1 << 20)
    connections = server.hub.connections
    await pair.broker.broker_lives.cut_off(B, "clients")
    async with pair.remoting.another(pair.port_of_b) as leaving:
        for client in (pair.b, leaving):
            client.ask(SEND, message_to(0), body)
        await until(lambda: [each.frames for each in connections if each.port == pair.port_of_b] == [1, 1])
        assert 2 * len(body) < server.held_bytes < 3 * len(body)
    await pair.broker.broker_lives.crash(B)
    await until(lambda: not server.held_bytes)


async def test_due_messages_become_visible_at_a_broker_that_is_cut_off(pair: Pair) -> None:
    await send(pair.b, "late", DELAY="1")
    await pair.broker.broker_lives.cut_off(B, "clients")
    await pair.advance(1)
    await pair.broker.broker_lives.reconnect(B)
    assert await bodies(pair.b) == ["late"]


async def test_a_crash_answers_nothing_that_came_while_the_broker_was_cut_off(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await lives.cut_off(B, "clients")
    lost = pair.b.ask(SEND, message_to(0), b"lost")
    await send(pair.a, "a turn of both connections")
    await lives.crash(B)
    with pytest.raises(ClosedError):
        await lost
    async with pair.back() as b:
        assert await bodies(b) == []


async def test_other_doors_do_not_reach_a_broker_that_is_cut_off_from_clients() -> None:
    async with running_grpc(brokers=2) as (emulator, client):
        broker = emulator.broker
        for number in range(20):
            await client.send(client.message(str(number)))
        waiting = asyncio.create_task(
            client.try_receive("others", TOPIC, wait_s=60, message_queue={"broker": {"name": B}, "id": -1})
        )
        await broker.broker_lives.cut_off(B, "clients")
        status, _ = await client.try_receive("billing", TOPIC, message_queue=AT_B)
        assert (status.code, "broker-b is cut off from clients" in status.message) == (GRPC_FAILED, True)
        await waiting
        for _ in range(20):
            sent = await broker.sender.send(Message(TOPIC, b"x", {}))
            assert broker.registry.brokers.name_of(sent.queue) == A
        with pytest.raises(
            BrokerDownError, match=r"broker-b, which .*, is cut off from clients; reconnect it"
        ):
            await broker.sender.send(Message(TOPIC, b"x", {}, 1))
        await broker.broker_lives.reconnect(B)
        assert await client.receive(message_queue=AT_B)


async def test_routes_forget_a_broker_that_name_servers_do_not_hear(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await lives.cut_off(B, "name-servers")
    await pair.broker.mover.advance(ROUTE_LIFETIME_US - 1)
    assert await pair.names() == [A, B]
    await pair.broker.mover.advance(1)
    assert await pair.names() == [A]
    await send(pair.b, "still served")
    await lives.reconnect(B)
    assert await pair.names() == [A, B]


async def test_a_crash_does_not_prolong_the_route_of_a_silent_broker(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await lives.cut_off(B, "name-servers")
    await pair.advance(60)
    await lives.crash(B)
    await pair.advance(60)
    assert await pair.names() == [A]


async def test_a_read_only_broker_refuses_sends_and_routes_say_so(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await send(pair.b, "before")
    await lives.set_read_only(B, is_read_only=True)
    assert await perms(pair) == {A: READ_WRITE, B: READ}
    refused = await pair.b.call(SEND, message_to(0), b"x")
    assert (refused.code, refused.remark) == (
        NO_PERMISSION,
        "the broker[broker-b] sending message is forbidden",
    )
    assert await bodies(pair.b) == ["before"]
    for _ in range(20):
        sent = await pair.broker.sender.send(Message(TOPIC, b"x", {}))
        assert pair.broker.registry.brokers.name_of(sent.queue) == A
    await lives.set_read_only(A, is_read_only=True)
    with pytest.raises(NoPermissionError):
        await pair.broker.sender.send(Message(TOPIC, b"x", {}))
    await lives.set_read_only(B, is_read_only=False)
    await send(pair.b, "after")
    assert await perms(pair) == {A: READ, B: READ_WRITE}


async def test_routes_over_grpc_say_that_a_broker_is_read_only() -> None:
    async with running_grpc(brokers=2) as (emulator, client):
        await client.call("QueryRoute", topic={"name": TOPIC})
        await emulator.broker.broker_lives.set_read_only(B, is_read_only=True)
        answer = await client.call("QueryRoute", topic={"name": TOPIC})
        assert {queue.permission for queue in answer.message_queues if queue.broker.name == B} == {READ_QUEUE}
        assert {queue.permission for queue in answer.message_queues if queue.broker.name == A} != {READ_QUEUE}


async def test_a_reset_heals_all_brokers_and_a_broker_that_is_down_has_no_other_trouble(pair: Pair) -> None:
    lives = pair.broker.broker_lives
    await lives.cut_off(A, "name-servers")
    await lives.set_read_only(B, is_read_only=True)
    await pair.broker.full_reset.run(None, forget=False)
    await pair.advance(600)
    assert await perms(pair) == {A: READ_WRITE, B: READ_WRITE}
    await lives.crash(B)
    with pytest.raises(BrokerStateError, match="broker-b is crashed; allowed: running"):
        await lives.cut_off(B, "clients")
