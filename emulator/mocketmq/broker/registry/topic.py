"""A topic: its configuration, its permission and its queues."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from mocketmq.broker.registry.static_topic import QueueMapping
from mocketmq.broker.registry.topic_config import ABSENT, QueuesAtBroker, TopicConfig
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.names import is_system_topic
from mocketmq.store.queue import Queue

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
_PERMISSIONS: Final = (("r", PERM_READ), ("w", PERM_WRITE), ("i", PERM_INHERIT))


class Topic:
    """A topic's configuration and its queues, by queue id.

    Each of the ``brokers`` has ``read_queues`` and ``write_queues``. If brokers differ (``config.at``), these
    are the largest numbers, and ``perm`` is what any broker permits. ``queues`` has the queues of all
    brokers, in the order that ``message/broker_share.py`` describes, including some that no broker uses.
    """

    __slots__ = ("brokers", "config", "name", "perm", "queues", "read_queues", "write_queues")

    def __init__(
        self,
        name: str,
        read_queues: int,
        write_queues: int,
        perm: int,
        queues: list[Queue],
        config: TopicConfig,
        brokers: int,
    ) -> None:
        self.name = name
        self.read_queues = read_queues
        self.write_queues = write_queues
        self.perm = perm
        self.queues = queues
        self.config = config
        self.brokers = brokers

    @property
    def settings(self) -> tuple[int, int, int, TopicConfig]:
        """What an administrator sets: the numbers of queues, the permission and the configuration."""
        return self.read_queues, self.write_queues, self.perm, self.config

    def at_broker(self, position: int) -> QueuesAtBroker:
        """The queues on the broker with this position, which may be ``ABSENT``."""
        at = self.config.at
        return at[position] if at else QueuesAtBroker(self.read_queues, self.write_queues, self.perm)

    def mapping_at(self, position: int) -> QueueMapping | None:
        """The mapping of a static topic on the broker with this position; None if the broker has none."""
        mappings = self.config.mappings
        return mappings[position] if mappings else None

    def is_at(self, position: int) -> bool:
        """Whether the broker with this position has the topic."""
        return self.at_broker(position) != ABSENT

    def queue_limit(self, queue_id: int, *, is_read: bool = False) -> int:
        """The first number beyond the queues at this queue's broker: those that consumers read, or all."""
        if self.config.at:
            at = self.config.at[queue_id % self.brokers]
            return (at.read_queues if is_read else max(at.read_queues, at.write_queues)) * self.brokers
        return (self.read_queues if is_read else max(self.read_queues, self.write_queues)) * self.brokers

    @property
    def writable_count(self) -> int:
        """The number of queues for producers on all brokers together."""
        return len(self.writable) if self.config.at else self.write_queues * self.brokers

    def writable_number(self, index: int) -> int:
        """The number of a queue, from its index among the queues for producers."""
        return self.writable[index].queue_id if self.config.at else index

    @property
    def readable(self) -> Sequence[Queue]:
        """The queues that consumers may read."""
        if self.config.at:
            return self._where(lambda at: at.read_queues if at.perm & PERM_READ else 0)
        return self.queues[: self.read_queues * self.brokers] if self.perm & PERM_READ else ()

    @property
    def writable(self) -> Sequence[Queue]:
        """The queues for producers. If all brokers have the topic alike, its permission is not checked here.

        For a static topic, these are the queues to which its logical queues are mapped now.
        """
        if self.config.at:
            queues = self._where(lambda at: at.write_queues if at.perm & PERM_WRITE else 0)
            led = self.led
            return queues if led is None else [queue for queue in queues if queue.queue_id in led]
        return self.queues[: self.write_queues * self.brokers]

    @property
    def led(self) -> Collection[int] | None:
        """The numbers of the queues that take messages of a static topic; None for other topics."""
        if not self.config.mappings:
            return None
        return {
            queue_id * self.brokers + position
            for position, mapping in enumerate(self.config.mappings)
            if mapping is not None
            for queue_id in mapping.led.values()
        }

    def readable_at(self, share: BrokerShare) -> Sequence[Queue]:
        """The broker's queues that consumers may read; with ``ALONE``, the queues of all brokers."""
        if share is ALONE or not self.config.at:
            return share.own_queues(self.name, self.readable)
        return [queue for queue in self.readable if share.has_queue(self.name, queue.queue_id)]

    def configured(self, *, read: bool, write: bool) -> Sequence[Queue]:
        """The queues for consumers (``read``), producers (``write``) or both, ignoring permissions."""

        def count(at: QueuesAtBroker) -> int:
            return max(at.read_queues if read else 0, at.write_queues if write else 0)

        if self.config.at:
            return self._where(count)
        return self.queues[: count(self.at_broker(0)) * self.brokers]

    def _where(self, count: Callable[[QueuesAtBroker], int]) -> list[Queue]:
        """The first ``count`` queues of each broker."""
        brokers, counts = self.brokers, [count(at) for at in self.config.at]
        return [
            queue for queue in self.queues if queue.queue_id // brokers < counts[queue.queue_id % brokers]
        ]

    @property
    def is_system(self) -> bool:
        """Whether only the broker may create the topic."""
        return is_system_topic(self.name)


def permission_bits(letters: str) -> int:
    """The bits of a permission such as ``rw``."""
    return sum(bit for letter, bit in _PERMISSIONS if letter in letters)


def permission_letters(bits: int) -> str:
    """The letters of a permission such as ``rw``."""
    return "".join(letter for letter, bit in _PERMISSIONS if bits & bit)
