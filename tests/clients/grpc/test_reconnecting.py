"""What clients do when they are told to reconnect. Each goes on, and Node's opens a new Telemetry stream."""

from pathlib import Path

import pytest

from mocketmq.app import Emulator
from tests.clients.grpc import test_closing

PROGRAMS = {**test_closing.PROGRAMS, "python-grpc": "python/receiving.py"}
OPENS_A_STREAM = {"node-grpc"}


def streams(emulator: Emulator) -> set[object]:
    """Return the Telemetry streams of all clients."""
    return {member.channel for member in emulator.broker.registry.clients}


@pytest.mark.interop
@pytest.mark.parametrize("client", PROGRAMS)
async def test_a_client_that_is_told_to_reconnect_goes_on(client: str, tmp_path: Path) -> None:
    async with test_closing.consuming(client, PROGRAMS[client], tmp_path) as (emulator, control, _):
        [listed] = await control.clients()
        before = streams(emulator)
        assert await control.reconnect(listed["client_id"]) == {"connections": 1}
        if client in OPENS_A_STREAM:
            while not streams(emulator) - before:
                await control.clients()
        await control.send("orders", "second")
        await control.wait_acknowledged("orders", 2, group="g-closing", wait="30s")
        assert bool(streams(emulator) - before) is (client in OPENS_A_STREAM)
