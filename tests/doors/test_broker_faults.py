"""Fault rules of one broker of a cluster, over real sockets."""

from collections.abc import AsyncIterator

import pytest

from mocketmq.errors import InvalidArgumentError
from mocketmq.faults.rule import FaultRule
from tests.doors.remoting.broker_pairs import A, B, Pair, bodies, message_to, running_pair, send
from tests.doors.test_outages import listening
from tests.support.brokers import TOPIC
from tests.support.grpc import running_grpc

BUSY, OK, SEND = 2, 0, 10
GRPC_BUSY, GRPC_OK = 42_900, 20_000


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair() as pair:
        yield pair


async def codes(pair: Pair) -> list[int]:
    """Send a message to each broker, and return the codes of the answers."""
    return [(await client.call(SEND, message_to(0), b"x")).code for client in (pair.a, pair.b)]


async def test_one_broker_is_busy_for_remoting_clients(pair: Pair) -> None:
    await pair.broker.faults.add_rule(FaultRule(do="refuse", error="SYSTEM_BUSY", broker=B))
    assert await codes(pair) == [OK, BUSY]
    [fault] = pair.broker.faults
    assert (fault.matched, fault.fired) == (1, 1)


async def test_a_rule_of_a_broker_spares_the_name_server(pair: Pair) -> None:
    await pair.broker.faults.add_rule(FaultRule(do="never", operation="route", broker=A))
    assert await pair.names() == [A, B]


async def test_the_ports_of_one_broker_close(pair: Pair) -> None:
    registered = pair.broker.registry.brokers
    ports = [port for each in registered for port in (each.port, each.vip_port) if port]
    await pair.broker.faults.add_rule(FaultRule(do="broker-away", broker=B, name="gone"))
    await pair.b.closed()
    assert await listening(*ports) == [True, True, False, False]
    await send(pair.a, "still served")
    await pair.broker.faults.remove_rules("gone")
    assert await listening(*ports) == [True] * 4


async def test_due_messages_of_one_broker_are_held(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        await send(client, "late", DELAY="1")
    await pair.broker.faults.add_rule(FaultRule(do="hold", broker=B, name="jam"))
    await pair.advance(5)
    assert (await bodies(pair.a), await bodies(pair.b)) == (["late"], [])
    assert await pair.broker.held.counts() == {"jam": 1}


async def test_receives_and_acknowledgements_over_grpc_are_of_a_broker() -> None:
    async with running_grpc(brokers=2) as (emulator, client):
        for number in range(40):
            await client.send(client.message(str(number)))
        queues = [{"broker": {"name": name}, "id": -1} for name in (A, B)]
        [at_a, *_], [at_b, *_] = [await client.receive(message_queue=queue) for queue in queues]
        await emulator.broker.faults.add_rule(FaultRule(do="refuse", error="SYSTEM_BUSY", broker=B))
        found = [
            (await client.try_receive("billing", TOPIC, message_queue=queue))[0].code for queue in queues
        ]
        assert found[1] == GRPC_BUSY != found[0]
        assert (await client.ack(at_a)).status.code == GRPC_OK
        assert (await client.ack(at_b)).status.code == GRPC_BUSY
        assert (await client.send(client.message("for any broker"))).status.code == GRPC_OK


async def test_the_only_broker_has_all_requests() -> None:
    async with running_grpc() as (emulator, client):
        await emulator.broker.faults.add_rule(FaultRule(do="refuse", error="SYSTEM_BUSY", broker=A))
        assert (await client.send(client.message("refused"))).status.code == GRPC_BUSY
        assert emulator.doors.grpc
        await emulator.broker.faults.add_rule(FaultRule(do="broker-away", broker=A))
        assert await listening(emulator.doors.grpc.port) == [False]


async def test_an_unknown_broker_is_refused(pair: Pair) -> None:
    with pytest.raises(InvalidArgumentError, match="broker is 'broker-c'; allowed: broker-a or broker-b"):
        await pair.broker.faults.add_rule(FaultRule(do="close", broker="broker-c"))


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (FaultRule(do="broker-away", broker=B, door="grpc"), "remoting with broker"),
        (FaultRule(do="close", broker=B, door="http"), "remoting or grpc with broker"),
    ],
)
async def test_a_door_of_the_whole_cluster_is_refused_for_one_broker(rule: FaultRule, allowed: str) -> None:
    async with running_grpc(brokers=2) as (emulator, _):
        with pytest.raises(InvalidArgumentError, match=f"door is '{rule.door}'; allowed: {allowed}; "):
            await emulator.broker.faults.add_rule(rule)
        assert not [*emulator.broker.faults]
