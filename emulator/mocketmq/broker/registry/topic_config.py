"""A topic's settings besides its queues and permission, and its queues on each broker if brokers differ."""

from typing import Annotated, Final, NamedTuple

import msgspec

from mocketmq.broker.registry.static_topic import QueueMapping
from mocketmq.message.names import MAX_QUEUES

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
