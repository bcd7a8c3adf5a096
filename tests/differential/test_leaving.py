"""RocketMQ 5 clients that close while they work, or idle, behave as with a real proxy."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from mocketmq.remoting.wire.codes import RequestCode
from tests.clients.grpc.leaving import Closed, play
from tests.clients.grpc.programs import LEAVING
from tests.clients.grpc.versions import FOLDER
from tests.differential.topics import make_groups, make_topic
from tests.support.grpc import touch
from tests.support.patience import PATIENCE_S
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.jars import V5
from tests.upstream.process import HOST, SMALL, running_upstream

GROUPS = ("g-closing", "g-idle")
"""The programs' groups."""
BY_CHANCE = {"empty", "open"}
"""Outcomes of a receive of Java's clients that are closed meanwhile.

ClientManagerImpl ends the threads that hand over answers once the connection has ended, which it does with
its last answer. If all of them are busy at that moment, the application's call never ends.
"""
RECEIVES_SLACK = 2
"""Number of answers allowed beyond twice the real proxy's, because polls end at different moments."""
CPU_SLACK_S = 0.5
"""CPU seconds of slack: a tenth of a core. Receives answered at once would cost a third of a core."""


class Side(NamedTuple):
    """A broker as its clients reach it."""

    namesrv_port: int
    broker_port: int
    grpc_port: int
    pid: int
    receives: Callable[[], Awaitable[int]]
    """Number of receives answered so far."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def theirs(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Side]:  # noqa: ARG001
    """Run RocketMQ 5.3.3 with its proxy, which logs its answers.

    With 5.5.0, a receive fails by chance: if it overtakes the settings of its client, which
    ReceiveMessageActivity uses without a check.
    """
    home = tmp_path_factory.mktemp("leaving") / "upstream"

    async def receives() -> int:
        log = await asyncio.to_thread((home / "proxy.log").read_text)
        return log.count("delivery_timestamp {")  # ends each answer to a receive, and no other

    settings = {**SMALL, "brokerFastFailureEnable": "false"}
    async with running_upstream(home, V5, settings, {}, levels={"RocketmqProxy": "DEBUG"}) as upstream:
        ports = upstream.namesrv_port, upstream.broker_port, upstream.grpc_port
        yield Side(*ports, upstream.pids[1], receives)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ours() -> AsyncIterator[Side]:
    """Run mocketmq."""
    async with broker_process("--log-level", "error") as broker, ClientSession() as session:

        async def receives() -> int:
            async with session.get(f"{broker.url}/metrics") as response:
                families = text_string_to_metric_families(await response.text())
            samples = [sample for family in families for sample in family.samples]
            return sum(
                int(sample.value)
                for sample in samples
                if sample.name == "mocketmq_grpc_requests_total" and sample.labels["rpc"] == "ReceiveMessage"
            )

        await touch(broker.grpc)
        ports = broker.name_server[1], broker.broker_port, int(broker.grpc.rpartition(":")[2])
        yield Side(*ports, broker.pid, receives)
        assert not broker.stderr, broker.stderr


@pytest.mark.differential
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("client", LEAVING)
async def test_clients_close_and_idle_as_with_a_real_proxy(
    client: str, theirs: Side, ours: Side, tmp_path_factory: pytest.TempPathFactory
) -> None:
    there, here = await asyncio.gather(
        *(_played(client, side, tmp_path_factory.mktemp("client")) for side in (theirs, ours))
    )
    if {here.receive, there.receive} != BY_CHANCE or not client.startswith("java"):
        assert here.receive == there.receive
    assert here.uncaught == there.uncaught
    if not there.sends.open:  # a closed rocketmq-python-client never ends its sends and blocks its event loop
        assert here.sends.open == 0
        assert here.sends.ok >= there.sends.ok
    assert here.idle.receives <= 2 * there.idle.receives + RECEIVES_SLACK
    assert here.idle.client_s <= 2 * there.idle.client_s + CPU_SLACK_S
    assert here.idle.broker_s <= 2 * there.idle.broker_s + CPU_SLACK_S


async def _played(client: str, side: Side, home: Path) -> Closed:
    """Run the client, and wait until all of its successful sends are stored."""
    make, source = LEAVING[client]
    program = await asyncio.to_thread(make, FOLDER / source, home)
    sent, empty = (f"{kind}-{client.replace('.', '-')}" for kind in ("sent", "empty"))
    for topic in (sent, empty):
        await make_topic(HOST, side.namesrv_port, side.broker_port, topic, "NORMAL")
    await make_groups(HOST, side.broker_port, *GROUPS)
    closed = await play(program, home, f"{HOST}:{side.grpc_port}", sent, empty, side.pid, side.receives)
    await _wait_until_stored(side, sent, closed.sends.ok)
    return closed


async def _wait_until_stored(side: Side, topic: str, count: int) -> None:
    """Wait until the topic's only queue has ``count`` messages, which RocketMQ adds after it answers."""
    ext = {"topic": topic, "queueId": "0"}
    async with asyncio.timeout(PATIENCE_S), connected(HOST, side.broker_port) as client:
        while int((await client.call(RequestCode.GET_MAX_OFFSET, ext)).ext["offset"]) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
