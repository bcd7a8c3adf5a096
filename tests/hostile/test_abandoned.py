"""Receives and pulls of clients that have disconnected read nothing from the store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from mocketmq.app import Emulator, running_emulator
from mocketmq.settings import Settings
from tests.doors.remoting.consuming import PULL, pull_of
from tests.doors.remoting.gates import until
from tests.doors.remoting.popping import PEEK, POP, pop_of
from tests.support.brokers import FREE_PORTS, GROUP, TOPIC, bodies, receive, send
from tests.support.grpc import grpc_client
from tests.support.patience import PATIENCE_S
from tests.support.remoting import connected

WAITING = 20
VIEW = 33
BODIES = ("messages.*", "* FROM messages")
"""Selected columns of queries that read bodies, and of no other queries."""

Leave = Callable[[], Awaitable[object]]
Ask = Callable[[Emulator], Awaitable[Leave]]
"""Sends ``WAITING`` requests, and returns a function that disconnects their client."""


def over_http(request: str, body: str = "") -> Ask:
    async def ask(emulator: Emulator) -> Leave:
        head = f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        port = int(emulator.url.rpartition(":")[2])
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(WAITING)]
        for _, writer in connections:
            writer.write(head.encode())

        async def leave() -> None:
            for _, writer in connections:
                writer.close()
            await until(lambda: not emulator.http._connections)

        return leave

    return ask


def over_remoting(code: int, ext: Callable[[], dict[str, str]]) -> Ask:
    async def ask(emulator: Emulator) -> Leave:
        assert emulator.remoting is not None
        assert emulator.doors.broker is not None
        hub = emulator.remoting.hub
        client = connected("127.0.0.1", emulator.doors.broker.port)
        connection = await client.__aenter__()
        for _ in range(WAITING):
            connection.ask(code, ext())

        async def leave() -> None:
            await client.__aexit__(None, None, None)
            await until(lambda: not hub.connections)

        return leave

    return ask


async def over_grpc(emulator: Emulator) -> Leave:
    grpc: Any = emulator.grpc
    assert emulator.doors.grpc is not None
    client = grpc_client(emulator.doors.grpc.port)
    connection = await client.__aenter__()
    receives = [asyncio.create_task(connection.receive(GROUP)) for _ in range(WAITING)]

    async def leave() -> None:
        await client.__aexit__(None, None, None)
        await asyncio.gather(*receives, return_exceptions=True)
        await until(lambda: not grpc.memory.connections)

    return leave


async def over_grpc_cancelled_late(emulator: Emulator) -> Leave:
    """The streams of a lost connection are cancelled a few per turn of the event loop; here, in none."""
    leave_in_time = await over_grpc(emulator)

    async def leave() -> None:
        fair_share = (await cast(Any, emulator.grpc)._engine)._fair_share
        fair_share.wait = lambda _connection: None
        await leave_in_time()
        del fair_share.wait

    return leave


DOORS: dict[str, Ask] = {
    "JSON receive": over_http(f"POST /v1/groups/{GROUP}/receive", f'{{"topic":"{TOPIC}"}}'),
    "JSON browse": over_http(f"GET /v1/topics/{TOPIC}/queues/0/messages"),
    "Aliyun": over_http(f"GET /topics/{TOPIC}/messages?consumer={GROUP}&numOfMessages=1"),
    "pull": over_remoting(PULL, pull_of),
    "pop": over_remoting(POP, pop_of),
    "long pop": over_remoting(POP, lambda: pop_of(20_000)),
    "peek": over_remoting(PEEK, pop_of),
    "view": over_remoting(VIEW, lambda: {"offset": "0"}),
    "gRPC": over_grpc,
    "gRPC, cancelled late": over_grpc_cancelled_late,
}


@pytest.mark.parametrize("door", DOORS)
async def test_requests_of_a_disconnected_client_read_nothing(door: str) -> None:
    settings = Settings(**FREE_PORTS, data=":memory:", clock="manual")
    async with running_emulator(settings) as emulator:
        broker, database = emulator.broker, emulator.broker.store.database
        for number in range(4):
            await send(broker, "kept", queue=number)
        await receive(broker, topic="other")  # creates the group
        reader: Any = await database.idle.get()
        fetch, reads = reader.execute_fetchall, list[str]()

        def noted(sql: str, *more: Any) -> Any:
            if any(selected in sql for selected in BODIES):
                reads.append(sql)
            return fetch(sql, *more)

        reader.execute_fetchall = noted
        leave = await DOORS[door](emulator)
        locks: Any = (broker.receiver._reading, emulator.http._answers.reading)
        waiting: Any = database.idle._getters  # type: ignore[attr-defined]
        memory: Any = emulator.remoting.hub.messages  # type: ignore[union-attr]
        try:
            await until(
                lambda: (
                    len(waiting) + memory._count + sum(len(lock._waiters or ()) for lock in locks) >= WAITING
                )
            )
            await leave()
        finally:
            database.idle.put_nowait(reader)
        again: Any = []
        while len(again) < 4:  # a receive in progress returns its messages
            again += await receive(broker, wait_s=PATIENCE_S)
        assert bodies(again) == ["kept"] * 4
        assert {one.times for one in again} == {1}
        assert cast(Any, emulator.grpc).memory.unread == 0
        assert len(reads) <= 4  # its own read, and the read of the receive in progress
