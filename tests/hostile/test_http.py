"""Hostile bodies and headers of HTTP requests."""

import asyncio
import gzip
import zlib
from contextlib import suppress
from itertools import product
from typing import Any

import aiohttp
import pytest

from mocketmq import Client
from mocketmq.clock import US_PER_S, steady_us
from mocketmq.hosts import split_address
from mocketmq.http_api import answers, connection
from mocketmq.http_api.server import route_groups
from mocketmq.settings import Settings
from tests.doors.remoting.gates import until
from tests.support.api import running_api
from tests.support.brokers import send
from tests.support.patience import HANGING_S, PATIENCE_S
from tests.support.process import forked_broker

DEEP = b'{"a":' * 20_000
TIMEOUT = aiohttp.ClientTimeout(PATIENCE_S)
WITH_BODY = [
    (route.method, route.path)
    for group in route_groups(Settings())
    for route in group.routes
    if route.body is not None
]

HANGING_US = int(HANGING_S * US_PER_S)


def path_of(template: str) -> str:
    return template.replace("{", "").replace("}", "")


async def test_json_that_is_nested_too_deep_is_refused_by_every_operation() -> None:
    async with forked_broker() as broker, aiohttp.ClientSession(broker.url, timeout=TIMEOUT) as session:
        for method, path in WITH_BODY:
            async with session.request(method, path_of(path), data=DEEP) as answer:
                problem: Any = await answer.json(content_type=None)
                assert (answer.status, problem["type"]) == (400, "/problems/malformed-json"), path
        assert "Traceback" not in broker.stderr
    assert len(WITH_BODY) > 8


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_compressed_bodies_are_refused_at_every_door_of_the_port(encoding: str, pack: Any) -> None:
    body, headers = pack(b"x" * (1 << 20)), {"Content-Encoding": encoding}
    paths = ("/v1/topics/orders/messages", "/topics/orders/messages", "/rocketmq/nsaddr", "/none")
    async with forked_broker() as broker, aiohttp.ClientSession(broker.url, timeout=TIMEOUT) as session:
        for path in paths:
            async with session.post(path, data=body, headers=headers) as answer:
                problem: Any = await answer.json(content_type=None)
                assert (answer.status, problem["type"]) == (415, "/problems/packed-body"), path
        plain = {"Content-Encoding": "Identity", "Content-Type": "application/json"}
        async with session.post(paths[0], data=b'{"body":"x"}', headers=plain) as answer:
            assert answer.status == 201


async def test_answers_forbid_framing_and_content_sniffing() -> None:
    async with forked_broker() as broker, aiohttp.ClientSession(broker.url, timeout=TIMEOUT) as session:
        for path in ("/", "/docs", "/openapi.json", "/v1/clock", "/none"):
            async with session.get(path) as answer:
                assert answer.headers["X-Content-Type-Options"] == "nosniff", path
                if answer.content_type == "text/html":
                    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], path


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_of_a_token_has_any_case(scheme: str) -> None:
    async with (
        forked_broker("--token", "secret") as broker,
        aiohttp.ClientSession(broker.url, timeout=TIMEOUT) as session,
    ):
        for token, status in (("Secret", 401), ("secret", 200)):
            async with session.get("/v1/clock", headers={"Authorization": f"{scheme} {token}"}) as answer:
                assert answer.status == status
        async with Client(broker.url, token=token) as client:
            assert await client.info()


async def test_stalled_bodies_take_little_memory_and_are_dropped() -> None:
    size = 600 << 10
    head = f"POST /v1/topics/orders/messages HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n".encode()
    async with running_api() as api:
        port = api.emulator.doors.http.port
        held = api.emulator.http.api.bodies
        held.most_held, held.still_us = 1 << 20, HANGING_US
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b" " * (size - 1))
        await until(lambda: held.held == size - 1)
        assert await refusal(port, head + b" " * (size - 1)) == b"HTTP/1.1 503 "
        assert (await api.call("POST", "/v1/topics/orders/messages", {"body": "small"})).status == 201
        held.still_us = 0
        assert await refusal(port, head + b" " * (size - 1)) == b"HTTP/1.1 503 "
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await until(lambda: held.held == 0)
        writer.close()


async def refusal(port: int, request: bytes) -> bytes:
    """Return the start of the answer to an incomplete request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line[:13]


@pytest.mark.parametrize(
    ("begun", "is_closed"),
    [
        (b"", True),
        (b"GET /v1/clock HTTP/1.1\r\nHost: h\r\n", True),
        (b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", False),
    ],
)
async def test_a_header_must_come_in_time(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, is_closed: bool
) -> None:
    async with running_api() as api:
        http = api.emulator.http
        reader, writer = await asyncio.open_connection("127.0.0.1", api.emulator.doors.http.port)
        writer.write(begun)
        if not is_closed:
            await reader.readuntil(b"ok")
        elif begun:
            await until(lambda: any(one._has_begun for one in http._connections.values()))
        else:
            await until(lambda: bool(http._connections))
        monkeypatch.setattr(connection, "HEADER_US", -1)
        monkeypatch.setattr(connection, "SILENT_US", -1)
        http._tick()
        if is_closed:
            with suppress(ConnectionError):
                assert await reader.read() == b""
        else:
            writer.write(begun)
            assert await reader.readuntil(b"ok")
        writer.close()


async def test_binary_headers_are_answered_by_every_door_of_the_port() -> None:
    headers = ("Host", "Origin", "Sec-Fetch-Site", "Content-Encoding", "Content-Type", "Authorization")
    paths = ("/v1/topics", "/topics/orders/messages?consumer=g", "/rocketmq/nsaddr", "/none", "/")
    async with forked_broker("--token", "secret") as broker:
        for header, path in product(headers, paths):
            reader, writer = await asyncio.open_connection(*split_address(broker.url[7:], 0))
            host = b"" if header == "Host" else b"Host: localhost\r\n"
            value = b"www.\xff\xfe.example"
            writer.write(
                b"GET %b HTTP/1.1\r\n%b%b: %b\r\n\r\n" % (path.encode(), host, header.encode(), value)
            )
            async with asyncio.timeout(PATIENCE_S):
                line = await reader.readline()
            writer.close()
            assert 200 <= int(line.split()[1]) < 500, (header, path, line)
        assert "Traceback" not in broker.stderr


async def test_unread_responses_are_dropped_when_memory_is_needed() -> None:
    body = b'{"topic":"orders"}'
    head = f"POST /v1/groups/deaf/receive HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with running_api() as api:
        held = api.emulator.http._answers
        held.still_us = HANGING_US
        await send(api.emulator.broker, "\0" * 3_900_000)  # takes six times as many bytes in JSON
        reader, writer = await asyncio.open_connection("127.0.0.1", api.emulator.doors.http.port, limit=1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(head + body)
        await until(lambda: held.held > answers.MAX_UNREAD_BYTES)
        await api.send(topic="others")
        for path in ("POST /v1/groups/billing/receive", "GET /v1/topics/others/queues/0/messages"):
            method, _, target = path.partition(" ")
            refused = await api.refused(
                503, method, target, {"topic": "others"} if method == "POST" else None
            )
            assert refused["type"] == "/problems/too-many-answers"
        assert await api.receive(topic="empty") == []
        held.still_us = 0
        await api.refused(503, "POST", "/v1/groups/billing/receive", {"topic": "others"})
        await until(lambda: held.held == 0)
        [message] = await api.receive(topic="others")
        assert message["times"] == 1
        writer.close()


async def test_an_unread_response_is_dropped_eventually(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_api() as api:
        await send(api.emulator.broker, "\0" * 3_900_000, queue=0)
        reader, writer = await asyncio.open_connection("127.0.0.1", api.emulator.doors.http.port, limit=1)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /v1/topics/orders/queues/0/messages HTTP/1.1\r\nHost: h\r\n\r\n")
        http = api.emulator.http
        await until(lambda: bool(http._answers.sending))
        http._tick()
        assert http._connections
        now_us = steady_us()
        monkeypatch.setattr(answers, "steady_us", lambda: now_us + answers._QUIET_US)
        http._tick()
        await until(lambda: not http._answers.held)
        writer.close()
