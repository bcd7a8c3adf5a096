"""Push consumers wait for their long polls when they close, which the setting ``max_long_poll`` ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import Emulator, running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings
from tests.clients.grpc.programs import SDKS, RunningProgram, running
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

PROGRAMS = {
    "java-5.0-grpc": "java/src/Closing.java",
    "java-5.2-grpc": "java/src/Closing.java",
    "node-grpc": "node/closing.js",
    "go-grpc": "go/closing/main.go",
}
CLOSED_MS = 20_000
"""Less than each takes to close without the setting. With it, Java and Node take two seconds, and Go five."""


@asynccontextmanager
async def consuming(
    client: str, source: str, home: Path
) -> AsyncIterator[tuple[Emulator, Client, RunningProgram]]:
    """Run a program with a push consumer, which has received and acknowledged one message of ``orders``."""
    program = await asyncio.to_thread(SDKS[client], FOLDER / source, home)
    settings = Settings(data=":memory:", max_long_poll_us=US_PER_S, **FREE_PORTS)
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        await control.send("orders", "first")
        async with running(program, home, emulator.grpc_address) as consumer:
            assert await consumer.line() == "received"
            await control.wait_acknowledged("orders", 1, group="g-closing", wait="30s")
            yield emulator, control, consumer


@pytest.mark.interop
@pytest.mark.parametrize("client", PROGRAMS)
async def test_a_push_consumer_closes_when_its_long_poll_ends(client: str, tmp_path: Path) -> None:
    async with consuming(client, PROGRAMS[client], tmp_path) as (_, _, consumer):
        consumer.stdin.write(b"\n")
        closed_ms = int(await consumer.line())
        assert await consumer.process.wait() == 0
    assert closed_ms < CLOSED_MS
