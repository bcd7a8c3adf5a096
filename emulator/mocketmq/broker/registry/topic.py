"""A topic: its configuration, its permission and its queues."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mocketmq.message.names import is_system_topic
from mocketmq.store.queue import Queue

PERM_READ, PERM_WRITE, PERM_INHERIT = 4, 2, 1
_PERMISSIONS: Final = (("r", PERM_READ), ("w", PERM_WRITE), ("i", PERM_INHERIT))

MESSAGE_TYPE: Final = "message.type"
"""The attribute with a topic's message type."""
LITE_EXPIRATION: Final = "lite.topic.expiration"
"""The attribute with the minutes after which a lite topic without new messages expires; -1 for never."""
MAX_LITE_EXPIRATION: Final = 43_200


class TopicConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic's settings besides its queues and permission (TopicConfig of 4.9.8 and 5.3.3).

    ``sys_flag`` has bit 0 for a unit's own topic, bit 1 for one with subscribers in other units.
    """

    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = {}

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

    Each of the ``brokers`` has ``read_queues`` and ``write_queues``. ``queues`` has those of all brokers, in
    the order that ``message/broker_share.py`` describes.
    """

    name: str
    read_queues: int
    write_queues: int
    perm: int
    queues: list[Queue] = field(default_factory=list)
    config: TopicConfig = PLAIN
    brokers: int = 1

    @property
    def readable_count(self) -> int:
        """The number of queues that consumers read, at all brokers."""
        return self.read_queues * self.brokers

    @property
    def writable_count(self) -> int:
        """The number of queues that producers write, at all brokers."""
        return self.write_queues * self.brokers

    @property
    def readable(self) -> Sequence[Queue]:
        """The queues that consumers read; none for a topic without read permission."""
        return self.queues[: self.readable_count] if self.perm & PERM_READ else ()

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
