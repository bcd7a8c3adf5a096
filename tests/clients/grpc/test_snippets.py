"""The programs of docs/rocketmq.md for RocketMQ 5's clients do what the page says."""

import asyncio
import re
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.grpc.programs import SCENARIOS, SDKS
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import WAIT_S
from tests.clients.remoting.snippets import programs, running_program
from tests.support.grpc import touch

pytestmark = pytest.mark.interop

ENDPOINT = "127.0.0.1:8081"

PATIENT = {
    "java": [
        (
            f'.setEndpoints("{ENDPOINT}")',
            f'.setEndpoints("{ENDPOINT}").setRequestTimeout(java.time.Duration.ofMinutes(1))',
        )
    ]
}
"""Edits for a busy machine, on which the first TLS connection of a JVM may take longer than three seconds."""


@pytest.mark.parametrize("client", SDKS)
async def test_the_program(client: str, tmp_path: Path) -> None:
    text = programs()[f"grpc_{client.partition('-')[0]}"]
    assert ENDPOINT in text
    for usual, patient in PATIENT.get(client.partition("-")[0], ()):
        assert usual in text
        text = text.replace(usual, patient)
    async with running_remoting_broker() as broker:
        endpoint = (await broker.control.info())["doors"]["grpc"]["address"]
        await touch(endpoint)
        await runs(client, text, endpoint, broker, tmp_path)


TLS = {
    "python-grpc": [
        ('("orders",))', '("orders",), tls_enable=True)'),
        ('("timeout")})', '("timeout")}, tls_enable=True)'),
    ],
    "node-grpc": [
        ("Producer({ endpoints", "Producer({ sslEnabled: true, endpoints"),
        ("namespace: '',", "namespace: '', sslEnabled: true,"),
    ],
}
"""Edits that make the programs use TLS, for SDKs without TLS by default."""


@pytest.mark.feature("TLS", "python-grpc", "node-grpc")
@pytest.mark.parametrize("client", TLS)
async def test_the_program_over_tls(client: str, tmp_path: Path) -> None:
    """The SDK checks the certificate, which is in the broker's data directory."""
    text = programs()[f"grpc_{client.partition('-')[0]}"]
    for plain, secure in TLS[client]:
        assert plain in text
        text = text.replace(plain, secure)
    async with running_remoting_broker("--data", str(tmp_path / "data"), "--tls", "enforcing") as broker:
        endpoint = (await broker.control.info())["doors"]["grpc"]["address"]
        certificate = await certificate_of(endpoint, tmp_path / "data")
        await runs(
            client, text, endpoint, broker, tmp_path, {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(certificate)}
        )


async def certificate_of(endpoint: str, data: Path) -> Path:
    """Return the certificate that the broker signs at the first TLS connection."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    await touch(endpoint, context)
    return data / "tls" / "cert.pem"


async def runs(
    client: str, text: str, endpoint: str, broker: RemotingBroker, folder: Path, env: Mapping[str, str] = {}
) -> None:
    """Run a program, which sends a delayed message and receives it."""
    source = folder / f"orders{Path(SCENARIOS[client]).suffix}"
    source.write_text(text.replace(ENDPOINT, endpoint))
    program = await asyncio.to_thread(SDKS[client], source, folder)
    running = running_program(*program.command, home=folder, env=dict(program.environment) | dict(env))
    async with running as output, asyncio.timeout(WAIT_S):
        assert re.fullmatch(rb"[0-9A-Fa-f]{34}\n", await output.readline())
        [due_ms] = await broker.pending("orders")
        await broker.control.move_to(due_ms)
        assert await output.readline() == b"order 7 was not paid\n"
