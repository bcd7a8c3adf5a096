"""Priority messages of RocketMQ 5's clients for Java, Python, Node and Go."""

import asyncio
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import running_emulator
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings, TopicDeclaration
from tests.clients.grpc.programs import LOWEST_PRIORITY, PRIORITIES, SDKS, RunningProgram, running
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
        found.append(line.lower())  # Python's True
    return found


@pytest.mark.feature("Priority messages", *PRIORITIES)
@pytest.mark.parametrize("client", PRIORITIES)
async def test_an_application_gets_the_highest_priority_first(client: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(SDKS[client], FOLDER / PRIORITIES[client], tmp_path)
    topics = (
        TopicDeclaration(name=TOPIC, type="priority", read_queues=10, write_queues=10),
        TopicDeclaration(name=MIXED),
    )
    settings = Settings(
        data=":memory:", clock="manual", max_long_poll_us=US_PER_S, topics=topics, **FREE_PORTS
    )
    lowest = LOWEST_PRIORITY.get(client, 0)
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        assert emulator.grpc_address
        await touch(emulator.grpc_address)
        arguments = emulator.grpc_address, TOPIC, MIXED, GROUP, str(lowest)
        async with running(program, tmp_path, *arguments) as application:
            refused, *first = await lines_to_end(application)
            assert refused == "refused true"  # by the SDK: the route of a mixed topic lacks the type
            assert first == ["9 1", "8 1", "7 1", "6 1"]
            await control.advance("10s")
            application.stdin.write(b"\n")
            fresh = [f"{priority} 1" for priority in reversed(range(lowest, 6))]
            assert await lines_to_end(application) == [*fresh, "6 2", "7 2"]
            assert await application.process.wait() == 0
