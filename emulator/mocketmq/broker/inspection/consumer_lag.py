"""The lag of all groups at once, for metrics: one walk over the groups, and few look-ups in the store."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.inspection.group_progress import GroupProgress
from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.errors import StoreError
from mocketmq.event_loop import EventLoopTurns
from mocketmq.store.messages import store_times
from mocketmq.store.store import Store

MAX_LOOKUPS: Final = 20_000
"""Maximum number of messages whose store times are read. The times of all others are unknown."""
QUEUES_PER_TURN: Final = 256
"""Number of queues that are looked at before other tasks get a turn."""

_Place = tuple[int, int]


@dataclass(slots=True)
class TopicLag:
    """A group's lag in a topic on the broker with an index.

    ``unread`` counts messages that the group never received, ``ready`` those that no consumer has now.
    ``unsettled_us`` and ``unread_us`` are the store times of the oldest message that the group has not
    settled, and of the oldest that it has not received; None if there is none, or if it could not be read.
    """

    group: str
    topic: str
    broker: int
    lag: int = 0
    in_flight: int = 0
    postponed: int = 0
    ready: int = 0
    unread: int = 0
    unsettled_us: int | None = None
    unread_us: int | None = None
    oldest_unsettled: list[_Place] = field(default_factory=list)
    oldest_unread: list[_Place] = field(default_factory=list)

    def add_queue(self, one: GroupQueue) -> list[_Place]:
        """Add a queue, and return the places of its oldest messages."""
        queue, end, start = one.queue, one.queue.next_offset, one.start_offset
        unread = max(one.given_offset, start)
        self.lag += max(end - start, 0)
        self.in_flight += one.in_flight
        self.postponed += one.postponed
        self.unread += max(end - unread, 0)
        self.ready += max(end - unread, 0) + sum(not receipt.is_in_flight for receipt in one.open.values())
        places = []
        if start < end:
            places.append((queue.key, start))
            self.oldest_unsettled.append(places[-1])
        if unread < end:
            places.append((queue.key, unread))
            self.oldest_unread.append(places[-1])
        return places


class ConsumerLag:
    """Reads the lag of every group in each topic that it has consumed, and in its retry topic."""

    def __init__(
        self, store: Store, groups: ConsumingGroups, progress: GroupProgress, brokers: ClusterBrokers
    ) -> None:
        self._database = store.database
        self._brokers = brokers
        self._groups = groups
        self._progress = progress
        self._turns = EventLoopTurns()

    async def of_all(self) -> list[TopicLag]:
        """The lag of all groups, by group, topic and broker."""
        found: dict[tuple[str, str, int], TopicLag] = {}
        wanted: dict[_Place, None] = {}
        seen = 0
        for group in list(self._groups):
            for one in self._progress.queues_of(group):
                key = group.name, one.queue.topic, self._brokers.index_of(one.queue)
                places = found.setdefault(key, TopicLag(*key)).add_queue(one)
                if len(wanted) < MAX_LOOKUPS:
                    wanted.update(dict.fromkeys(places))
                seen += 1
                if seen % QUEUES_PER_TURN == 0:
                    await self._turns.next_turn()
        times: dict[_Place, int] = {}
        with suppress(StoreError):
            times = await store_times(self._database, list(wanted)[:MAX_LOOKUPS])
        for number, lag in enumerate(found.values(), 1):
            lag.unsettled_us = _oldest(times, lag.oldest_unsettled)
            lag.unread_us = _oldest(times, lag.oldest_unread)
            if number % QUEUES_PER_TURN == 0:
                await self._turns.next_turn()
        return [*found.values()]


def _oldest(times: dict[_Place, int], places: Sequence[_Place]) -> int | None:
    return min((times[place] for place in places if place in times), default=None)
