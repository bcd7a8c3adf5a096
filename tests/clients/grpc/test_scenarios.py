"""Unmodified SDKs of RocketMQ 5: send, delay, recall, filter, order, retry, transactions."""

import asyncio
import os
from pathlib import Path

import pytest

from mocketmq.app import running_emulator
from mocketmq.broker.registry.group import GroupConfig
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings
from tests.clients.grpc.programs import FOLDER, SCENARIOS, SDKS
from tests.support.brokers import FREE_PORTS

pytestmark = pytest.mark.interop

STEPS = (
    *("normal", "delay", "recall", "change", "filter", "fifo"),
    *("dead letter", "transaction", "shutdown"),
)
OF_RUST = ("normal", "delay", "filter", "fifo", "transaction", "shutdown")
"""Its published client has no more: no push consumer, no recall, no change of invisible durations."""
RUN_S = 240.0


@pytest.mark.parametrize("client", SDKS)
async def test_an_application_of_the_sdk_works(client: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(SDKS[client], FOLDER / SCENARIOS[client], tmp_path)
    settings = Settings(data=":memory:", transaction_timeout_us=US_PER_S, **FREE_PORTS)
    async with running_emulator(settings) as emulator:
        groups = emulator.broker.registry.groups
        await groups.put("g-fifo", 16, 1, GroupConfig(consume_message_orderly=True))
        await groups.put("g-retry", 1, 1)
        assert emulator.grpc_address
        process = await asyncio.create_subprocess_exec(
            *program.command,
            emulator.grpc_address,
            env=os.environ | program.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(RUN_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    done = [line.removeprefix("ok ") for line in output.decode().splitlines() if line.startswith("ok ")]
    assert (tuple(done), process.returncode) == (OF_RUST if client == "rust-grpc" else STEPS, 0), (
        errors.decode()[-4_000:]
    )
