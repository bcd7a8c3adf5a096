"""Unmodified clients get priority messages in the same order as from a real broker, and from its proxy."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.clients.grpc.programs import LOWEST_PRIORITY, PRIORITIES, SDKS, RunningProgram
from tests.clients.grpc.versions import FOLDER
from tests.clients.java.building import build, java_command
from tests.clients.remoting.driver import running_driver
from tests.differential.clients import names_of, playing
from tests.differential.op import Ends
from tests.differential.proxies import our_proxy, their_proxy
from tests.differential.topics import make_groups, make_topic
from tests.doors.grpc.recorded import Recorded
from tests.doors.grpc.recorded.recorder import record
from tests.doors.remoting import recorded
from tests.support.patience import HANGING_S
from tests.support.remoting_pass_through import passing_remoting_through
from tests.upstream.process import HOST

RECORDED = "RECORDED_PRIORITIES"
"""Variable that names a folder for what clients send to RocketMQ; see tests/doors/grpc/recorded/README.md."""
QUEUES = 10
GROUP = "watch-java-5-5"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ends]:  # noqa: ARG001
    """Run RocketMQ 5.5.0 with its proxy."""
    async with their_proxy(tmp_path_factory.mktemp("priorities") / "upstream") as ends:
        yield ends


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours() -> AsyncIterator[Ends]:
    """Run mocketmq."""
    async with our_proxy() as ends:
        yield ends


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("client", PRIORITIES)
async def test_a_grpc_application_receives_priorities_alike(
    client: str, theirs: Ends, ours: Ends, tmp_path_factory: pytest.TempPathFactory
) -> None:
    there, sent = await _received(client, theirs, tmp_path_factory.mktemp("client"))
    if RECORDED in os.environ:
        record(Path(os.environ[RECORDED]) / f"{client}.txt", sent, every=("SendMessageRequest",))
    here, _ = await _received(client, ours, tmp_path_factory.mktemp("client"))
    assert here == there
    fresh = [f"{priority} 1" for priority in reversed(range(LOWEST_PRIORITY.get(client, 0), QUEUES))]
    assert here == ["refused true", *fresh, "6 2", "7 2"]


async def _received(client: str, ends: Ends, home: Path) -> tuple[Sequence[str], Sequence[Recorded]]:
    """Return what the client printed, and what it sent.

    RocketMQ makes messages of several queues visible again side by side, in an order of chance.
    """
    program = await asyncio.to_thread(SDKS[client], FOLDER / PRIORITIES[client], home)
    topic, other, group = names_of(client, "alarms", "others", "watch")
    await make_topic(HOST, ends.namesrv_port, ends.broker_port, topic, "PRIORITY", QUEUES)
    await make_topic(HOST, ends.namesrv_port, ends.broker_port, other, "NORMAL")
    await make_groups(HOST, ends.broker_port, group)
    arguments = topic, other, group, str(LOWEST_PRIORITY.get(client, 0))
    async with playing(client, program, home, ends.grpc_port, *arguments) as (application, sent):
        first = await lines_to_end(application)
        application.stdin.write(b"\n")
        *others, last, very_last = await lines_to_end(application)
        return [*first, *others, *sorted((last, very_last))], sent


async def lines_to_end(application: RunningProgram) -> list[str]:
    """Return the program's next lines before ``end``."""
    found: list[str] = []
    async with asyncio.timeout(HANGING_S):
        while (line := await application.line()) != "end":
            assert line, "the program has ended"
            found.append(line.lower())  # Python's True
    return found


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
async def test_a_remoting_application_pops_priorities_alike(
    theirs: Ends, ours: Ends, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await asyncio.to_thread(build)
    there, sent = await _popped(theirs, tmp_path_factory.mktemp("client"))
    if RECORDED in os.environ:
        recorded.record(recorded.PRIORITIES, sent)
    here, _ = await _popped(ours, tmp_path_factory.mktemp("client"))
    assert here == there
    assert [body for body, _ in here[0]] == ["9", "8", "7", "6"]


async def _popped(ends: Ends, home: Path) -> tuple[Any, Sequence[recorded.RecordedRequest]]:
    """Return what Java's client popped before and after some messages were acknowledged, and what it sent."""
    topic = "alarms-java-5-5"
    await make_topic(HOST, ends.namesrv_port, ends.broker_port, topic, "PRIORITY", QUEUES)
    await make_groups(HOST, ends.broker_port, GROUP)
    command = java_command("java-5.5", home)
    async with passing_remoting_through(ends.namesrv_port, ends.broker_port) as between:
        options = {
            "name_server": f"{HOST}:{between.namesrv_port}",
            "broker": f"{HOST}:{between.broker_port}",
        }
        async with (
            running_driver((*command, "rocketmq.RocketmqDriver"), home, **options) as producer,
            running_driver((*command, "rocketmq5.PopDriver"), home, **options) as consumer,
        ):
            for priority in range(QUEUES):
                await producer.call("send", topic=topic, body=str(priority), priority=priority)

            async def pop(count: int) -> list[tuple[str, int]]:
                found = await consumer.call("pop", topic=topic, group=GROUP, count=count)
                for one in found:
                    handle = one["properties"]["POP_CK"]
                    assert await consumer.call("ack", topic=topic, group=GROUP, handle=handle) == "OK"
                return [(one["body"], one["times"]) for one in found]

            first = await pop(4)
            await producer.call("send", topic=topic, body="late", priority=7)
            return [first, await pop(32)], between.sent
