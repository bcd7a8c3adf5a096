"""Queue locks: which client of a group consumes a queue in order (sheet 2.5, 8.5)."""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, steady_us

LIFETIME_US: Final = 60 * US_PER_S
"""Real time for which a lock holds after it was last asked for (rebalance.maxLiveTime)."""
SPARE: Final = 500

Place = tuple[str, int]
"""A topic, and the id of a queue of it."""


class _Lock(NamedTuple):
    client_id: str
    until_us: int


class QueueLocks:
    """Every lock. As upstream, one is not given up when its client's connection ends.

    The client may be consuming still, and come back by another connection.
    """

    def __init__(self, ticks: Callable[[], int] = steady_us) -> None:
        self._ticks = ticks
        self._locks: dict[tuple[str, Place], _Lock] = {}
        self._crowded = SPARE

    def lock(self, group: str, client_id: str, places: Iterable[Place]) -> set[Place]:
        """Lock the queues for the client, or keep them locked. Those that are its own now."""
        now_us = self._ticks()
        owned = set()
        for place in places:
            found = self._locks.get((group, place))
            if found is None or found.client_id == client_id or found.until_us <= now_us:
                self._locks[group, place] = _Lock(client_id, now_us + LIFETIME_US)
                owned.add(place)
        if len(self._locks) > self._crowded:
            self._locks = {key: each for key, each in self._locks.items() if each.until_us > now_us}
            self._crowded = 2 * len(self._locks) + SPARE
        return owned

    def unlock(self, group: str, client_id: str, places: Iterable[Place]) -> None:
        """Let others have the queues; those that are not the client's stay locked."""
        for place in places:
            found = self._locks.get((group, place))
            if found is not None and found.client_id == client_id:
                del self._locks[group, place]
