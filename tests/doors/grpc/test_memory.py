"""Memory limits: large requests, requests in progress, stalled uploads, clients that do not read."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpclib.config import Configuration
from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq.app import Emulator
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections import freed_memory
from mocketmq.connections.reading_pace import LEAST_READ_BYTES
from mocketmq.grpc_proxy import server, service, telemetry
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.connection import READ_BYTES
from mocketmq.grpc_proxy.definitions import SERVICE
from mocketmq.grpc_proxy.frames import ACK, Frame, Http2FrameReader, Http2Setting, frame, settings_frame
from mocketmq.grpc_proxy.memory import Memory, MemoryLimits
from mocketmq.grpc_proxy.messages import message_class, set_us
from tests.doors.remoting.gates import until
from tests.hostile.floods import sent
from tests.hostile.http2 import RawHttp2, framed, raw_http2
from tests.support.grpc import GrpcClient, bodies, grpc_client, running_grpc
from tests.support.patience import HANGING_S, PATIENCE_S

HANGING_US = int(HANGING_S * US_PER_S)
MIB = 1 << 20


def memory_of(emulator: Emulator) -> Memory:
    assert emulator.grpc
    return emulator.grpc.memory


async def test_request_above_32_mib_answers_body_too_large() -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("x" * (33 * MIB)))
        assert answer.status.code == 41_301
        assert (await client.send(client.message("on"))).status.code == 20_000


async def until_a_response_waits(held: Memory) -> None:
    """Wait until a client has to read before it gets more of a response."""
    await until(lambda: any(each.is_slow_reader(steady_us()) for each in held.connections))


@asynccontextmanager
async def half_sent(client: GrpcClient, size: int, part: int) -> AsyncIterator[Any]:
    """Start a SendMessage of ``size`` bytes, and send ``part`` of them."""
    request, reply = message_class("SendMessageRequest"), message_class("SendMessageResponse")
    path = f"/{SERVICE}/SendMessage"
    async with client.channel.request(
        path, Cardinality.UNARY_UNARY, request, reply, metadata=client.metadata
    ) as call:
        await call.send_request()
        await call._stream.send_data(b"\0" + size.to_bytes(4, "big") + bytes(part))
        yield call
        await call.cancel()


async def test_stalled_uploads_are_dropped_when_memory_is_needed() -> None:
    async with running_grpc() as (emulator, client), grpc_client(client.port, "slow@1@0@x") as slow:
        held = memory_of(emulator)
        held.limits = MemoryLimits(held=MIB, still_us=HANGING_US)
        async with half_sent(slow, 2 * MIB, 15 * MIB // 16) as upload:
            await until(lambda: held.incoming == 15 * MIB // 16 + 5)  # including the 5-byte prefix
            large = client.message("x" * (MIB // 8))
            refused = await client.send(large)
            assert refused.status.code == 42_900
            assert (await client.send(client.message("small"))).status.code == 20_000
            held.limits = MemoryLimits(held=MIB, still_us=0)
            assert (await client.send(large)).status.code == 42_900
            answer = await upload.recv_message()
            assert answer.status.code == 42_900
            assert (await client.send(large)).status.code == 20_000
        await until(lambda: held.held == 0)


async def test_reading_pauses_while_large_requests_are_in_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, started = asyncio.Event(), []

    async def heartbeat(call: Call) -> Any:
        started.append(call.client_id)
        if len(call.request.group.name) > 1:
            await gate.wait()
        return message_class("HeartbeatResponse")()

    monkeypatch.setitem(service.UNARY, "Heartbeat", heartbeat)
    async with running_grpc() as (emulator, client), grpc_client(client.port, "other@1@0@x") as other:
        memory_of(emulator).limits = MemoryLimits(running=MIB)
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


async def test_reading_pauses_while_frames_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = []
    feed = Http2FrameReader.feed

    def watched(reader: Http2FrameReader, data: bytes) -> None:
        feed(reader, data)
        waiting.append(len(reader._incoming))

    monkeypatch.setattr(Http2FrameReader, "feed", watched)
    requests = range(1, 2_001, 2)
    async with running_grpc() as (emulator, client), raw_http2(f"127.0.0.1:{client.port}") as hasty:
        for number in requests:
            request = message_class("SendMessageRequest")(messages=[client.message("x" * 1_000)])
            hasty.writer.write(sent(number, request))
        await until(lambda: emulator.broker.sender.sent == len(requests))
    assert max(waiting) < 3 * READ_BYTES


async def test_messages_of_a_non_reading_client_become_visible_again() -> None:
    narrow = Configuration(http2_connection_window_size=1 << 16, http2_stream_window_size=1 << 16)
    async with (
        running_grpc() as (emulator, client),
        grpc_client(client.port, "slow@1@0@x", config=narrow) as slow,
    ):
        memory_of(emulator).limits = MemoryLimits(unread=MIB, still_us=HANGING_US)
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
                await until_a_response_waits(memory_of(emulator))
                assert memory_of(emulator).unread > 500 << 10
                status, _ = await client.try_receive("billing", "orders", wait_s=20)
                assert status.code == 42_900
                memory_of(emulator).limits = MemoryLimits(unread=MIB, still_us=0)
                status, _ = await client.try_receive("billing", "orders", wait_s=20)
                assert status.code == 42_900
                async for _ in call:
                    pass
        for group in ("billing", "slow"):
            [got] = await client.receive(group, wait_s=PATIENCE_S)  # until the message has been returned
            assert got.system_properties.delivery_attempt == 1
        await until(lambda: memory_of(emulator).unread == 0)


def advance_steady_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    read, ahead_ns = time.clock_gettime_ns, int(seconds * 1e9)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: read(clock) + ahead_ns)


async def ask_for_message(client: RawHttp2) -> int:
    """Ask for a message of 60 s, and return the stream of the response."""
    request = message_class("ReceiveMessageRequest")(group={"name": "deaf"}, batch_size=1)
    request.message_queue.topic.name = "orders"
    set_us(request.invisible_duration, 60 * US_PER_S)
    stream = client.open("ReceiveMessage")
    await client.send(stream, framed(request), end=True)
    return stream


async def called(client: RawHttp2) -> None:
    stream = client.open("Heartbeat")
    await client.send(stream, framed(message_class("HeartbeatRequest")()), end=True)
    assert (await client.trailers(stream))["grpc-status"] == "0"


async def pinged(client: RawHttp2) -> None:
    """Get the answer to a PING, without returning the window of what arrives before it."""
    client.writer.write(frame(Frame.PING, 0, 0, b"mocketmq"))
    received = b""
    while frame(Frame.PING, ACK, 0, b"mocketmq") not in received:
        received += await client.reader.read(MIB)


def settings_of(size: int) -> Any:
    """Return settings that take about this many bytes, as does the response."""
    settings = {"user_agent": {"hostname": "x" * size}, "publishing": {"topics": [{"name": "orders"}]}}
    return message_class("TelemetryCommand")(settings=settings)


async def test_telemetry_of_a_non_reading_client_takes_limited_memory() -> None:
    narrow = Configuration(http2_connection_window_size=1 << 16, http2_stream_window_size=1 << 16)
    async with (
        running_grpc() as (emulator, client),
        grpc_client(client.port, "slow@1@0@x", config=narrow) as slow,
    ):
        held = memory_of(emulator)
        held.limits = MemoryLimits(unread=MIB, still_us=HANGING_US)
        with pytest.raises(StreamTerminatedError):
            async with slow.telemetry() as telemetry:
                for _ in range(3):
                    await telemetry.say(settings_of(300 << 10))
                await until(lambda: held.unread > 900 << 10)
                await telemetry.say(settings_of(300 << 10))
                await until(lambda: held.unread == 0)
                await telemetry.command()


@pytest.mark.parametrize("client_id", ["", "stranger@1@0@x"])
async def test_refused_telemetry_of_a_non_reading_client_takes_no_memory(client_id: str) -> None:
    async with (
        running_grpc(access_keys={"alice": "alices-secret"}) as (emulator, client),
        raw_http2(f"127.0.0.1:{client.port}") as deaf,
    ):
        deaf.writer.write(settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: 0}))
        stream = deaf.open("Telemetry", headers={"x-mq-client-id": client_id})
        for _ in range(4):
            await deaf.send(stream, framed(settings_of(100 << 10)))
        heartbeat = deaf.open("Heartbeat", end=True)
        await deaf.flush()
        await deaf.trailers(heartbeat)  # after it, the broker has received everything
        assert memory_of(emulator).held == 0


async def test_a_client_that_reads_gets_any_number_of_commands() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        memory_of(emulator).limits = MemoryLimits(unread=MIB)
        for _ in range(8):
            await telemetry.say(settings_of(900 << 10))
            assert (await telemetry.command()).status.code == 20_000
            assert memory_of(emulator).unread == 0


@pytest.mark.parametrize(("window", "use"), [(100, called), (MIB, pinged)], ids=["call", "ping"])
async def test_clients_that_use_a_connection_and_do_not_read_are_closed(
    monkeypatch: pytest.MonkeyPatch, window: int, use: Callable[[RawHttp2], Awaitable[None]]
) -> None:
    """The large response waits for the window of its stream, or for the connection's."""
    async with running_grpc() as (emulator, client), raw_http2(f"127.0.0.1:{client.port}") as deaf:
        held = memory_of(emulator)
        held.limits = MemoryLimits(unread=MIB)
        await client.send(client.message("x" * (600 << 10)))
        deaf.writer.write(settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: window}))
        await ask_for_message(deaf)
        await until_a_response_waits(held)
        advance_steady_clock(monkeypatch, HANGING_S)
        await use(deaf)
        status, _ = await client.try_receive("billing", "orders", wait_s=20)
        assert status.code == 42_900
        await until(lambda: held.unread == 0)


async def gave_window(client: RawHttp2, size: int, *streams: int) -> None:
    """Give these streams more window, 0 for the connection, and wait until the broker has used it."""
    for stream in streams:
        client.writer.write(frame(Frame.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big")))
    await pinged(client)


@pytest.mark.parametrize("waits_for", ["stream", "connection", "both"])
@pytest.mark.parametrize(
    ("size", "is_closed"), [(1, True), (LEAST_READ_BYTES, False)], ids=["byte", "64 KiB"]
)
async def test_only_clients_that_read_too_slowly_are_closed(
    monkeypatch: pytest.MonkeyPatch, waits_for: str, size: int, is_closed: bool
) -> None:
    async with running_grpc() as (emulator, client), raw_http2(f"127.0.0.1:{client.port}") as slow:
        held = memory_of(emulator)
        held.limits = MemoryLimits(unread=MIB)
        await client.send(client.message("x" * (600 << 10)))
        if waits_for == "stream":
            slow.writer.write(frame(Frame.WINDOW_UPDATE, 0, 0, MIB.to_bytes(4, "big")))
        elif waits_for == "connection":
            slow.writer.write(settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: MIB}))
        stream = await ask_for_message(slow)
        await until_a_response_waits(held)
        given = {"stream": [stream], "connection": [0], "both": [stream, 0]}[waits_for]
        for _ in range(3):
            advance_steady_clock(monkeypatch, 0.9)
            await gave_window(slow, size, *given)
        status, _ = await client.try_receive("billing", "orders", wait_s=20)
        assert status.code == 42_900
        if is_closed:
            await until(lambda: held.unread == 0)
        else:
            await gave_window(slow, MIB, stream, 0)
            await until(lambda: held.unread == 0)
            assert len(held.connections) == 2


async def test_idle_clients_are_not_dropped_as_slow_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_grpc() as (emulator, client), grpc_client(client.port, "idle@1@0@x") as idle:
        memory_of(emulator).limits = MemoryLimits(unread=100_000)
        groups = ("billing", "audit")
        for group in groups:
            await idle.receive(group)
        polls = [asyncio.create_task(idle.try_receive(group, "orders", wait_s=20)) for group in groups]
        await until(lambda: emulator.broker.polls.count == len(groups))
        advance_steady_clock(monkeypatch, HANGING_S)
        await client.send(client.message("x" * 90_000))
        answers = await asyncio.gather(*polls)
    assert min(status.code for status, _ in answers) == 20_000


async def test_unused_connections_are_closed_and_their_memory_freed(
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
                await emulator.grpc._look_after()
            await until(lambda: len(held.connections) == 1)
            assert given == [True]
            await stream.consume()
        assert bodies(await client.receive()) == ["m"]  # on a new connection
