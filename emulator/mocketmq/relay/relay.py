"""The relay, which serves the partitions of the delay topic that its consumer group assigns to it."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Generic, NamedTuple

from mocketmq.relay.partition import A, Cluster, Partition
from mocketmq.relay.serving import Serving
from mocketmq.relay.shelf import OpenShelf


class RelayFigures(NamedTuple):
    """Counts since the relay's start. ``pending`` is current; ``lateness_us`` is the newest message's."""

    pending: int = 0
    kept: int = 0
    forwarded: int = 0
    refused: int = 0
    lateness_us: int | None = None


Tell = Callable[[Sequence[str], int], None]
"""Called with the names of the relay's partitions and the number of pending messages."""


class Relay(Generic[A]):
    """Runs a relay. ``tell`` is called when all partitions of a new assignment have been taken over."""

    def __init__(self, cluster: Cluster[A], open_shelf: OpenShelf, tell: Tell) -> None:
        self._cluster = cluster
        self._open_shelf = open_shelf
        self._tell = tell
        self._serving: dict[Partition[A], Serving[A]] = {}
        self._announcing: asyncio.Task[None] | None = None
        self._before = RelayFigures()  # totals of partitions that this relay no longer owns

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then leave the group. Raises RelayError."""
        following = asyncio.create_task(self._follow())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([following, stopping], return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
        finally:
            for task in (following, stopping):
                task.cancel()
            await asyncio.gather(following, stopping, return_exceptions=True)
            await self._give_up([*self._serving])
            await self._cluster.close()

    def figures(self) -> RelayFigures:
        return _sum(self._before, self._serving.values())

    async def _follow(self) -> None:
        await self._cluster.open()
        while True:
            owned = await self._cluster.changed()
            await self._give_up([each for each in self._serving if each not in owned])
            for partition in owned:
                if partition not in self._serving:
                    self._serving[partition] = Serving(partition, self._open_shelf)
            if self._announcing is not None:
                self._announcing.cancel()
            self._announcing = asyncio.create_task(self._announce())

    async def _give_up(self, partitions: Collection[Partition[A]]) -> None:
        if self._announcing is not None:
            self._announcing.cancel()
        await asyncio.gather(*(self._serving[each].end() for each in partitions))
        ended = [self._serving.pop(each) for each in partitions]
        self._before = _sum(self._before, ended)._replace(pending=0)

    async def _announce(self) -> None:
        for serving in self._serving.values():
            await serving.restored.wait()
        self._tell(sorted(each.name for each in self._serving), self.figures().pending)


def _sum(before: RelayFigures, serving: Collection[Serving[A]]) -> RelayFigures:
    latest = [each.lateness_us for each in serving if each.lateness_us is not None]
    return RelayFigures(
        sum(each.pending for each in serving),
        before.kept + sum(each.kept for each in serving),
        before.forwarded + sum(each.forwarded for each in serving),
        before.refused + sum(each.refused for each in serving),
        max(latest, default=before.lateness_us),
    )
