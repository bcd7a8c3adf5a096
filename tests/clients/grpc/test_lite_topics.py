"""Lite topics of RocketMQ 5's clients for Java, Python, Node and Go.

Their names have one letter, because Python's client 5.1.2 subscribes to each letter of a name. Their group
has exponential back-offs, because Node's client 1.0.8 knows no others and would not retry.
"""

import asyncio
from pathlib import Path

import pytest

from mocketmq import Client
from mocketmq.app import Emulator, running_emulator
from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, LITE_QUOTA, LITE_SUB_MODEL, GroupConfig
from mocketmq.clock import US_PER_S
from mocketmq.settings import Settings, TopicDeclaration
from tests.clients.grpc.programs import LITE, SDKS, RunningProgram, running
from tests.clients.grpc.versions import FOLDER
from tests.support.brokers import FREE_PORTS
from tests.support.grpc import touch

pytestmark = pytest.mark.interop

TOPIC, GROUP = "chats", "agents"


async def say(program: RunningProgram, line: str) -> list[str]:
    """Make the program obey a line. Returns what it prints, up to its answer."""
    program.stdin.write(f"{line}\n".encode())
    found: list[str] = []
    while not found or found[-1].startswith(("got", "has")):
        found.append(await program.line())
        assert found[-1], "the program has ended"
    return found


async def configure(emulator: Emulator, **attributes: str) -> None:
    """Create the group, with these attributes."""
    config = GroupConfig(
        attributes={LITE_BIND_TOPIC: TOPIC, **attributes}, group_retry_policy={"type": "EXPONENTIAL"}
    )
    await emulator.broker.registry.groups.put(GROUP, 16, 1, config)


@pytest.mark.feature("Lite push consumer", *LITE)
@pytest.mark.parametrize("client", LITE)
async def test_an_application_consumes_lite_topics(client: str, tmp_path: Path) -> None:
    program = await asyncio.to_thread(SDKS[client], FOLDER / LITE[client], tmp_path)
    topics = (TopicDeclaration(name=TOPIC, type="lite"),)
    settings = Settings(data=":memory:", max_long_poll_us=US_PER_S, topics=topics, **FREE_PORTS)
    async with running_emulator(settings) as emulator, Client(emulator.url) as control:
        assert emulator.grpc_address
        await configure(emulator, **{LITE_QUOTA: "2", LITE_SUB_MODEL: "Exclusive"})
        await touch(emulator.grpc_address)
        arguments = emulator.grpc_address, TOPIC, GROUP
        async with (
            running(program, tmp_path, *arguments) as one,
            running(program, tmp_path, *arguments) as two,
        ):
            assert (await one.line(), await two.line()) == ("ready", "ready")
            heard: list[str] = []
            for line in ("send a 1", "send b 1", "subscribe a", "subscribe b"):
                heard += await say(one, line)
                assert heard[-1] == "done", heard
            heard += await say(one, "subscribe e")
            assert heard[-1] == "over quota"
            await control.assert_acknowledged(TOPIC, group=GROUP, count=2, wait="30s")
            await control.send(TOPIC, "fails", lite_topic="a")
            await control.assert_acknowledged(TOPIC, group=GROUP, count=3, wait="30s")
            await say(two, "subscribe b")
            await control.send(TOPIC, "2", lite_topic="b")
            await control.assert_acknowledged(TOPIC, group=GROUP, count=4, wait="30s")
            one.stdin.write_eof()
            two.stdin.write_eof()
            heard += (await one.stdout.read()).decode().splitlines()
            got = sorted(line for line in heard if line.startswith("got"))
            assert got == ["got a 1 1", "got a fails 1", "got a fails 2", "got b 1 1"]
            assert (await two.stdout.read()).decode().splitlines() == ["got b 2 1"]
            assert await one.process.wait() == await two.process.wait() == 0
