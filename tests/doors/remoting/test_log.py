"""Log lines about clients and their requests, and about clients of the wrong port."""

import asyncio
import logging
import re
import ssl
from collections.abc import Callable

import pytest
from aiohttp import ClientSession

from mocketmq.remoting.listening import connection
from mocketmq.remoting.listening.wrong_port import WRONG_PORT
from tests.doors.remoting.consuming import HEART_BEAT, beat, consumer, subscription
from tests.doors.remoting.gates import until
from tests.doors.remoting.producing import V2, header
from tests.support.api import Api
from tests.support.remoting import Remoting, running_remoting

GET = b"GET /v1/topics HTTP/1.1\r\nHost: x\r\n\r\n"
Lines = Callable[[str], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Collect log lines with this prefix from debug level on, without their durations."""
    caplog.set_level(logging.DEBUG, "mocketmq")

    def lines(start: str) -> list[str]:
        found = [line for line in caplog.messages if line.startswith(start)]
        return [re.sub(r" in \d+\.\d ms$", " in …", line) for line in found]

    return lines


# The wrong port


@pytest.mark.parametrize("is_encrypted", [False, True])
async def test_http_on_a_remoting_port_gets_a_hint(
    remoting: Remoting, caplog: pytest.LogCaptureFixture, is_encrypted: bool
) -> None:
    context = None
    if is_encrypted:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for port in (remoting.server.namesrv_port, remoting.server.broker_port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(GET)
        answer = await reader.read()
        writer.close()
        assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert WRONG_PORT.encode() in answer
    assert len(caplog.messages) == 2
    for message in caplog.messages:
        assert message.startswith("closing connection from 127.0.0.1:")
        assert message.endswith(f": {WRONG_PORT}")


async def test_foreign_bytes_get_no_http_hint(remoting: Remoting, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", remoting.server.broker_port)
    writer.write(b"GETTING nothing at all")
    assert await reader.read() == b""
    writer.close()
    assert "the length of a frame is" in caplog.text


# Debugging


async def test_each_connect_and_disconnect_is_logged(remoting: Remoting, lines: Lines) -> None:
    async with remoting.another(remoting.server.namesrv_port) as client:
        await client.call(9_999)
    await until(lambda: remoting.server.connections == 1)
    port = remoting.server.namesrv_port
    assert lines(client.address) == [
        f"{client.address} connected to port {port}",
        f"{client.address} 9999: REQUEST_CODE_NOT_SUPPORTED in …",
        f"{client.address} disconnected (requests: 1)",
    ]


async def test_each_join_and_leave_is_logged(remoting: Remoting, lines: Lines) -> None:
    async with remoting.another() as client:
        body = beat(
            consumer(subscription("orders"), group="GID_billing"), client="one", producers=("makers",)
        )
        for _ in range(2):
            await client.ok(HEART_BEAT, body=body)
    await until(lambda: not list(remoting.broker.registry.clients))
    assert lines("client one") == [
        f"client one (JAVA, V4_9_8) at {client.address} joined: producer of makers, consumer of GID_billing",
        f"client one at {client.address} left",
    ]


async def test_each_request_is_a_line_without_its_secrets(remoting: Remoting, lines: Lines) -> None:
    secrets = {"Signature": "do-not-show-this", "AccessKey": "nor-this"}
    client = remoting.client
    await client.ok(V2, header(properties={"own": "nor-that"}) | secrets, b"nor the body")
    await client.call(11, {"topic": "a\nb", "queueId": "x"})
    await client.call(9_999)
    client.oneway(105, {"topic": "orders"})
    await client.ok(106)
    assert lines(f"{client.address} ") == [
        f"{client.address} {line} in …"
        for line in (
            "SEND_MESSAGE_V2 group='makers' topic='orders' queue='0': SUCCESS",
            r"PULL_MESSAGE topic='a\nb' queue='x': SYSTEM_ERROR",
            "9999: REQUEST_CODE_NOT_SUPPORTED",
            "GET_ROUTEINFO_BY_TOPIC topic='orders': not answered",
            "GET_BROKER_CLUSTER_INFO: SUCCESS",
        )
    ]
    assert not re.search("nor|not-show", "".join(lines("")))


async def test_each_request_in_http_is_a_line(remoting: Remoting, lines: Lines) -> None:
    async with ClientSession() as session:
        api = Api(remoting.emulator, session)
        await api.ok("GET", "/v1/topics")
        await api.refused(404, "GET", "/v1/topics/none")
    assert lines("127.0.0.1 GET") == [
        "127.0.0.1 GET /v1/topics: 200 in …",
        "127.0.0.1 GET /v1/topics/none: 404 in …",
    ]


@pytest.mark.interpreted
async def test_disabled_log_formats_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(connection, "request_line")
    async with running_remoting() as remoting:
        await remoting.client.ok(106)
