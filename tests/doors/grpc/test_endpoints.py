"""An endpoint of each broker for gRPC clients (`proxy_mode` `local`), one of which is taken away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.app import Emulator
from mocketmq.broker.registry.topic_config import QueuesAtBroker
from mocketmq.errors import ListenError
from mocketmq.faults.rule import FaultRule
from mocketmq.grpc_proxy.messages import message_class
from tests.doors.remoting.gates import until
from tests.hostile.http2 import RawHttp2, framed, raw_http2
from tests.support.brokers import TOPIC
from tests.support.grpc import FIFO, GrpcClient, bodies, grpc_client, running_grpc
from tests.support.patience import PATIENCE_S

Command = message_class("TelemetryCommand")

A, B = "broker-a", "broker-b"
OK, NO_MESSAGE, TOPIC_NOT_FOUND, FAILED = 20_000, 40_401, 40_402, 50_001
LOST = (OSError, StreamTerminatedError, GRPCError)


class Cluster:
    """Two brokers, with a client at the endpoint of each."""

    def __init__(self, emulator: Emulator, a: GrpcClient, b: GrpcClient) -> None:
        self.emulator = emulator
        self.broker = emulator.broker
        self.a, self.b = a, b

    async def endpoints(self, topic: str = TOPIC) -> dict[str, tuple[str, int]]:
        """The endpoint of each broker in the topic's route."""
        answer = await self.a.call(
            "QueryRoute",
            topic={"name": topic},
            endpoints={"scheme": 1, "addresses": [{"host": "127.0.0.1", "port": self.a.port}]},
        )
        found: dict[str, tuple[str, int]] = {}
        for queue in answer.message_queues:
            [address] = queue.broker.endpoints.addresses
            assert found.setdefault(queue.broker.name, (address.host, address.port)) == (
                address.host,
                address.port,
            )
        return found


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with running_grpc(brokers=2, proxy_mode="local") as (emulator, a):
        port = emulator.broker.registry.brokers.broker_named(B).grpc_port
        assert port is not None
        async with grpc_client(port, client_id=a.metadata["x-mq-client-id"]) as b:
            yield Cluster(emulator, a, b)


async def received(client: GrpcClient) -> list[str]:
    return bodies(await client.receive())


async def test_routes_name_the_endpoint_of_each_broker(cluster: Cluster) -> None:
    assert await cluster.endpoints() == {
        A: ("127.0.0.1", cluster.a.port),
        B: ("127.0.0.1", cluster.b.port),
    }
    assert cluster.b.port == cluster.a.port + 10
    doors = cluster.emulator.doors
    assert doors.grpc is not None
    assert doors.grpc.port == cluster.a.port
    assert [each.grpc and each.grpc.port for each in doors.brokers.values()] == [
        cluster.a.port,
        cluster.b.port,
    ]


async def test_an_endpoint_sends_to_and_receives_from_its_broker(cluster: Cluster) -> None:
    for number in range(10):
        await cluster.a.send(cluster.a.message(f"a{number}"))
        await cluster.b.send(cluster.b.message(f"b{number}"))
    assert await received(cluster.a) == [f"a{number}" for number in range(10)]
    assert await received(cluster.b) == [f"b{number}" for number in range(10)]
    named = {"broker": {"name": A}, "id": -1}
    status, _ = await cluster.b.try_receive("billing", TOPIC, message_queue=named)
    assert status.code == NO_MESSAGE  # the endpoint decides, as in RocketMQ's local mode


async def test_messages_of_a_group_stay_in_order_at_each_endpoint(cluster: Cluster) -> None:
    for client in (cluster.a, cluster.b):
        for number in range(5):
            await client.send(client.message(str(number), message_group="one", message_type=FIFO))
        assert [one.body.decode() for one in await client.receive()] == list("01234")


async def test_a_crash_closes_the_endpoint_and_a_start_opens_it(cluster: Cluster) -> None:
    await cluster.b.send(cluster.b.message("kept"))
    waiting = asyncio.create_task(cluster.b.receive("others", topic="empty", wait_s=60))
    await until(lambda: cluster.broker.polls.count == 1)
    await cluster.broker.broker_lives.crash(B)
    with pytest.raises(LOST):
        await waiting
    with pytest.raises(LOST):
        await cluster.b.send(cluster.b.message("lost"))
    assert (await cluster.a.send(cluster.a.message("goes on"))).status.code == OK
    assert await received(cluster.a) == ["goes on"]
    assert list(await cluster.endpoints()) == [A, B]
    await cluster.broker.broker_lives.start(B)
    assert await received(cluster.b) == ["kept"]


async def test_a_shutdown_tells_clients_to_reconnect(cluster: Cluster) -> None:
    settings = framed(Command(settings={"client_type": 1, "publishing": {"topics": [{"name": TOPIC}]}}))
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(raw_http2(f"127.0.0.1:{each.port}"))
            for each in (cluster.a, cluster.b)
        ]
        streams = [client.open("Telemetry") for client in clients]
        for client, stream in zip(clients, streams, strict=True):
            await client.send(stream, settings)
            while not commands(client, stream):
                await client.read()
        await cluster.broker.broker_lives.shut_down(B)
        [at_a, at_b], [of_a, of_b] = clients, streams
        async with asyncio.timeout(PATIENCE_S):
            while await at_b.read():
                pass
        assert commands(at_b, of_b) == ["settings", "reconnect_endpoints_command"]
        assert at_b.goaway == 0
        await at_a.send(of_a, settings)
        while len(commands(at_a, of_a)) < 2:
            await at_a.read()
        assert commands(at_a, of_a) == ["settings", "settings"]
    assert await cluster.endpoints() == {A: ("127.0.0.1", cluster.a.port)}
    with pytest.raises(LOST):
        await cluster.b.send(cluster.b.message("lost"))
    assert (await cluster.a.send(cluster.a.message("goes on"))).status.code == OK


def commands(client: RawHttp2, stream: int) -> list[str | None]:
    """The kinds of the commands that have arrived on a Telemetry stream."""
    data, found = client.data(stream), []
    while data:
        end = 5 + int.from_bytes(data[1:5], "big")
        found.append(Command.FromString(data[5:end]).WhichOneof("command"))
        data = data[end:]
    return found


async def test_an_endpoint_that_is_cut_off_reads_again_later(cluster: Cluster) -> None:
    lives = cluster.broker.broker_lives
    await cluster.b.send(cluster.b.message("before"))
    await lives.cut_off(B, "clients")
    sending = asyncio.create_task(cluster.b.send(cluster.b.message("kept by the network")))
    async with grpc_client(cluster.b.port) as late:
        connecting = asyncio.create_task(late.send(late.message("from a new connection")))
        await cluster.a.send(cluster.a.message("goes on"))
        assert not sending.done()
        assert not connecting.done()
        await lives.reconnect(B)
        assert [(await one).status.code for one in (sending, connecting)] == [OK, OK]
    assert await received(cluster.b) == ["before", "from a new connection", "kept by the network"]


async def test_a_topic_that_the_broker_lacks_is_refused_at_its_endpoint(cluster: Cluster) -> None:
    await cluster.broker.registry.topics.put_at(TOPIC, {1: QueuesAtBroker(2, 2, 6)})
    assert list(await cluster.endpoints()) == [B]
    refused = await cluster.a.send(cluster.a.message("lost"))
    assert refused.status.code == TOPIC_NOT_FOUND
    assert f"topic[{TOPIC}] not exist, apply first please!" in refused.status.message
    status, _ = await cluster.a.try_receive("billing", TOPIC)
    assert status.code == TOPIC_NOT_FOUND
    assert (await cluster.b.send(cluster.b.message("kept"))).status.code == OK


async def test_a_fault_takes_one_endpoint_away(cluster: Cluster) -> None:
    await cluster.broker.faults.add_rule(FaultRule(do="broker-away", broker=B, door="grpc"))
    with pytest.raises(LOST):
        await cluster.b.send(cluster.b.message("lost"))
    assert (await cluster.a.send(cluster.a.message("goes on"))).status.code == OK


async def test_the_row_of_ports_must_be_free() -> None:
    async with running_grpc(brokers=2, proxy_mode="local") as (_, client):
        with pytest.raises(ListenError, match=r"for gRPC clients.*--grpc-port"):
            async with running_grpc(brokers=2, proxy_mode="local", grpc_port=client.port):
                pass
