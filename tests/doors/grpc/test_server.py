"""The gRPC port: a port in use, clients that are slow to notice a stop, and hostile bytes."""

import asyncio
import hashlib
import hmac
import socket
import sys
from contextlib import suppress

import pytest

from mocketmq import ListenError
from mocketmq.app import running_emulator
from mocketmq.grpc_proxy.client_limits import FRAMES_PER_TURN
from mocketmq.grpc_proxy.flood_guard import FloodGuard
from mocketmq.grpc_proxy.frames import Frame, frame
from mocketmq.settings import Settings
from tests.hostile.http2 import raw_http2
from tests.support.grpc import grpc_client, running_grpc


async def test_chosen_port_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match="--grpc-port"):
            async with running_grpc(grpc_port=port):
                pass


async def test_default_port_in_use_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr("mocketmq.front_doors.DEFAULT_GRPC_PORT", port)
        settings = Settings(data=":memory:", http_port=0, namesrv_port=0, broker_port=0, grpc_port=port)
        async with running_emulator(settings) as emulator:
            assert emulator.grpc_address is None
    assert "gRPC is off: cannot listen on" in caplog.text


async def test_requests_are_signed_by_accounts() -> None:
    date = "20261122T200000Z"
    signature = hmac.new(b"secret", date.encode(), hashlib.sha1).hexdigest().upper()
    header = f"MQv2-HMAC-SHA1 Credential=key//Rocketmq, SignedHeaders=x-mq-date-time, Signature={signature}"
    async with running_grpc(access_keys={"key": "secret"}) as (_, stranger):
        refused = await stranger.send(stranger.message("no"))
        assert refused.status.code == 40_100
        signed = {"authorization": header, "x-mq-date-time": date}
        async with grpc_client(stranger.port, metadata=signed) as client:
            assert (await client.send(client.message("yes"))).status.code == 20_000
        signed["x-mq-date-time"] = "20261122T200001Z"
        async with grpc_client(stranger.port, metadata=signed) as client:
            assert (await client.send(client.message("no"))).status.code == 40_100


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\x00\x05hello"])
async def test_bytes_that_are_not_http2_close_the_connection(data: bytes) -> None:
    async with running_grpc() as (_, client):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(data)
        writer.write_eof()
        await reader.read()
        writer.close()
        assert (await client.send(client.message("on"))).status.code == 20_000


async def test_a_defect_in_queued_frames_closes_only_their_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: FloodGuard) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(FloodGuard, "empty", fail)
    pings = frame(Frame.PING, 0, 0, bytes(8)) * FRAMES_PER_TURN  # so that the next frame waits
    async with running_grpc() as (_, client), raw_http2(f"127.0.0.1:{client.port}") as unlucky:
        unlucky.writer.write(pings + frame(Frame.PRIORITY, 0, 1, bytes(5)))
        with suppress(ConnectionError):
            while await unlucky.read():
                pass
        assert (await client.send(client.message("on"))).status.code == 20_000
    assert "a defect in mocketmq" in caplog.text


async def test_a_request_above_the_limit_is_refused_before_it_is_read() -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("x" * (4 << 20)))
        assert answer.status.code == 20_000
        answer = await client.send(client.message("x" * ((4 << 20) + 1)))
        assert answer.status.code == 41_301


async def test_grpc_is_imported_by_the_first_client() -> None:
    code = (
        "import asyncio, sys\n"
        "from mocketmq import running_emulator, Settings\n"
        "ports = dict(http_port=0, namesrv_port=0, broker_port=0, grpc_port=0)\n"
        "async def main():\n"
        "    async with running_emulator(Settings(data=':memory:', **ports)):\n"
        "        print([name for name in ('hpack', 'google.protobuf') if name in sys.modules])\n"
        "asyncio.run(main())"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output.decode() == "[]\n"
