"""A real cluster and mocketmq answer alike while brokers end and come back: two brokers with a slave each."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.differential.answers import Names
from tests.differential.cluster_known import SLAVE_RULES
from tests.differential.cluster_plays import PLAYS, PREPARED, Play, Step
from tests.differential.cluster_side import BROKERS, SLAVE_OF, B, ClusterSide, OurCluster, TheirCluster
from tests.differential.duel import played
from tests.differential.known import RULES, Known
from tests.differential.newer_known import NEWER_RULES
from tests.differential.player import POLL_S
from tests.differential.values import LEVELS
from tests.doors.remoting import producing
from tests.support.patience import HANGING_S
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.cluster import MASTER, UpstreamCluster, running_cluster
from tests.upstream.jars import V5_5
from tests.upstream.process import HOST, SMALL

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]


class Run(NamedTuple):
    """A run that is prepared for a play, and the names that each cluster has given in it."""

    id: str
    theirs: Mapping[str, Names]
    ours: Mapping[str, Names]


class Pair(NamedTuple):
    """Both clusters, and a run for each play."""

    theirs: TheirCluster
    ours: OurCluster
    runs: Mapping[str, Run]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:  # noqa: ARG001
    """Run both clusters."""
    home = tmp_path_factory.mktemp("clusters") / "theirs"
    settings = {
        **SMALL,
        "messageDelayLevel": LEVELS,
        "brokerFastFailureEnable": "false",
        "enableSingleTopicRegister": "true",
        "flushConsumerOffsetInterval": "500",
    }
    options = ("--brokers", "2", "--slaves", "1", "--auto-create-topics", "send", "--levels", LEVELS)
    async with (
        running_cluster(home, V5_5, BROKERS, settings) as upstream,
        broker_process(*options, "--server-version", V5_5, "--log-level", "error") as process,
        Client(process.url) as control,
    ):
        ours = await OurCluster.of(process.name_server[1], control)
        for ports in (upstream.ports, ours.ports):
            for name in BROKERS:
                await _send_first(ports[name, MASTER])
        theirs = TheirCluster(upstream)
        runs = {
            name: await _prepared(f"{os.getpid():x}-{n:06x}", theirs, ours) for n, name in enumerate(PLAYS)
        }
        await _all_saved(upstream, [run.id for run in runs.values()])
        await upstream.start_slaves()
        yield Pair(theirs, ours, runs)
        assert not process.stderr, process.stderr


async def _send_first(port: int) -> None:
    """Send the message with log offset 0, which in a committed message would mean that it was never half."""
    async with connected(HOST, port) as client:
        await producing.sent(client, b"-1", topic="first")


async def _prepared(run: str, theirs: TheirCluster, ours: OurCluster) -> Run:
    """Play on both clusters what each play begins with."""
    async with AsyncExitStack() as stack:
        sides = ClusterSide(theirs, run, stack), ClusterSide(ours, run, stack)
        await _play(PREPARED, *sides, set())
        return Run(run, *(side.names for side in sides))


async def _all_saved(upstream: UpstreamCluster, runs: Sequence[str]) -> None:
    """Wait until the real broker-b has saved the offsets that all groups have committed there."""
    file = upstream.home_of(B, MASTER) / "store" / "config" / "consumerOffset.json"
    async with asyncio.timeout(HANGING_S):
        while not await asyncio.to_thread(_has_all, file, runs):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


def _has_all(file: Path, texts: Sequence[str]) -> bool:
    saved = file.read_text() if file.exists() else ""
    return all(text in saved for text in texts)


@pytest.mark.parametrize("name", PLAYS)
async def test_clusters_answer_alike(pair: Pair, name: str) -> None:
    run, down = pair.runs[name], set[str]()
    async with AsyncExitStack() as stack:
        theirs = ClusterSide(pair.theirs, run.id, stack, run.theirs)
        ours = ClusterSide(pair.ours, run.id, stack, run.ours)
        try:
            await _play(PLAYS[name], theirs, ours, down)
        finally:
            for broker in down:
                await asyncio.gather(pair.theirs.start(broker), pair.ours.start(broker))


async def _play(play: Play, theirs: ClusterSide, ours: ClusterSide, down: set[str]) -> None:
    """Play on both clusters, and fail at the first step with an unknown difference.

    ``down`` has the names of brokers that are down, even after a failure.
    """
    at_brokers = Known((*RULES, *NEWER_RULES), V5_5)
    at_slaves = Known((*RULES, *NEWER_RULES, *SLAVE_RULES), V5_5)
    for step in play:
        if step.op.name == "life":
            await _live(theirs, ours, step, down)
            continue
        known = at_slaves if step.place in SLAVE_OF.values() else at_brokers
        found = await played(step.op, theirs.at(step.place), ours.at(step.place), known, HANGING_S)
        unknown = [each for each in found if not known.explains(each)]
        if unknown:
            pytest.fail(f"at {step.place}: " + "\n".join(map(str, unknown)), pytrace=False)


async def _live(theirs: ClusterSide, ours: ClusterSide, step: Step, down: set[str]) -> None:
    """End or start a broker of both clusters."""
    change, broker = step.op.args["change"], step.place
    down.add(broker)
    await asyncio.gather(*(getattr(side.cluster, change)(broker) for side in (theirs, ours)))
    if change == "start":
        down.discard(broker)
        for side in (theirs, ours):
            side.open_anew(broker)
