"""The work per turn of the event loop is bounded, however many clients flood the server."""

import asyncio
import gc
import itertools
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest
from hpack import Encoder

from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.grpc_proxy import fair_share, receiving
from mocketmq.grpc_proxy.call import Call
from mocketmq.grpc_proxy.client_limits import (
    ARRIVALS_PER_TURN,
    FRAMES_AT_ONCE,
    FRAMES_PER_TURN,
    LONG_BODY_BYTES,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_TURN,
)
from mocketmq.grpc_proxy.engine import GrpcEngine
from mocketmq.grpc_proxy.fair_share import FairShare
from mocketmq.grpc_proxy.frames import (
    END_HEADERS,
    END_STREAM,
    HEAD_BYTES,
    PREFACE,
    Frame,
    Http2Setting,
    frame,
    settings_frame,
)
from mocketmq.grpc_proxy.http2 import Http2
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.stream import Stream
from mocketmq.settings import Settings
from tests.hostile.floods import received
from tests.support.brokers import running_broker
from tests.support.patience import HANGING_S

_CONNECTIONS = 20
_PINGS = FRAMES_AT_ONCE - 1
_HEADERS = {":method": "POST", ":scheme": "http", ":path": "/"}


class _Client:
    """A connection that counts the answers to its PINGs for each turn of the loop."""

    peer = "127.0.0.1:1"
    room = 1 << 20

    def __init__(self) -> None:
        self.running = self.incoming = self.unread = 0
        self.pongs = 0

    def write(self, data: bytes) -> None:
        self.pongs += data[3] == Frame.PING

    def regulate(self) -> None:
        pass

    def refuse(self, why: str) -> None:
        raise AssertionError(why)


async def flooding(turns: FairShare, number: int) -> list[_Client]:
    """Return connections that have received more PINGs than a turn may handle."""
    memory = Memory()
    clients = [_Client() for _ in range(number)]
    connections = [await opened(turns, memory, client) for client in clients]
    pings = frame(Frame.PING, 0, 0, bytes(8)) * _PINGS
    assert len(pings) == (HEAD_BYTES + 8) * _PINGS
    for each in connections:
        each.received(pings)
    return clients


async def opened(turns: FairShare, memory: Memory, client: _Client) -> Http2:
    connection = Http2(client, memory, turns, lambda _: None)
    connection.received(PREFACE + settings_frame({}))
    await asyncio.sleep(0)
    return connection


async def test_frames_of_many_connections_share_the_budget_of_a_turn() -> None:
    clients = await flooding(FairShare(), _CONNECTIONS)
    handled = [sum(client.pongs for client in clients)]
    async with asyncio.timeout(HANGING_S):
        while handled[-1] < _CONNECTIONS * _PINGS:
            await asyncio.sleep(0)
            handled.append(sum(client.pongs for client in clients))
    assert handled[0] <= ARRIVALS_PER_TURN
    assert max(after - before for before, after in pairwise(handled)) <= FRAMES_PER_TURN


async def test_a_quiet_connection_overtakes_those_that_flood() -> None:
    turns = FairShare()
    quiet = _Client()
    connection = await opened(turns, Memory(), quiet)
    clients = await flooding(turns, _CONNECTIONS)
    await asyncio.sleep(0)
    connection.received(frame(Frame.PING, 0, 0, bytes(8)))
    assert quiet.pongs == 1
    assert sum(client.pongs for client in clients) < _CONNECTIONS * _PINGS


class Begun:
    """The streams whose handlers have taken their first step, for each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns: list[list[Stream]] = [[]]
        monkeypatch.setattr(GrpcEngine, "_run", lambda _, *args: self._run(args[-1]))

    async def _run(self, stream: Stream) -> None:
        self.turns[-1].append(stream)
        stream.task = None

    async def until(self, count: int) -> None:
        async with asyncio.timeout(HANGING_S):
            while sum(map(len, self.turns)) < count:
                self.turns.append([])
                await asyncio.sleep(0)


@asynccontextmanager
async def engines() -> AsyncIterator[Callable[[], Http2]]:
    """Yield a function that opens a connection to an engine."""
    async with running_broker() as broker:
        engine, connections = GrpcEngine(broker, Settings(), None, Memory()), list[Http2]()

        def connect() -> Http2:
            connection = engine.protocol(_Client())
            connection.received(PREFACE + settings_frame({}))
            connections.append(connection)
            return connection

        yield connect
        for connection in connections:
            connection.end()
        await asyncio.sleep(0)  # the handlers that were still to begin are cancelled


def receives(count: int) -> bytes:
    return b"".join(received(stream, "orders", wait_s=0) for stream in range(1, 2 * count, 2))


async def test_few_requests_begin_in_a_turn_however_many_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Begun(monkeypatch)
    async with engines() as connect:
        connections = [connect() for _ in range(_CONNECTIONS)]
        await asyncio.sleep(0)
        for connection in connections:
            connection.received(receives(32))
        await begun.until(_CONNECTIONS * 32)
    assert max(map(len, begun.turns)) <= REQUESTS_AT_ONCE + REQUESTS_PER_TURN
    for connection in connections:
        ids = [stream.stream_id for turn in begun.turns for stream in turn if stream.http2 is connection]
        assert ids == sorted(ids)
    halfway = [stream.http2 for turn in begun.turns for stream in turn][: _CONNECTIONS * 16]
    assert len(set(halfway)) == _CONNECTIONS, "the connections take turns"


async def test_a_quiet_connections_request_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Begun(monkeypatch)
    async with engines() as connect:
        quiet, *connections = [connect() for _ in range(_CONNECTIONS)]
        await asyncio.sleep(0)
        for connection in connections:
            connection.received(receives(32))
        await begun.until(50)
        quiet.received(receives(1))
        begun.turns.append([])
        await asyncio.sleep(0)
        assert quiet in [stream.http2 for stream in begun.turns[-1]]


async def test_requests_that_were_reset_while_they_waited_never_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun = Begun(monkeypatch)
    async with engines() as connect:
        first, second = connect(), connect()
        await asyncio.sleep(0)
        first.received(receives(REQUESTS_AT_ONCE))
        second.received(receives(REQUESTS_AT_ONCE))
        waiting = list(second.streams.values())
        for stream in waiting:
            stream.cancel()
        second.received(received(2 * REQUESTS_AT_ONCE + 1, "orders", wait_s=0))
        await begun.until(REQUESTS_AT_ONCE + 1)
    assert len(waiting) == REQUESTS_AT_ONCE
    assert not set(waiting) & {stream for turn in begun.turns for stream in turn}


async def test_frames_that_wait_get_a_quarter_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times_us = itertools.count(0, 2_000)  # a turn takes 2 ms
    monkeypatch.setattr(fair_share, "steady_us", lambda: next(times_us))
    loop, pauses_s = asyncio.get_running_loop(), list[float]()

    def call_soon(pause_s: float, act: Callable[[], None]) -> asyncio.Handle:
        pauses_s.append(pause_s)
        return loop.call_soon(act)

    monkeypatch.setattr(loop, "call_later", call_soon)
    clients = await flooding(FairShare(), _CONNECTIONS)
    while sum(client.pongs for client in clients) < _CONNECTIONS * _PINGS:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert len(pauses_s) > 2
    assert pauses_s == [0, *[0.006] * (len(pauses_s) - 1)]


async def test_settings_frame_moves_each_window_once(monkeypatch: pytest.MonkeyPatch) -> None:
    streams: list[Stream] = []
    http2 = Http2(_Client(), Memory(), FairShare(), streams.append)
    block = bytes(Encoder().encode(_HEADERS.items()))
    http2.received(PREFACE + settings_frame({}) + frame(Frame.HEADERS, END_HEADERS | END_STREAM, 1, block))
    pumped = 0

    def count(_: Stream) -> None:
        nonlocal pumped
        pumped += 1

    monkeypatch.setattr(http2, "pump", count)
    one, other = (settings_frame({Http2Setting.INITIAL_WINDOW_SIZE: size})[HEAD_BYTES:] for size in (1, 2))
    await asyncio.sleep(0)
    http2.received(frame(Frame.SETTINGS, 0, 0, (one + other) * 1_000))
    assert (streams[0].send_window, pumped) == (2, 1)


async def test_replaced_streams_are_collected_in_small_steps() -> None:
    """Python counts created minus freed objects, so it would collect all streams at once, and late."""
    http2 = Http2(_Client(), Memory(), FairShare(), lambda _: None)
    gc.collect()
    opened = deque(Stream(http2, 1, dict(_HEADERS)) for _ in range(20_000))
    gc.collect()
    threshold = gc.get_threshold()
    gc.set_threshold(1_000_000, 100, 50)  # only the collections that the server requests
    try:
        for number in range(20_000):
            opened.popleft()
            opened.append(Stream(http2, number, dict(_HEADERS)))
            http2.memory.opened()
        assert len(gc.get_objects(generation=0)) < 5_000
    finally:
        gc.set_threshold(*threshold)


async def test_long_bodies_are_converted_one_at_a_time_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a body of several megabytes takes longer than other requests may wait."""
    threads: list[int] = []
    running = threading.Lock()

    def convert(_call: Call, _one: InFlightMessage) -> bytes:
        assert running.acquire(blocking=False), "two at a time"
        threads.append(threading.get_ident())
        running.release()
        return b""

    monkeypatch.setattr(receiving, "_response", convert)
    converter = receiving.Converter()
    sizes = [LONG_BODY_BYTES, *[LONG_BODY_BYTES + 1] * 50]
    taken = [SimpleNamespace(message=SimpleNamespace(body=bytes(size))) for size in sizes]
    await asyncio.gather(*(converter.convert(cast(Call, None), cast(InFlightMessage, one)) for one in taken))
    assert threads[0] == threading.get_ident()
    assert len(threads) == len(sizes)
    assert threading.get_ident() not in threads[1:]
