"""Queue locks: which client of a group consumes a queue in order.

docs/protocol/remoting.md §2.5 and §8.5
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, steady_us

LIFETIME_US: Final = 60 * US_PER_S
"""Real time for which a lock holds after it was last asked for (rebalance.maxLiveTime)."""
SPARE: Final = 500

TopicQueue = tuple[str, int]
"""The name of a topic, and the id of one of its queues."""


class _Lock(NamedTuple):
    client_id: str
    until_us: int


class QueueLocks:
    """Every lock. As upstream, a lock outlives its client's connection.

    The client may still be consuming, and connect again.
    """

    def __init__(self, ticks: Callable[[], int] = steady_us) -> None:
        self._ticks = ticks
        self._locks: dict[tuple[str, TopicQueue], _Lock] = {}
        self._crowded = SPARE

    def lock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> set[TopicQueue]:
        """Lock the queues for the client, or renew its locks; returns those that it has now."""
        now_us = self._ticks()
        owned = set()
        for queue in queues:
            found = self._locks.get((group, queue))
            if found is None or found.client_id == client_id or found.until_us <= now_us:
                self._locks[group, queue] = _Lock(client_id, now_us + LIFETIME_US)
                owned.add(queue)
        if len(self._locks) > self._crowded:
            self._locks = {key: each for key, each in self._locks.items() if each.until_us > now_us}
            self._crowded = 2 * len(self._locks) + SPARE
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> None:
        """Unlock the queues that the client has locked; locks of others stay."""
        for queue in queues:
            found = self._locks.get((group, queue))
            if found is not None and found.client_id == client_id:
                del self._locks[group, queue]
