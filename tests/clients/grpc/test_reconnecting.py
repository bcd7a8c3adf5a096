"""What clients do when they are told to reconnect. Each goes on, and Node's opens a new Telemetry stream."""

import asyncio
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.emulator import Emulator
from mocketmq.settings import Settings
from tests.clients.grpc import test_closing
from tests.clients.grpc.programs import SDKS, running
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

PROGRAMS = {**test_closing.PROGRAMS, "python-grpc": "python/receiving.py"}
OPENS_A_STREAM = {"node-grpc"}


def streams(emulator: Emulator) -> set[object]:
    """Return the Telemetry streams of all clients."""
    return {member.channel for member in emulator.broker.registry.clients}


@pytest.mark.interop
@pytest.mark.parametrize("client", PROGRAMS)
async def test_a_client_that_is_told_to_reconnect_goes_on(client: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(SDKS[client], FOLDER / PROGRAMS[client], tmp_path)
    settings = Settings(data=":memory:", max_long_poll_us=US_PER_S, **FREE_PORTS)
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        await control.send("orders", "first")
        async with running(program, tmp_path, emulator.grpc_address) as consumer:
            assert await consumer.line() == "received"
            await control.wait_acknowledged("orders", 1, group="g-closing", wait="30s")
            [listed] = await control.clients()
            before = streams(emulator)
            assert await control.reconnect(listed["client_id"]) == {"connections": 1}
            if client in OPENS_A_STREAM:
                while not streams(emulator) - before:
                    await control.clients()
            await control.send("orders", "second")
            await control.wait_acknowledged("orders", 2, group="g-closing", wait="30s")
            assert bool(streams(emulator) - before) is (client in OPENS_A_STREAM)
