"""Queue locks: each gives one client of a group the right to consume a queue in order.

Source: docs/protocol/remoting.md §2.5 and §8.5
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, steady_us

LIFETIME_US: Final = 60 * US_PER_S
"""Real time after which a lock expires unless it is renewed (rebalance.maxLiveTime)."""
SPARE: Final = 500

TopicQueue = tuple[str, int]
"""A topic's name, and the id of one of its queues."""


class _Lock(NamedTuple):
    client_id: str
    until_us: int


class QueueLocks:
    """All queue locks. As upstream, a lock outlives its client's connection.

    The client may still be consuming, and may reconnect.
    """

    def __init__(self, ticks: Callable[[], int] = steady_us, lifetime_us: int = LIFETIME_US) -> None:
        self.lifetime_us = lifetime_us
        self._ticks = ticks
        self._locks: dict[tuple[str, TopicQueue], _Lock] = {}
        self._crowded = SPARE

    def lock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> set[TopicQueue]:
        """Lock the queues for the client, or renew its locks. Returns the queues now locked by the client."""
        now_us = self._ticks()
        owned = set()
        for queue in queues:
            found = self._locks.get((group, queue))
            if found is None or found.client_id == client_id or found.until_us <= now_us:
                self._locks[group, queue] = _Lock(client_id, now_us + self.lifetime_us)
                owned.add(queue)
        if len(self._locks) > self._crowded:
            self._locks = {key: each for key, each in self._locks.items() if each.until_us > now_us}
            self._crowded = 2 * len(self._locks) + SPARE
        return owned

    def forget(self, is_lost: Callable[[TopicQueue], bool]) -> None:
        """Drop the locks on these queues, because their broker has gone down."""
        self._locks = {key: each for key, each in self._locks.items() if not is_lost(key[1])}

    def unlock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> None:
        """Unlock the queues, except queues locked by another client."""
        for queue in queues:
            found = self._locks.get((group, queue))
            if found is not None and found.client_id == client_id:
                del self._locks[group, queue]
