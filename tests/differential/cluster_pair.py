"""A real cluster and mocketmq, on which the same plays are played."""

import asyncio
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from mocketmq import Client
from tests.differential.answers import Names
from tests.differential.cluster_side import SLAVE_OF, ClusterSide, OurCluster, TheirCluster
from tests.differential.cluster_steps import Play, Step
from tests.differential.duel import played
from tests.differential.known import RULES, Known, Rule
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

_SETTINGS: Final = {
    **SMALL,
    "messageDelayLevel": LEVELS,
    "brokerFastFailureEnable": "false",
    "enableSingleTopicRegister": "true",
    "flushConsumerOffsetInterval": "500",
}


class Run(NamedTuple):
    """A run that is prepared for a play, and the names that each cluster has given in it."""

    id: str
    theirs: Mapping[str, Names]
    ours: Mapping[str, Names]


class Pair:
    """Both clusters. Rules explain differences at brokers, and at slaves."""

    def __init__(
        self, theirs: TheirCluster, ours: OurCluster, rules: Sequence[Rule], of_slaves: Sequence[Rule]
    ) -> None:
        rules = (*RULES, *NEWER_RULES, *rules)
        self._theirs = theirs
        self._ours = ours
        self._at_brokers, self._at_slaves = Known(rules, V5_5), Known((*rules, *of_slaves), V5_5)
        self._runs: dict[str, Run] = {}

    async def prepare(self, name: str, begin: Play) -> str:
        """Play what the play of this name begins with, and return the id of its run."""
        id_ = f"{os.getpid():x}-{len(self._runs):06x}"
        async with AsyncExitStack() as stack:
            sides = ClusterSide(self._theirs, id_, stack), ClusterSide(self._ours, id_, stack)
            await self._play(begin, *sides, set())
            self._runs[name] = Run(id_, *(side.names for side in sides))
        return id_

    async def play(self, name: str, play: Play) -> None:
        """Play on both clusters, fail at the first unknown difference, and start brokers that are down."""
        run, down = self._runs[name], set[str]()
        async with AsyncExitStack() as stack:
            theirs = ClusterSide(self._theirs, run.id, stack, run.theirs)
            ours = ClusterSide(self._ours, run.id, stack, run.ours)
            try:
                await self._play(play, theirs, ours, down)
            finally:
                for broker in down:
                    await asyncio.gather(self._theirs.start(broker), self._ours.start(broker))

    async def _play(self, play: Play, theirs: ClusterSide, ours: ClusterSide, down: set[str]) -> None:
        """Play on both clusters. ``down`` has the names of brokers that are down, even after a failure."""
        for step in play:
            if step.op.name == "life":
                await _live(theirs, ours, step, down)
                continue
            known = self._at_slaves if step.place in SLAVE_OF.values() else self._at_brokers
            found = await played(step.op, theirs.at(step.place), ours.at(step.place), known, HANGING_S)
            unknown = [each for each in found if not known.explains(each)]
            if unknown:
                pytest.fail(f"at {step.place}: " + "\n".join(map(str, unknown)), pytrace=False)


@asynccontextmanager
async def running_pair(
    home: Path,
    brokers: Sequence[str],
    begin: Play,
    plays: Collection[str],
    *options: str,
    settings: Mapping[str, str] = {},
    of_name_server: Mapping[str, str] = {},
    rules: Sequence[Rule] = (),
    of_slaves: Sequence[Rule] = (),
) -> AsyncIterator[Pair]:
    """Run both clusters, with a run for each of the plays, which all begin alike, before the slaves start.

    ``options`` are those of mocketmq, the settings those of the real cluster. For the rules see ``Pair``.
    """
    options = (*options, "--slaves", "1", "--auto-create-topics", "send", "--levels", LEVELS)
    async with (
        running_cluster(home, V5_5, brokers, {**_SETTINGS, **settings}, of_name_server) as upstream,
        broker_process(*options, "--server-version", V5_5, "--log-level", "error") as process,
        Client(process.url) as control,
    ):
        ours = await OurCluster.of(process.name_server[1], control)
        for ports in (upstream.ports, ours.ports):
            for name in brokers:
                await _send_first(ports[name, MASTER])
        pair = Pair(TheirCluster(upstream), ours, rules, of_slaves)
        ids = [await pair.prepare(name, begin) for name in plays]
        await _all_saved(upstream, brokers[-1], ids)
        await upstream.start_slaves()
        yield pair
        assert not process.stderr, process.stderr


async def _send_first(port: int) -> None:
    """Send the message with log offset 0, which in a committed message would mean that it was never half."""
    async with connected(HOST, port) as client:
        await producing.sent(client, b"-1", topic="first")


async def _all_saved(upstream: UpstreamCluster, broker: str, runs: Sequence[str]) -> None:
    """Wait until the real broker has saved the offsets that all groups have committed there."""
    file = upstream.home_of(broker, MASTER) / "store" / "config" / "consumerOffset.json"
    async with asyncio.timeout(HANGING_S):
        while not await asyncio.to_thread(_has_all, file, runs):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


def _has_all(file: Path, texts: Sequence[str]) -> bool:
    saved = file.read_text() if file.exists() else ""
    return all(text in saved for text in texts)


async def _live(theirs: ClusterSide, ours: ClusterSide, step: Step, down: set[str]) -> None:
    """End or start a broker of both clusters."""
    change, broker = step.op.args["change"], step.place
    down.add(broker)
    await asyncio.gather(*(getattr(side.cluster, change)(broker) for side in (theirs, ours)))
    if change == "start":
        down.discard(broker)
        for side in (theirs, ours):
            side.open_anew(broker)
