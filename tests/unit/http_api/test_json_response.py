"""A JSON response is the same on the wire as aiohttp's own."""

import asyncio
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from unittest.mock import AsyncMock

import pytest
from aiohttp.test_utils import make_mocked_request

from mocketmq.clock import US_PER_S, wall_us
from mocketmq.http_api import web
from mocketmq.http_api.json_response import JsonResponse, body_of
from tests.support.patience import PATIENCE_S

BODY = '{"topic":"ü"}\n'.encode()
HEADERS = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}


def own(body: bytes = BODY) -> web.StreamResponse:
    return JsonResponse(body, 201)


def of_aiohttp(body: bytes = BODY) -> web.StreamResponse:
    return web.Response(body=body, status=201, headers=HEADERS)


class Read(NamedTuple):
    """A response as read from the connection, and what the connection does at the next request."""

    status_line: bytes
    headers: dict[str, str]
    body: bytes
    next_byte: bytes


async def answer_to(request: bytes, make: Callable[[], web.StreamResponse]) -> Read:
    """Send the request twice, to a server that makes this response."""

    async def serve(_: web.BaseRequest) -> web.StreamResponse:
        return make()

    http = web.Server(serve, access_log=None)
    listening = await asyncio.get_running_loop().create_server(http, "127.0.0.1", 0)
    async with asyncio.timeout(PATIENCE_S), listening:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        writer.write(request)
        status_line, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        headers = dict(line.decode().split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers["Content-Length"]))
        writer.write(request)
        next_byte = await reader.read(1)
        writer.close()
        await http.shutdown()
    return Read(status_line, headers, body, next_byte)


@pytest.mark.parametrize(
    "request_head",
    [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nConnection: close\r\n",
        "GET / HTTP/1.0\r\n",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n",
    ],
)
async def test_it_is_the_same_on_the_wire(request_head: str) -> None:
    request = f"{request_head}Host: x\r\n\r\n".encode()
    read, expected = [await answer_to(request, make) for make in (own, of_aiohttp)]
    assert (
        abs(parsedate_to_datetime(read.headers.pop("Date")).timestamp() - wall_us() / US_PER_S) < PATIENCE_S
    )
    del expected.headers["Date"]
    assert read == expected


async def test_a_large_one_arrives_whole() -> None:
    body = bytes(5_000_000)
    assert (await answer_to(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", lambda: own(body))).body == body


def test_the_body_of_a_complete_response() -> None:
    assert body_of(own()) == body_of(of_aiohttp()) == BODY
    assert body_of(web.Response(status=304)) == b""
    assert body_of(web.StreamResponse()) is None
    assert own().content_type == "application/json"


async def test_it_is_written_once() -> None:
    """Also if its handler has written it before aiohttp does."""
    writer = AsyncMock()
    response = own()
    await response.prepare(make_mocked_request("GET", "/", writer=writer))
    await response.write_eof()
    await response.write_eof()
    assert writer.write_eof.await_count == 1
