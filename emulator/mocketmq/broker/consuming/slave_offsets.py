"""Offsets that consumers commit at the slave of a broker that is down.

A slave has the offsets of its broker. What is committed at the slave meanwhile is never handed back, as in
RocketMQ: when the broker starts again, its own offsets hold, and a consumer that starts then gets messages
twice. Consumers that stay connected commit their offsets once more. A slave that is promoted keeps them.
"""

from collections.abc import Mapping

from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.store.queue import Queue


class SlaveOffsets:
    """The offsets of groups at all slaves. A restart of the process forgets them."""

    def __init__(self, brokers: ClusterBrokers) -> None:
        self._brokers = brokers
        self._offsets: dict[tuple[str, Queue], int] = {}
        brokers.on_changed.append(self._forget)

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Commit an offset. Has no effect while the queue's broker runs, whose offsets the slave copies."""
        if self._brokers.is_down(queue):
            self._offsets[group, queue] = offset

    def committed(self, group: str, queue: Queue) -> int | None:
        """The offset that the group has committed at the slave since its broker is down, if any."""
        return self._offsets.get((group, queue))

    def of_broker(self, broker: RegisteredBroker) -> Mapping[tuple[str, Queue], int]:
        """The offsets that groups have committed at the slave of this broker, by group and queue."""
        return {
            key: offset
            for key, offset in self._offsets.items()
            if self._brokers.broker_of_queue(key[1]) is broker
        }

    def _forget(self) -> None:
        left = {key: offset for key, offset in self._offsets.items() if self._brokers.is_down(key[1])}
        self._offsets = left
