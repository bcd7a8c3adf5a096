"""Limits on memory: large requests, requests in work, uploads that stand still, clients that do not read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpclib.config import Configuration
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.clock import US_PER_S
from mocketmq.connections import freed_memory
from mocketmq.emulator import Emulator
from mocketmq.grpc_proxy import memory, server, service, telemetry
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.connection import READ_BYTES
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.frame_reader import FrameReader
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.times import set_us
from tests.doors.remoting.gates import until
from tests.hostile.floods import sent
from tests.hostile.http2 import raw_http2
from tests.support.grpc import GrpcClient, bodies, grpc_client, running_grpc
from tests.support.patience import HANGING_S, PATIENCE_S

MIB = 1 << 20


def memory_of(emulator: Emulator) -> Memory:
    assert emulator.grpc
    return emulator.grpc._memory


async def test_a_request_of_more_than_32_mib_is_a_body_too_large() -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("x" * (33 * MIB)))
        assert answer.status.code == 41_301
        assert (await client.send(client.message("on"))).status.code == 20_000


@asynccontextmanager
async def half_sent(client: GrpcClient, size: int, part: int) -> AsyncIterator[Any]:
    """A SendMessage of ``size`` bytes, of which ``part`` have been sent."""
    request, reply = message_class("SendMessageRequest"), message_class("SendMessageResponse")
    path = f"/{SERVICE}/SendMessage"
    async with client.channel.request(
        path, Cardinality.UNARY_UNARY, request, reply, metadata=client.metadata
    ) as call:
        await call.send_request()
        await call._stream.send_data(b"\0" + size.to_bytes(4, "big") + bytes(part))
        yield call
        await call.cancel()


async def test_uploads_that_stand_still_are_given_up_when_their_memory_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_HELD_BYTES", MIB)
    monkeypatch.setattr(memory, "_STILL_US", HANGING_S * US_PER_S)
    async with running_grpc() as (emulator, client), grpc_client(client.port, "slow@1@0@x") as slow:
        held = memory_of(emulator)
        async with half_sent(slow, 2 * MIB, 15 * MIB // 16) as upload:
            await until(lambda: held.incoming == 15 * MIB // 16 + 5)  # and the prefix
            large = client.message("x" * (MIB // 8))
            refused = await client.send(large)
            assert refused.status.code == 42_900
            assert (await client.send(client.message("small"))).status.code == 20_000
            monkeypatch.setattr(memory, "_STILL_US", 0)
            assert (await client.send(large)).status.code == 42_900
            answer = await upload.recv_message()
            assert answer.status.code == 42_900
            assert (await client.send(large)).status.code == 20_000
        await until(lambda: held.held == 0)


async def test_no_more_is_read_of_a_client_with_large_requests_in_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_RUNNING_BYTES", MIB)
    gate, started = asyncio.Event(), []

    async def heartbeat(call: Call) -> Any:
        started.append(call.client_id)
        if len(call.request.group.name) > 1:
            await gate.wait()
        return message_class("HeartbeatResponse")()

    monkeypatch.setitem(service.UNARY, "Heartbeat", heartbeat)
    async with running_grpc() as (emulator, client), grpc_client(client.port, "other@1@0@x") as other:
        large = asyncio.create_task(client.call("Heartbeat", group={"name": "x" * (MIB - 100)}))
        await until(lambda: started)
        late = asyncio.create_task(client.call("Heartbeat"))
        for _ in range(20):
            await other.call("Heartbeat")
        assert not late.done()
        assert memory_of(emulator).held > MIB
        gate.set()
        await asyncio.gather(large, late)
        await until(lambda: memory_of(emulator).held == 0)
    assert telemetry.heartbeat is not heartbeat


async def test_while_frames_wait_no_more_is_read_though_requests_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = []
    feed = FrameReader.feed

    def watched(reader: FrameReader, data: bytes) -> None:
        feed(reader, data)
        waiting.append(len(reader._incoming))

    monkeypatch.setattr(FrameReader, "feed", watched)
    requests = range(1, 2_001, 2)
    async with running_grpc() as (emulator, client), raw_http2(f"127.0.0.1:{client.port}") as hasty:
        for number in requests:
            request = message_class("SendMessageRequest")(messages=[client.message("x" * 1_000)])
            hasty.writer.write(sent(number, request))
        await until(lambda: emulator.broker.sender.sent == len(requests))
    assert max(waiting) < 3 * READ_BYTES


async def test_of_a_client_that_does_not_read_the_messages_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_UNREAD_BYTES", MIB)
    monkeypatch.setattr(memory, "_STILL_US", HANGING_S * US_PER_S)
    narrow = Configuration(http2_connection_window_size=1 << 16, http2_stream_window_size=1 << 16)
    async with (
        running_grpc() as (emulator, client),
        grpc_client(client.port, "slow@1@0@x", config=narrow) as slow,
    ):
        await client.send(client.message("x" * (600 << 10)))
        request = message_class("ReceiveMessageRequest")(group={"name": "slow"}, batch_size=1)
        request.message_queue.topic.name = "orders"
        set_us(request.invisible_duration, 60 * US_PER_S)
        path, reply = f"/{SERVICE}/ReceiveMessage", message_class("ReceiveMessageResponse")
        with pytest.raises((StreamTerminatedError, GRPCError)):
            async with slow.channel.request(
                path, Cardinality.UNARY_STREAM, type(request), reply, metadata=slow.metadata
            ) as call:
                await call.send_message(request, end=True)
                await until(lambda: memory_of(emulator).unread > 500 << 10)
                status, _ = await client.try_receive("billing", "orders", wait_s=20)
                assert status.code == 42_900
                monkeypatch.setattr(memory, "_STILL_US", 0)
                status, _ = await client.try_receive("billing", "orders", wait_s=20)
                assert status.code == 42_900
                async for _ in call:
                    pass
        for group in ("billing", "slow"):
            [got] = await client.receive(group, wait_s=PATIENCE_S)  # until it has been given back
            assert got.system_properties.delivery_attempt == 1
        await until(lambda: memory_of(emulator).unread == 0)


async def test_clients_that_were_idle_are_not_taken_for_those_that_do_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "MAX_UNREAD_BYTES", 100_000)
    async with running_grpc() as (emulator, client), grpc_client(client.port, "idle@1@0@x") as idle:
        groups = ("billing", "audit")
        for group in groups:
            await idle.receive(group)
        polls = [asyncio.create_task(idle.try_receive(group, "orders", wait_s=20)) for group in groups]
        await until(lambda: emulator.broker.consuming.polls.count == len(groups))
        for connection in memory_of(emulator).connections:
            connection.wrote_us -= 60 * US_PER_S
        await client.send(client.message("x" * 90_000))
        answers = await asyncio.gather(*polls)
    assert min(status.code for status, _ in answers) == 20_000


async def test_connections_without_requests_are_closed_and_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[bool] = []
    monkeypatch.setattr(server, "give_back", lambda: given.append(True))
    async with running_grpc() as (emulator, client), grpc_client(client.port, "busy@1@0@x") as busy:
        assert emulator.grpc
        held = memory_of(emulator)
        await client.send(client.message("m"))
        async with busy.telemetry() as stream:
            await stream.consume()
            assert len(held.connections) == 2
            await client.send(client.message("x" * (4 * MIB)))
            monkeypatch.setattr(freed_memory, "_FLOOD_BYTES", MIB)
            for _ in range(server.IDLE_TICKS):
                emulator.grpc._look_after()
            await until(lambda: len(held.connections) == 1)
            assert given == [True]
            await stream.consume()
        assert bodies(await client.receive()) == ["m"]  # by a new connection
