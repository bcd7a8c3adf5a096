"""What requests leave behind is freed at once, not by the garbage collector.

A cycle of references in every request once took a fifth of the CPU time of a send over the JSON API. Another
one kept the body of every refused request: an error in a local variable refers to itself, by its traceback.
"""

import errno
import gc
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from mocketmq.faults.rule import FaultRule
from mocketmq.remoting.listening.connection import RemotingConnection
from mocketmq.remoting.wire.codes import FrameError
from mocketmq_compat.delay.directories.directory_store import DirectoryStore
from tests.doors.remoting.consuming import pull
from tests.doors.remoting.gates import until
from tests.doors.remoting.popping import CHANGE, ack, pop, settling
from tests.doors.remoting.producing import BATCH, V2, header
from tests.doors.remoting.test_tls import secured
from tests.support.aliyun import running_aliyun
from tests.support.api import running_api
from tests.support.grpc import running_grpc
from tests.support.remoting import running_remoting

REQUESTS = 20


@contextmanager
def kept_garbage() -> Iterator[list[object]]:
    """Collect no garbage inside, and keep all of it in a list at the end."""
    garbage: list[object] = []
    gc.collect()
    gc.disable()
    try:
        yield garbage
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        garbage += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def in_cycles(request: Callable[[], Awaitable[object]]) -> dict[str, int]:
    """Count by type the broker's objects that every request leaves in cycles."""
    for _ in range(3):
        await request()
    with kept_garbage() as garbage:
        for _ in range(REQUESTS):
            await request()
    types = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in garbage)
    return {name: count for name, count in types.items() if name.startswith("mocketmq") and count >= REQUESTS}


KEYS = {"alice": "alices-secret"}
TOKEN = "broker-token"  # noqa: S105 - of the broker in this test
LATE = FaultRule(do="late", by="0s", stage="after")


async def test_json() -> None:
    async with running_api() as api:

        async def round_trip() -> None:
            await api.send()
            for message in await api.receive():
                handle = {"receipts": [message["receipt"]]}
                await api.ok("POST", "/v1/groups/billing/ack", handle)

        assert await in_cycles(round_trip) == {}


async def test_aliyun() -> None:
    async with running_aliyun() as aliyun:

        async def round_trip() -> None:
            await aliyun.published()
            for message in await aliyun.consume():
                await aliyun.settle([message["ReceiptHandle"]])

        assert await in_cycles(round_trip) == {}


async def test_grpc() -> None:
    async with running_grpc() as (_, client):

        async def round_trip() -> None:
            await client.send(client.message("hello"))
            await client.ack(*await client.receive())

        assert await in_cycles(round_trip) == {}


async def test_remoting() -> None:
    async with running_remoting() as remoting:
        offset = count()

        async def round_trip() -> None:
            await remoting.client.ok(V2, header(), b"hello")
            await pull(remoting.client, next(offset))
            for message in await pop(remoting.client):
                await ack(remoting.client, message.handle)

        assert await in_cycles(round_trip) == {}


@pytest.mark.parametrize("tls", [False, True])
async def test_closed_remoting_connections(*, tls: bool) -> None:
    async with running_remoting() as remoting:

        async def visit() -> None:
            async with secured(remoting) if tls else remoting.another() as client:
                await client.ok(V2, header(), b"hello")
                await pull(client, 0)
            await until(lambda: remoting.server.connections == 1 and not remoting.server.hub.leaving)

        left = await in_cycles(visit)  # including objects of the test's client
        assert f"{RemotingConnection.__module__}.{RemotingConnection.__name__}" not in left


# Refused requests


async def test_refused_json() -> None:
    async with running_api() as api:
        await api.send()
        [taken] = await api.receive()
        receipts = [taken["receipt"], "x"]
        await api.ok("POST", "/v1/groups/billing/ack", {"receipts": receipts[:1]})

        async def refused() -> None:
            await api.refused(404, "GET", "/v1/unknown")
            await api.refused(400, "POST", "/v1/topics/orders/messages", b"{")
            await api.refused(400, "POST", "/v1/topics/orders/messages", {"body": "hello", "queue": 99})
            for operation in ("ack", "give-back"):
                await api.refused(409, "POST", f"/v1/groups/billing/{operation}", {"receipts": receipts})

        assert await in_cycles(refused) == {}
        await api.emulator.broker.faults.add_rule(LATE)
        assert await in_cycles(refused) == {}


async def test_json_without_token() -> None:
    async with running_api(token=TOKEN) as api:

        async def refused() -> None:
            await api.refused(401, "POST", "/v1/topics/orders/messages", {"body": "hello"})

        assert await in_cycles(refused) == {}


@pytest.mark.parametrize(
    ("step", "error", "status"),
    [
        ("write", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 503),
        ("sync", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 503),
        ("write", ZeroDivisionError("a defect"), 500),
    ],
)
async def test_delayed_messages_that_cannot_be_saved(
    step: str, error: Exception, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise type(error)(*error.args)

    monkeypatch.setattr(DirectoryStore, step, refuse)
    async with running_api(data=str(tmp_path)) as api:

        async def refused() -> None:
            message = {"body": "hello", "delay": "90s"}
            await api.refused(status, "POST", "/v1/topics/orders/messages", message)
            batch = {"messages": [message, message]}
            await api.refused(status, "POST", "/v1/topics/orders/messages/batch", batch)

        assert await in_cycles(refused) == {}


async def test_refused_aliyun() -> None:
    async with running_aliyun() as aliyun:
        await aliyun.published()
        [taken] = await aliyun.consume()
        handles = [taken["ReceiptHandle"]]
        await aliyun.settle(handles)

        async def refused() -> None:
            assert (await aliyun.call("POST", "/topics/orders/messages", "<Message>")).status == 400
            assert (await aliyun.publish(__STARTDELIVERTIME="soon")).status == 400
            assert await aliyun.failures([*handles, "x"])
            assert await aliyun.failures([*handles, "x"], trans="commit")

        assert await in_cycles(refused) == {}


async def test_aliyun_without_signature() -> None:
    async with running_aliyun(access_keys=KEYS) as aliyun:

        async def refused() -> None:
            assert (await aliyun.publish()).status == 400

        assert await in_cycles(refused) == {}


async def test_refused_grpc() -> None:
    async with running_grpc() as (emulator, client):
        await client.send(client.message("hello"))
        [taken] = await client.receive()
        await client.ack(taken)
        unknown = client.message("", receipt_handle="x")

        async def refused() -> None:
            assert (await client.send(client.message("hello", "a!b"))).status.code == 40_002
            assert (await client.try_receive("a!b", "orders"))[0].code == 40_003
            for message in (taken, unknown):
                assert (await client.ack(message)).status.code == 40_013
                assert (await client.change(message, 10)).status.code == 40_013

        assert await in_cycles(refused) == {}
        await emulator.broker.faults.add_rule(LATE)
        assert await in_cycles(refused) == {}


async def test_grpc_without_signature_and_with_long_requests() -> None:
    async with running_grpc(access_keys=KEYS) as (_, client):

        async def refused() -> None:
            assert (await client.send(client.message("hello"))).status.code == 40_100
            assert (await client.try_receive("a" * (65 << 10), "orders"))[0].code == 41_301

        assert await in_cycles(refused) == {}


async def test_refused_remoting() -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await client.ok(V2, header(), b"hello")
        [taken] = await pop(client)
        await ack(client, taken.handle)

        async def refused() -> None:
            for code, ext in (
                (V2, header(topic="a!b")),
                (BATCH, header(BATCH)),
                (9_999, {}),
                (CHANGE, settling(taken.handle, {"invisibleTime": 1_000})),
            ):
                assert (await client.call(code, ext, b"hello")).code
            assert await ack(client, taken.handle)
            assert (await pull(client, topic="unknown")).code

        assert await in_cycles(refused) == {}
        await remoting.broker.faults.add_rule(LATE)
        assert await in_cycles(refused) == {}


async def test_remoting_without_signature() -> None:
    async with running_remoting(access_keys=KEYS) as remoting:

        async def refused() -> None:
            assert (await remoting.client.call(V2, header(), b"hello")).code == 1

        assert await in_cycles(refused) == {}


async def test_invalid_frames(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)  # pytest would keep the logged errors
    async with running_remoting() as remoting:

        async def refused() -> None:
            async with remoting.another() as client:
                client.write(b"\0\0\1\0" + b"\xff" * 256)
                await client.closed()

        left = await in_cycles(refused)
        assert f"{FrameError.__module__}.{FrameError.__name__}" not in left
