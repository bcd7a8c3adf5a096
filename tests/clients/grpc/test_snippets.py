"""The programs of docs/rocketmq.md for RocketMQ 5's clients do what it says."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.clients.grpc.programs import SCENARIOS, SDKS
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import WAIT_S
from tests.clients.remoting.snippets import programs, running_program

pytestmark = pytest.mark.interop

ENDPOINT = "127.0.0.1:8081"


@pytest.mark.parametrize("client", SDKS)
async def test_the_program(client: str, tmp_path: Path) -> None:
    text = programs()[f"grpc_{client.partition('-')[0]}"]
    assert ENDPOINT in text
    async with running_remoting_broker() as broker:
        endpoint = (await broker.control.info())["doors"]["grpc"]["address"]
        source = tmp_path / f"orders{Path(SCENARIOS[client]).suffix}"
        source.write_text(text.replace(ENDPOINT, endpoint))
        program = await asyncio.to_thread(SDKS[client], source, tmp_path)
        running = running_program(*program.command, home=tmp_path, env=program.environment)
        async with running as output, asyncio.timeout(WAIT_S):
            assert re.fullmatch(rb"[0-9A-Fa-f]{34}\n", await output.readline())
            [due_ms] = await broker.pending("orders")
            await broker.control.move_to(due_ms)
            assert await output.readline() == b"order 7 was not paid\n"
