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
    """All queue locks. As in RocketMQ, a lock outlives its client's connection.

    The client may still be consuming, and may reconnect.
    """

    def __init__(self, ticks: Callable[[], int] = steady_us, lifetime_us: int = LIFETIME_US) -> None:
        self.lifetime_us = lifetime_us
        self._ticks = ticks
        self._locks: dict[str, dict[TopicQueue, _Lock]] = {}
        self._count = 0
        self._crowded = SPARE

    def lock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> set[TopicQueue]:
        """Lock the queues for the client, or renew its locks. Returns the queues now locked by the client."""
        now_us = self._ticks()
        locks = self._locks.get(group, {})
        owned = set()
        for queue in queues:
            found = locks.get(queue)
            if found is None or found.client_id == client_id or found.until_us <= now_us:
                self._count += found is None
                locks[queue] = _Lock(client_id, now_us + self.lifetime_us)
                owned.add(queue)
        if owned:
            self._locks[group] = locks
        if self._count > self._crowded:
            for each in list(self._locks):
                self._drop_expired(each, now_us)
            self._crowded = 2 * self._count + SPARE
        return owned

    def forget(self, is_lost: Callable[[TopicQueue], bool]) -> None:
        """Drop the locks on these queues, because their broker has gone down."""
        for group in list(self._locks):
            self._keep(group, lambda queue, _lock: not is_lost(queue))

    def unlock(self, group: str, client_id: str, queues: Iterable[TopicQueue]) -> None:
        """Unlock the queues, except queues locked by another client."""
        locks = self._locks.get(group, {})
        for queue in queues:
            found = locks.get(queue)
            if found is not None and found.client_id == client_id:
                del locks[queue]
                self._count -= 1
        if not locks:
            self._locks.pop(group, None)

    def has_locks(self, group: str) -> bool:
        """Whether any client of the group has locked a queue."""
        self._drop_expired(group, self._ticks())
        return group in self._locks

    def _drop_expired(self, group: str, now_us: int) -> None:
        self._keep(group, lambda _queue, lock: lock.until_us > now_us)

    def _keep(self, group: str, is_kept: Callable[[TopicQueue, _Lock], bool]) -> None:
        locks = self._locks.pop(group, {})
        kept = {queue: lock for queue, lock in locks.items() if is_kept(queue, lock)}
        self._count -= len(locks) - len(kept)
        if kept:
            self._locks[group] = kept
