"""A topic: its configuration, its permission and its queues."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, NamedTuple

import msgspec

from mocketmq.broker.registry.static_topic import QueueMapping
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.names import MAX_QUEUES, is_system_topic
from mocketmq.store.queue import Queue

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
_PERMISSIONS: Final = (("r", PERM_READ), ("w", PERM_WRITE), ("i", PERM_INHERIT))

MESSAGE_TYPE: Final = "message.type"
"""The attribute with a topic's message type."""
LITE_EXPIRATION: Final = "lite.topic.expiration"
"""The attribute with the minutes after which a lite topic without new messages expires; -1 for never."""
MAX_LITE_EXPIRATION: Final = 43_200

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUES)]


class QueuesAtBroker(NamedTuple):
    """The queues and the permission of a topic on one broker; all 0 if the broker does not have the topic."""

    read_queues: _Count = 0
    write_queues: _Count = 0
    perm: _Count = 0


ABSENT: Final = QueuesAtBroker()


class TopicConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic's settings besides its queues and permission (TopicConfig of 4.9.8 and 5.3.3).

    ``sys_flag`` has bit 0 for a unit's own topic, and bit 1 for a topic with subscribers in other units.
    ``at`` has the queues on each broker, and is empty if all brokers have the same queues. ``mappings`` has
    the queue mapping of a static topic on each broker, and is empty for other topics. A static topic always
    has ``at``.
    """

    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}
    at: tuple[QueuesAtBroker, ...] = ()
    mappings: tuple[QueueMapping | None, ...] = ()

    @property
    def message_type(self) -> str:
        """The message type that gRPC clients may send, in lower case; ``mixed`` for all."""
        return self.attributes.get(MESSAGE_TYPE, "MIXED").lower()

    @property
    def is_by_priority(self) -> bool:
        """Whether consumers get the messages of the highest queue first."""
        return self.attributes.get(MESSAGE_TYPE) == "PRIORITY"

    @property
    def is_lite(self) -> bool:
        """Whether the topic is a parent of lite topics."""
        return self.attributes.get(MESSAGE_TYPE) == "LITE"

    @property
    def lite_expiration(self) -> int:
        """Minutes after which a lite topic without new messages expires; 0 or less for never."""
        return int(self.attributes.get(LITE_EXPIRATION, -1))

    def typed(self, message_type: str) -> "TopicConfig":
        """Return this configuration with another message type."""
        return msgspec.structs.replace(
            self, attributes={**self.attributes, MESSAGE_TYPE: message_type.upper()}
        )

    def with_lite_expiration(self, minutes: int) -> "TopicConfig":
        """Return this configuration with another expiry of lite topics."""
        return msgspec.structs.replace(self, attributes={**self.attributes, LITE_EXPIRATION: str(minutes)})


PLAIN = TopicConfig()


@dataclass(slots=True)
class Topic:
    """A topic's configuration and its queues, by queue id.

    Each of the ``brokers`` has ``read_queues`` and ``write_queues``. If brokers differ (``config.at``), these
    are the largest numbers, and ``perm`` is what any broker permits. ``queues`` has the queues of all
    brokers, in the order that ``message/broker_share.py`` describes, including some that no broker uses.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int
    queues: list[Queue] = field(default_factory=list)
    config: TopicConfig = PLAIN
    brokers: int = 1

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
