"""Clients of a cluster whose servers stop answering."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import msgspec
import pytest

from mocketmq.calling import connection
from mocketmq.calling.call import CALL_S, OPEN_ACCESS, NoAnswerError
from mocketmq.calling.connection import Answer, ClientConnection
from mocketmq.calling.name_servers import BrokerQueues, NameServers
from mocketmq.probe.grpc_connection import GrpcClientConnection
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.frame import FrameReader, encode
from tests.support.patience import HANGING_S, PATIENCE_S

ASK = RequestCode.GET_CONSUMER_LIST_BY_GROUP
AT_ONCE_S = 0.01 - CALL_S
"""Wait that gives a request a hundredth of a second in total."""


@asynccontextmanager
async def answering_once() -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Run a server that answers only a connection's first request; the event reports a closed connection."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames, has_answered = FrameReader(), False
        try:
            while data := await reader.read(1 << 16):
                for request in frames.feed(data):
                    if not has_answered:
                        writer.write(encode(request.answer(ResponseCode.SUCCESS, {}, b"", None)))
                        has_answered = True
        except OSError:
            pass
        finally:
            ended.set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", ended
    finally:
        server.close()


async def test_a_silent_connection_is_closed_and_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "steady_us", count(1).__next__)
    async with answering_once() as (address, ended):
        ours = ClientConnection(address)
        assert (await ours.call(ASK, wait_s=HANGING_S)).code == ResponseCode.SUCCESS
        patient = asyncio.create_task(ours.call(ASK, wait_s=HANGING_S))
        await asyncio.sleep(0)
        with pytest.raises(NoAnswerError, match=address):
            await ours.call(ASK, wait_s=AT_ONCE_S)
        with pytest.raises(NoAnswerError, match=address):
            await patient
        async with asyncio.timeout(PATIENCE_S):
            await ended.wait()
            assert ours._reading
            await asyncio.wait([ours._reading])
            assert (await ours.call(ASK, wait_s=HANGING_S)).code == ResponseCode.SUCCESS
        await ours.close()


async def test_a_connection_that_receives_bytes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "steady_us", lambda: 1)  # as late as the second request
    async with answering_once() as (address, _):
        ours = ClientConnection(address)
        await ours.call(ASK, wait_s=HANGING_S)
        session = ours.session
        patient = asyncio.create_task(ours.call(ASK, wait_s=HANGING_S))
        await asyncio.sleep(0)
        with pytest.raises(NoAnswerError):
            await ours.call(ASK, wait_s=AT_ONCE_S)
        assert (ours.session, patient.done()) == (session, False)
        await ours.close()
        with pytest.raises(NoAnswerError):
            await patient


class Server(ClientConnection):
    """A name server that either answers or stays silent, and knows no topic."""

    is_silent = False

    async def call(self, *_: object, **__: object) -> Answer:
        """Answer as a connection would."""
        if self.is_silent:
            raise NoAnswerError(f"{self.address} is silent")
        return Answer(ResponseCode.TOPIC_NOT_EXIST, {}, b"", "", 0, 0)


@pytest.mark.parametrize("turns", range(8))
async def test_a_grpc_request_fails_as_unanswered_whenever_the_proxy_dies(turns: int) -> None:
    """A closed listener resets the connection before, during and after its handshake."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = GrpcClientConnection(f"127.0.0.1:{listener.getsockname()[1]}", OPEN_ACCESS)
        asked = asyncio.create_task(proxy.ask("Heartbeat"))
        for _ in range(turns):
            await asyncio.sleep(0)
    async with asyncio.timeout(HANGING_S):
        with pytest.raises(NoAnswerError):
            await asked
    proxy.close()


async def test_a_route_tells_the_queues_of_brokers_without_a_master() -> None:
    route = {
        "brokerDatas": [
            {"brokerName": "a", "brokerAddrs": {"0": "a:1", "1": "a:2"}},
            {"brokerName": "b", "brokerAddrs": {"1": "b:2"}},
        ],
        "queueDatas": [
            {"brokerName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": perm}
            for name, perm in (("a", 6), ("b", 6))
        ],
    }

    class Routed(ClientConnection):
        async def call(self, *_: object, **__: object) -> Answer:
            return Answer(ResponseCode.SUCCESS, {}, msgspec.json.encode(route), "", 0, 0)

    servers = NameServers("n:1", Routed, print)
    assert await servers.route("orders") == [BrokerQueues("a", "a:1", 4, 4)]
    assert servers.without_master == {"orders": {"b": 4}}


async def test_last_answering_name_server_is_asked_first() -> None:
    made: list[Server] = []
    notes: list[str] = []

    def connect(address: str) -> Server:
        made.append(Server(address))
        return made[-1]

    servers = NameServers("a:1;b:1", connect, notes.append)
    one, two = made
    one.is_silent = True
    for _ in range(3):
        assert await servers.route("orders") is None
    assert notes == ["a:1 is silent"]
    one.is_silent, two.is_silent = False, True
    for _ in range(3):
        assert await servers.route("orders") is None
    assert notes == ["a:1 is silent", "b:1 is silent"]
    one.is_silent = True
    with pytest.raises(NoAnswerError, match="b:1 is silent"):
        await servers.route("orders")
