"""Priority messages of RocketMQ 5's Python client."""

import asyncio
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings, TopicDeclaration
from tests.clients.grpc.programs import RunningProgram, python, running
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

pytestmark = pytest.mark.interop

TOPIC, MIXED, GROUP = "alarms", "others", "watch"


async def lines_to_end(application: RunningProgram) -> list[str]:
    """Return the program's next lines before ``end``."""
    found: list[str] = []
    while (line := await application.line()) != "end":
        assert line, "the program has ended"
        found.append(line)
    return found


@pytest.mark.feature("Priority messages", "python-grpc")
async def test_an_application_gets_the_highest_priority_first(tmp_path: Path) -> None:
    program = await asyncio.to_thread(python, FOLDER / "python" / "priorities.py", tmp_path)
    topics = (
        TopicDeclaration(name=TOPIC, type="priority", read_queues=10, write_queues=10),
        TopicDeclaration(name=MIXED),
    )
    settings = Settings(
        data=":memory:", clock="manual", max_long_poll_us=US_PER_S, topics=topics, **FREE_PORTS
    )
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        async with running(program, tmp_path, emulator.grpc_address, TOPIC, MIXED, GROUP) as application:
            refused, *first = await lines_to_end(application)
            assert refused == "refused True"  # by the SDK: the route of a mixed topic lacks the type
            assert first == ["9 1", "8 1", "7 1", "6 1"]
            await control.advance("10s")
            application.stdin.write(b"\n")
            fresh = [f"{priority} 1" for priority in reversed(range(6))]
            assert await lines_to_end(application) == [*fresh, "6 2", "7 2"]
            assert await application.process.wait() == 0
