"""Sends with a known head use the fast path, others do not, and clients cannot tell the difference."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.connections.budget import FREE_BYTES
from mocketmq.errors import StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.http_api import connection
from mocketmq.http_api.fast_sends import HEAD_BYTES, KNOWN_HEADS, FastSends
from mocketmq.http_api.request import LONG_BYTES
from mocketmq.store.writer import WriterLimits
from tests.doors.remoting.gates import until
from tests.support.api import Api, Json, metrics_of, running_api
from tests.support.held_writer import HeldWriter
from tests.support.patience import HANGING_S

SEND = "/v1/topics/orders/messages"


class Response(NamedTuple):
    """A response; ``body`` is decoded."""

    status: int
    headers: Mapping[str, str]
    body: Json


class Client:
    """A connection that sends requests byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._reader = reader

    async def ask(self, request: bytes) -> Response:
        """Send a request in one piece, and return its response."""
        self.writer.write(request)
        return await self.response()

    async def response(self) -> Response:
        """Return the next response."""
        async with asyncio.timeout(HANGING_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.rstrip().split("\r\n")
            headers = dict(each.split(": ", 1) for each in lines)
            body = await self._reader.readexactly(int(headers["Content-Length"]))
        return Response(int(line.split()[1]), headers, json.loads(body))

    async def is_closed(self) -> bool:
        """Whether the server closes the connection without another byte."""
        async with asyncio.timeout(HANGING_S):
            return not await self._reader.read()


def request(body: Json | bytes, *headers: str, line: str = f"POST {SEND} HTTP/1.1") -> bytes:
    """A send with this request line and these headers. ``body`` is encoded as JSON unless it is bytes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [line, "Host: localhost", f"Content-Length: {len(content)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


PLAIN = request({"body": "x"})


@asynccontextmanager
async def client_of(api: Api) -> AsyncIterator[Client]:
    """Connect to the JSON API."""
    client = Client(*await asyncio.open_connection("127.0.0.1", api.emulator.doors.http.port))
    try:
        yield client
    finally:
        client.writer.close()


@pytest.fixture
async def client(api: Api) -> AsyncIterator[Client]:
    """A client whose plain requests use the fast path."""
    await api.ok("PUT", "/v1/topics/orders", {"read_queues": 1, "write_queues": 1})
    async with client_of(api) as client:
        for _ in range(2):  # the first one makes the head known
            assert (await client.ask(PLAIN)).status == 201
        assert fast_sends(api).begun == 1
        yield client


def fast_sends(api: Api) -> FastSends:
    """The sends on the fast path."""
    sends = api.emulator.http.fast_sends
    assert sends is not None
    return sends


async def is_fast(api: Api, client: Client, sent: bytes = PLAIN) -> bool:
    """Send a request, which must succeed, and tell whether it used the fast path."""
    before = fast_sends(api).begun
    response = await client.ask(sent)
    assert response.status == 201, response
    return fast_sends(api).begun == before + 1


async def have_read(api: Api) -> None:
    """Wait until the server, which shares this event loop, has read what clients have written."""
    for _ in range(3):
        await api.ok("GET", "/v1/clock")


ALIKE: Mapping[str, Json | bytes] = {
    "text": {"body": "x"},
    "another length": {"body": "x" * 20_000},
    "everything": {
        "body_base64": "AAECAw==",
        "tag": "created",
        "keys": ["a", "b"],
        "properties": {"colour": "röt"},
        "queue_id": 0,
        "message_id": "7F00",
        "born_ms": 1_715_900_000_000,
        "flag": 7,
    },
    "a delay level": {"body": "x", "delay_level": 3},
    "a delay": {"body": "x", "delay": "2h"},
    "a past due time": {"body": "x", "start_deliver_ms": 1},
    "whole numbers as 3.0": {"body": "x", "queue_id": 3.0},
    "no body": {"tag": "x"},
    "an empty body": {"body": ""},
    "a field that does not exist": {"body": "x", "tags": "x"},
    "a queue that does not exist": {"body": "x", "queue_id": 99},
    "two delays": {"body": "x", "delay_ms": 1, "delay_level": 1},
    "a reserved property": {"body": "x", "properties": {"DELAY": "3"}},
    "properties that are too long": {"body": "x", "properties": {"a": "x" * 32_767}},
    "a priority": {"body": "x", "priority": 3},
    "no JSON": b"nonsense",
    "broken UTF-8": b'{"body":"\xff"}',
    "a list": b"[]",
    "deep JSON": b'{"body":' + b"[" * 20_000,
    "nothing": b"",
    "a long body": {"body": "x" * LONG_BYTES},
}


@pytest.mark.parametrize("case", ALIKE)
async def test_the_fast_path_answers_and_stores_as_the_general_path(
    api: Api, client: Client, case: str
) -> None:
    seen = []
    for headers in (["X-Unknown: head"], []):
        await api.ok("POST", "/v1/reset")
        await client.ask(PLAIN)
        response = await client.ask(request(ALIKE[case], *headers))
        messages = []
        if response.status == 201:
            identity = response.body["message_id"]
            messages = without_identity((await api.ok("GET", f"/v1/messages/{identity}"))["records"])
        seen.append(
            (response.status, without_identity(response.headers), without_identity(response.body), messages)
        )
    assert seen[0] == seen[1]
    assert (await client.ask(PLAIN)).status == 201, "the connection stays open"


IDENTITY = {
    *(
        "message_id",
        "offset_message_id",
        "parked_offset_message_id",
        "UNIQ_KEY",
        "log_offset",
        "queue_offset",
    ),
    *("Date", "born_host"),
}


def without_identity(value: Any) -> Any:
    """Leave out what differs between two messages, or between two connections."""
    match value:
        case dict():
            return {name: without_identity(each) for name, each in value.items() if name not in IDENTITY}
        case list():
            return [without_identity(each) for each in value]
    return value


async def test_only_the_digits_of_the_length_may_differ_from_a_known_head(api: Api, client: Client) -> None:
    assert await is_fast(api, client, request({"body": "another length"}))
    for changed in (
        request({"body": "x"}, "X-More: header"),
        PLAIN.replace(b"Host", b"host"),
        request({"body": "x"}, line="POST /v1/topics/others/messages HTTP/1.1"),
        request({"body": "x"}, line=f"POST {SEND}? HTTP/1.1"),
    ):
        assert not await is_fast(api, client, changed)


NEVER = {
    "HTTP/1.0": request({"body": "x"}, "Connection: keep-alive", line=f"POST {SEND} HTTP/1.0"),
    "100 Continue": request({"body": "x"}, "Expect: 100-continue"),
    "no length": (
        f"POST {SEND} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        'c\r\n{"body":"x"}\r\n0\r\n\r\n'
    ).encode(),
    "a long head": request({"body": "x"}, f"X-Long: {'x' * HEAD_BYTES}"),
    "a long body": request({"body": "x" * LONG_BYTES}),
    "a due time": request({"body": "x", "delay": "2h"}),
    "another route": request({"messages": [{"body": "x"}]}, line=f"POST {SEND}/batch HTTP/1.1"),
}


@pytest.mark.parametrize("case", NEVER)
async def test_what_is_not_plain_never_uses_the_fast_path(api: Api, client: Client, case: str) -> None:
    for _ in range(3):
        before = fast_sends(api).begun
        client.writer.write(NEVER[case])
        response = await client.response()
        assert response.status == 201
        assert fast_sends(api).begun == before


async def test_a_closing_client_is_answered_and_closed(api: Api) -> None:
    closing = request({"body": "x"}, "Connection: close")
    for _ in range(2):
        async with client_of(api) as client:
            assert (await client.ask(closing)).headers["Connection"] == "close"
            assert await client.is_closed()
    assert fast_sends(api).begun == 0


async def test_heads_are_shared_by_connections_and_limited_in_number(api: Api, client: Client) -> None:
    async with client_of(api) as other:
        assert await is_fast(api, client)
        assert await is_fast(api, other)
        for number in range(KNOWN_HEADS):
            assert not await is_fast(api, other, request({"body": "x"}, f"X-Number: {number}"))
        assert await is_fast(api, other, request({"body": "x"}, "X-Number: 1"))
        assert not await is_fast(api, other)


async def test_requests_in_pieces_and_pipelined_requests_are_answered_in_order(
    api: Api, client: Client
) -> None:
    numbered = [request({"body": f"{number}"}) for number in range(8)]
    for cut in (10, numbered[0].index(b"\r\n\r\n") + 4, len(numbered[0]) - 1):
        client.writer.write(numbered[0][:cut])
        await have_read(api)
        client.writer.write(numbered[0][cut:])
        assert (await client.response()).status == 201
    client.writer.write(b"".join(numbered))
    for _ in numbered:
        assert (await client.response()).status == 201
    bodies = [one["body"] for one in await api.receive()]
    assert len(bodies) == 2 + 3 + 8


@pytest.mark.interpreted
async def test_what_arrives_during_a_send_waits_for_its_response(
    api: Api, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = HeldWriter(api.emulator.broker, monkeypatch)
    client.writer.write(request({"body": "1", "queue_id": 0}))
    await until(lambda: writer.held)
    client.writer.write(request({"body": "2", "queue_id": 0}) + request({"body": "3", "queue_id": 0}))
    await have_read(api)
    assert len(writer.held) == 1
    writer.let_go()
    offsets = [(await client.response()).body["queue_offset"] for _ in range(3)]
    assert offsets == [offsets[0], offsets[0] + 1, offsets[0] + 2]


async def test_sends_are_counted(api: Api, client: Client) -> None:
    name = ("http_requests_total", "POST", "/v1/topics/{topic}/messages", "201")
    before = await metrics_of(api)
    [key] = [key for key in before if set(name[1:]) <= set(key)]
    assert await is_fast(api, client)
    after = await metrics_of(api)
    assert after[key] == before[key] + 1


async def test_a_fault_rule_disables_the_fast_path(api: Api, client: Client) -> None:
    await api.emulator.broker.faults.add_rule(FaultRule(do="close", topic="others"))
    assert not await is_fast(api, client)
    await api.emulator.broker.faults.clear()
    assert await is_fast(api, client)


async def test_debug_logs_name_every_send(api: Api, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mocketmq.http_api.server"):
        assert not await is_fast(api, client)
    assert f"POST {SEND}: 201" in caplog.text


async def test_with_credentials_every_send_is_judged() -> None:
    async with running_api(token="secret") as api, client_of(api) as client:  # noqa: S106 - it protects nothing
        known = request({"body": "x"}, "Authorization: Bearer secret")
        for _ in range(2):
            assert (await client.ask(known)).status == 201
        assert (await client.ask(known.replace(b"secret", b"terces"))).status == 401
        assert api.emulator.http.fast_sends is None


async def test_recordings_contain_every_send(tmp_path: Path) -> None:
    recording = tmp_path / "requests.jsonl"
    async with running_api(record_requests=str(recording)) as api, client_of(api) as client:
        for _ in range(3):
            assert (await client.ask(PLAIN)).status == 201
    assert recording.read_text().count(SEND) == 3


@pytest.mark.interpreted
async def test_a_send_is_stored_when_its_client_disconnects(
    api: Api, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = HeldWriter(api.emulator.broker, monkeypatch)
    client.writer.write(request({"body": "last words"}))
    await until(lambda: writer.held)
    client.writer.transport.abort()
    await have_read(api)
    writer.let_go()
    await until(lambda: api.emulator.broker.sender.sent == 3)
    assert "last words" in [one["body"] for one in await api.receive()]


@pytest.mark.interpreted
async def test_a_failed_send_is_answered_by_a_problem(
    api: Api, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = HeldWriter(api.emulator.broker, monkeypatch)
    client.writer.write(PLAIN)
    await until(lambda: writer.held)
    writer.held[0][1].set_exception(StoreUnavailableError("the disk is full"))
    response = await client.response()
    assert (response.status, response.headers["Content-Type"]) == (503, "application/problem+json")
    assert response.body["detail"] == "the disk is full"
    monkeypatch.undo()
    assert await is_fast(api, client)


async def test_what_follows_an_unfinished_body_is_not_a_send(api: Api, client: Client) -> None:
    refused = b"POST /v1/nowhere HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await client.ask(refused)).status == 404
    sent = api.emulator.broker.sender.sent
    client.writer.write(PLAIN)
    await have_read(api)
    assert api.emulator.broker.sender.sent == sent


async def test_a_busy_store_refuses_sends_until_it_has_room(api: Api, client: Client) -> None:
    writer = api.emulator.broker.store.writer
    limits, writer.limits = writer.limits, WriterLimits(waiting=0)
    response = await client.ask(PLAIN)
    assert (response.status, response.body["type"]) == (503, "/problems/store-busy")
    writer.limits = limits
    assert await is_fast(api, client)


@pytest.mark.interpreted
async def test_a_stopping_broker_answers_sends_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_api() as api, client_of(api) as client:
        await client.ask(PLAIN)
        writer = HeldWriter(api.emulator.broker, monkeypatch)
        client.writer.write(PLAIN)
        await until(lambda: writer.held)
        closing = asyncio.create_task(api.emulator.http.close())
        await until(lambda: not api.emulator.http.api.is_ready)
        await asyncio.sleep(0)
        assert not closing.done()
        writer.let_go()
        assert (await client.response()).status == 201
        assert await client.is_closed()
        await closing


async def test_a_client_that_reads_nothing_leaves_the_fast_path(api: Api, client: Client) -> None:
    path = f"/v1/messages/{(await api.send(body='x' * (FREE_BYTES // 2)))['message_id']}"
    page = request(b"", line=f"GET {path} HTTP/1.1")
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    served, sends = api.emulator.http.api.requests, fast_sends(api)
    pages, begun = 0, sends.begun
    while sends.begun == begun + pages:
        pages += 1
        client.writer.write(page)
        await until(lambda pages=pages: served["GET", "/v1/messages/{message_id}", 200] == pages)
        client.writer.write(PLAIN)
        await have_read(api)
        assert pages < 1_000, "its responses take more and more memory"
    assert pages > 1
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert [(await client.response()).status for _ in range(2 * pages)] == [200, 201] * pages


async def test_a_body_that_looks_like_a_send_is_a_body(api: Api, client: Client) -> None:
    head = request(PLAIN)[: -len(PLAIN)]
    client.writer.write(request({"body": "x"}, "X-More: header") + head)
    assert (await client.response()).status == 201
    sent = api.emulator.broker.sender.sent
    assert (await client.ask(PLAIN)).status == 400
    assert api.emulator.broker.sender.sent == sent


async def test_aiohttp_gets_a_request_now_and_then(
    api: Api, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await is_fast(api, client)
    later_us = connection.KEPT_ALIVE_S * US_PER_S // 2 + US_PER_S
    with monkeypatch.context() as patched:
        patched.setattr(connection, "steady_us", lambda: steady_us() + later_us)
        assert not await is_fast(api, client), "or it would close a connection that it thinks idle"
        assert await is_fast(api, client)
