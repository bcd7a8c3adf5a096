"""Clients find the broker in a container with published ports, simulated by network namespaces."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.network import inside, ip, namespaces
from tests.support.process import broker_process
from tests.support.remoting import connected

ROOT = Path(__file__).parents[3]
HOST, BROKER, NEIGHBOUR = (f"mocketmq-{os.getpid()}-{name}" for name in ("host", "broker", "neighbour"))
GATEWAY, ADDRESSES = "10.213.7.1", {BROKER: "10.213.7.2", NEIGHBOUR: "10.213.7.3"}
NAMESRV_PORT, BROKER_PORT = 9_876, 10_911

IN_A_CONTAINER = 'mount -t tmpfs tmpfs /run && touch /run/.containerenv && exec "$@"'


def lay_cables() -> None:
    """Set up a host with a bridge, and two containers that use the host as gateway."""
    ip("link", "add", "bridge", "type", "bridge", namespace=HOST)
    ip("address", "add", f"{GATEWAY}/24", "dev", "bridge", namespace=HOST)
    ip("link", "set", "bridge", "up", namespace=HOST)
    for name, address in ADDRESSES.items():
        port = name.rpartition("-")[2]
        ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name, namespace=HOST)
        ip("link", "set", port, "master", "bridge", "up", namespace=HOST)
        ip("address", "add", f"{address}/24", "dev", "eth0", namespace=name)
        ip("link", "set", "eth0", "up", namespace=name)
        ip("route", "add", "default", "via", GATEWAY, namespace=name)


@pytest.fixture
def network() -> Iterator[None]:
    with namespaces(HOST, *ADDRESSES):
        lay_cables()
        yield


@asynccontextmanager
async def calling(namespace: str, function: str, *words: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a function of this module in a process in another network namespace."""
    code = f"import asyncio, sys; from {__name__} import {function} as f; asyncio.run(f(*sys.argv[1:]))"
    process = await asyncio.create_subprocess_exec(
        *(*inside(namespace), sys.executable, "-c", code, *map(str, words)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def find_broker(host: str) -> None:
    """Ask the name server at the host for the broker, send the broker a request, print its address."""
    async with connected(host, NAMESRV_PORT) as client:
        route = json.loads((await client.ok(105, {"topic": "TBW102"})).body)
    address = route["brokerDatas"][0]["brokerAddrs"]["0"]
    broker, _, port = address.partition(":")
    async with connected(broker, int(port)) as client:
        await client.ok(105, {"topic": "TBW102"})
    sys.stdout.write(address)


async def publish_ports() -> None:
    """Forward connections to 127.0.0.1, as a container's host does."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    def to(port: int) -> object:
        async def publish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_connection(ADDRESSES[BROKER], port)
            await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

        return publish

    for port in (NAMESRV_PORT, BROKER_PORT):
        await asyncio.start_server(to(port), "127.0.0.1", port)  # type: ignore[arg-type]
    sys.stdout.write("published\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


async def answer(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    return (await process.stdout.read()).decode()


@pytest.mark.usefixtures("network")
async def test_host_and_other_containers_reach_the_broker() -> None:
    wrapper = (*inside(BROKER), "sh", "-c", IN_A_CONTAINER, "sh")
    ports = ("--namesrv-port", str(NAMESRV_PORT), "--broker-port", str(BROKER_PORT))
    async with (
        broker_process("--host", "0.0.0.0", *ports, wrapper=wrapper),  # noqa: S104 - as an image does
        calling(HOST, "publish_ports") as publisher,
    ):
        assert publisher.stdout
        assert await publisher.stdout.readline() == b"published\n"
        for namespace, dialled, told in (
            (HOST, "127.0.0.1", "127.0.0.1"),
            (NEIGHBOUR, ADDRESSES[BROKER], ADDRESSES[BROKER]),
            (BROKER, "127.0.0.1", "127.0.0.1"),
        ):
            async with calling(namespace, "find_broker", dialled) as client:
                assert await answer(client) == f"{told}:{BROKER_PORT}"
