"""The example for Aliyun's client in docs/clients.md works as its applications expect."""

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients import send_delay_message as example
from tests.clients.conftest import Broker
from tests.clients.python_sdk import PythonSdk, open_python_sdk
from tests.clients.sdk import Account
from tests.clients.send_delay_message import send_delay_message

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXAMPLE = Path(example.__file__).read_text()
GROUP = "GID_billing"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest_asyncio.fixture(loop_scope="session")
async def python(broker: Broker) -> AsyncIterator[PythonSdk]:
    async with open_python_sdk(Account(broker.url)) as sdk:
        yield sdk


async def test_delivered_when_due(broker: Broker, python: PythonSdk, topic: str) -> None:
    earliest_ms = int(time.time() * 1000)
    message_id = await asyncio.to_thread(
        send_delay_message, python.client, topic, "order 7", "7", HOUR_MS, "timeout"
    )
    latest_ms = int(time.time() * 1000)
    assert message_id

    await broker.control.move_to(await broker.due_ms(topic) - 1)
    assert await python.take(topic, GROUP) == []
    await broker.control.advance("1ms")
    [message] = await python.take(topic, GROUP)
    assert (message.message_id, message.body) == (message_id, "order 7")
    assert (message.key, message.tag) == ("7", "timeout")
    assert message.start_deliver_ms
    assert earliest_ms <= message.start_deliver_ms - HOUR_MS <= latest_ms


async def test_none_when_refused(python: PythonSdk, topic: str) -> None:
    message_id = await asyncio.to_thread(
        send_delay_message, python.client, topic, "order 7", "7", 41 * DAY_MS, "timeout"
    )
    assert message_id is None
    assert await python.take(topic, GROUP) == []


async def test_as_a_program(broker: Broker, tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(EXAMPLE.replace("http://127.0.0.1:9877", broker.url))
    process = await asyncio.create_subprocess_exec(sys.executable, program, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert re.fullmatch(r"[0-9A-F]{32}\n", output.decode())
