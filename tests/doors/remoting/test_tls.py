"""TLS on the ports of RocketMQ clients, recognised by its first byte, without harm to other clients."""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mocketmq.connections.certificate import Certificate, _self_signed
from mocketmq.errors import SettingError
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from tests.doors.remoting.consuming import pull_of
from tests.doors.remoting.gates import until
from tests.doors.remoting.producing import V2, header
from tests.support.patience import PATIENCE_S
from tests.support.process import broker_process
from tests.support.remoting import ClosedError, Remoting, RemotingClient, connected, running_remoting

ROUTE = 105
TEMPLATE = {"topic": "TBW102"}


def trusting() -> ssl.SSLContext:
    """Return a TLS context like that of clients without further settings."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@asynccontextmanager
async def secured(
    remoting: Remoting, port: int | None = None, context: ssl.SSLContext | None = None, **more: Any
) -> AsyncIterator[RemotingClient]:
    """Connect a TLS client to the broker's port."""
    async with asyncio.timeout(PATIENCE_S):
        client = RemotingClient(
            *await asyncio.open_connection(
                "127.0.0.1", port or remoting.server.broker_port, ssl=context or trusting(), **more
            )
        )
    try:
        yield client
    finally:
        await client.close()


async def plain_works(remoting: Remoting) -> None:
    """Check that another client's existing connection and a new plain connection work."""
    await remoting.client.ok(ROUTE, TEMPLATE)
    async with remoting.another() as another:
        await another.ok(ROUTE, TEMPLATE)


async def test_tls_and_plain_share_every_port() -> None:
    async with running_remoting() as remoting:
        server = remoting.server
        for port in (server.namesrv_port, server.broker_port, server.vip_port):
            assert port
            async with secured(remoting, port) as client, remoting.another(port) as plain:
                answer, another = [await one.ok(ROUTE, TEMPLATE) for one in (client, plain)]
                assert answer.body == another.body
        await plain_works(remoting)
        await until(lambda: server.connections == 1)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_large_messages_both_ways_in_each_version(version: ssl.TLSVersion) -> None:
    context = trusting()
    context.minimum_version = context.maximum_version = version
    body = bytes(range(256)) * 4_096 * 3
    async with running_remoting() as remoting, secured(remoting, context=context) as client:
        answers = [client.ask(V2, header(topic="large"), body) for _ in range(4)]
        assert [answer.code for answer in await asyncio.gather(*answers)] == [0] * 4
        pull = {
            "consumerGroup": "g",
            "topic": "large",
            "queueId": "0",
            "queueOffset": "0",
            "maxMsgNums": "32",
        }
        more = {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
        pulled = await client.ok(11, pull | more)
        assert pulled.body.count(body) >= 1


async def test_handshake_in_single_bytes_succeeds() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting().wrap_bio(incoming, outgoing)
    async with running_remoting() as remoting:
        reader, writer = await asyncio.open_connection("127.0.0.1", remoting.server.broker_port)
        done = False
        while not done:
            try:
                client.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                incoming.write(await reader.read(1 << 16))
        assert client.version() == "TLSv1.3"
        writer.close()
        await until(lambda: remoting.server.connections == 1)


# Modes


async def test_enforcing_refuses_plain_connections() -> None:
    async with running_remoting(tls="enforcing") as remoting:
        with pytest.raises(ClosedError):
            await remoting.client.call(ROUTE, TEMPLATE)
        async with secured(remoting) as client:
            await client.ok(ROUTE, TEMPLATE)


async def test_disabled_refuses_tls(caplog: pytest.LogCaptureFixture) -> None:
    async with running_remoting(tls="disabled") as remoting:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with secured(remoting):
                pass
        await plain_works(remoting)
    assert "the client speaks TLS, which is disabled" in caplog.text


# Certificates


async def certificate_of(remoting: Remoting) -> bytes:
    _, writer = await asyncio.open_connection("127.0.0.1", remoting.server.broker_port, ssl=trusting())
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return found


async def test_a_self_signed_certificate_is_created_on_demand_and_kept(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_remoting(data=str(data)) as remoting:
        await plain_works(remoting)
        assert not (data / "tls").exists()
        first = await certificate_of(remoting)
    assert (data / "tls" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in data.glob(".tls*")) == []
    async with running_remoting(data=str(data), advertise="broker.test:9") as remoting:
        assert await certificate_of(remoting) == first
        trusted = ssl.create_default_context(cafile=str(data / "tls" / "cert.pem"))
        for name in ("127.0.0.1", "localhost"):
            async with secured(remoting, context=trusted, server_hostname=name) as client:
                await client.ok(ROUTE, TEMPLATE)
        with pytest.raises(ssl.SSLCertVerificationError):
            async with secured(remoting, context=trusted, server_hostname="elsewhere"):
                pass


async def test_certificate_of_a_memory_broker_is_temporary() -> None:
    found = []
    for _ in range(2):
        async with running_remoting() as remoting:
            found.append(await certificate_of(remoting))
            assert await certificate_of(remoting) == found[-1]
    assert found[0] != found[1]


async def test_concurrent_first_clients_share_one_certificate(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path / "data")) as remoting:
        found = await asyncio.gather(*(certificate_of(remoting) for _ in range(8)))
        assert len(set(found)) == 1


def write_certificate(folder: Path, *names: str) -> tuple[str, str]:
    certificate, key = _self_signed(list(names))
    (folder / "own.crt").write_bytes(certificate)
    (folder / "own.key").write_bytes(key)
    (folder / "both.pem").write_bytes(key + certificate)
    return str(folder / "own.crt"), str(folder / "own.key")


async def test_configured_certificate_is_presented(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, "broker.test")
    for given in ({"tls_cert": certificate, "tls_key": key}, {"tls_cert": str(tmp_path / "both.pem")}):
        trusted = ssl.create_default_context(cafile=certificate)
        async with (
            running_remoting(data=str(tmp_path / "data"), **given) as remoting,
            secured(remoting, context=trusted, server_hostname="broker.test") as client,
        ):
            await client.ok(ROUTE, TEMPLATE)
    assert not (tmp_path / "data" / "tls").exists()


def with_password(key: bytes) -> bytes:
    return load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"of nobody")
    )


async def test_unusable_certificate_fails_the_start(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path, "broker.test")
    _, other = _self_signed(["other"])
    (tmp_path / "other.key").write_bytes(other)
    (tmp_path / "locked.key").write_bytes(with_password(other))
    for given, field in (
        ({"tls_cert": str(tmp_path / "none.crt")}, "tls_cert"),
        ({"tls_cert": certificate}, "tls_cert"),
        ({"tls_cert": certificate, "tls_key": str(tmp_path / "other.key")}, "tls_cert"),
        ({"tls_cert": certificate, "tls_key": str(tmp_path / "locked.key")}, "tls_cert"),
        ({"tls_cert": key}, "tls_cert"),
        ({"tls_key": key}, "tls_key"),
    ):
        with pytest.raises(SettingError, match=f"^setting {field} is .*; allowed: "):
            async with running_remoting(**given):
                pass


async def test_missing_certificate_fails_tls_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        block(tmp_path / "tls")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            async with secured(remoting):
                pass
        await plain_works(remoting)
        await until(lambda: remoting.server.connections == 1)
    assert "cannot make a certificate: " in caplog.text


def block(path: Path) -> None:
    path.mkdir()
    (path / "cert.pem").write_text("no certificate")
    (path / "key.pem").write_text("no key")


# Faults


@pytest.mark.parametrize("data", [b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" * 100_000])
async def test_a_false_tls_start_closes_only_its_connection(data: bytes) -> None:
    async with running_remoting() as remoting:
        remoting.server.hub.tls = remoting.server.hub.tls._replace(handshake_s=0.2)
        reader, writer = await asyncio.open_connection("127.0.0.1", remoting.server.broker_port)
        writer.write(data)
        with suppress(ConnectionError):
            assert (await reader.read())[:1] in (b"", b"\x15")  # the end, or an alert
        writer.close()
        await plain_works(remoting)
        await until(lambda: remoting.server.connections == 1)


async def test_disconnect_during_the_handshake_is_harmless(monkeypatch: pytest.MonkeyPatch) -> None:
    going = asyncio.Event()

    async def context(_certificate: Certificate) -> ssl.SSLContext:
        await going.wait()
        raise OSError("nobody needs it")

    monkeypatch.setattr(Certificate, "context", context)
    async with running_remoting() as remoting:
        async with remoting.another() as client:
            client.write(b"\x16\x03\x01")
            await until(lambda: remoting.server.connections == 2)
        going.set()
        await until(lambda: remoting.server.connections == 1)
        await plain_works(remoting)


async def test_garbage_after_the_handshake_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with running_remoting() as remoting, secured(remoting) as client:
        await client.ok(ROUTE, TEMPLATE)
        client.write(b"\xff" * 100)  # not a frame
        await client.closed()
        await plain_works(remoting)
    assert "the length of a frame is" in caplog.text


async def test_reading_pauses_while_answers_are_unread(caplog: pytest.LogCaptureFixture) -> None:
    body = bytes(1 << 20)
    async with running_remoting() as remoting, secured(remoting) as client:
        await client.ok(V2, header(topic="large"), body)
        client.pause_reading()
        answers = [client.ask(11, pull_of(topic="large")) for _ in range(32)]
        await until(lambda: remoting.server.unread_bytes > 0)
        await plain_works(remoting)
        client.resume_reading()
        async with asyncio.timeout(PATIENCE_S):
            assert all(len(answer.body) > len(body) for answer in await asyncio.gather(*answers))
        await until(lambda: remoting.server.unread_bytes == 0)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_the_end_of_tls_is_signalled() -> None:
    """The server sends a close_notify, so that clients do not mistake the end for a truncation."""
    async with running_remoting() as remoting:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", remoting.server.broker_port, ssl=trusting()
        )
        # Once a request is answered, both ends have completed the handshake.
        writer.write(encode(Command(code=ROUTE, opaque=1, ext=TEMPLATE)))
        await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        closing = asyncio.create_task(remoting.server.close())
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        await closing


def resident_bytes(pid: int) -> int:
    """Return the resident memory of the process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


async def test_large_answers_leave_no_memory_behind() -> None:
    """OpenSSL never shrinks a connection's buffers, so reading all at once would keep 100 MB here."""
    async with broker_process() as process, AsyncExitStack() as clients:

        async def ask(context: ssl.SSLContext | None) -> None:
            port = process.broker_port
            client = RemotingClient(*await asyncio.open_connection("127.0.0.1", port, ssl=context))
            clients.push_async_callback(client.close)
            assert len((await client.ok(33, {"offset": offset})).body) > len(body)

        body = bytes(3_000_000)
        async with connected("127.0.0.1", process.broker_port) as sender:
            sent = await sender.ok(V2, header(), body)
        offset = str(int(sent.ext["msgId"][-16:], 16))
        for _ in range(5):
            await ask(None)
        before = resident_bytes(process.pid)
        for _ in range(30):
            await ask(trusting())
        assert resident_bytes(process.pid) - before < 50_000_000
