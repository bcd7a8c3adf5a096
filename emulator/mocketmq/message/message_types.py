"""Message types, and the properties that determine a message's type: its priority and its lite topic.

A topic accepts one type, or all types if it is mixed. Only gRPC clients declare a type.

*Priority*, RIP-80 (Message, TopicMessageType and SendMessageProcessor of 5.5.0). The priority of a message is
the id of its queue; a priority beyond the last queue selects the last queue. A topic of type ``priority``
therefore needs a queue for each priority. The broker sorts no messages: consumers get the messages of the
highest queue first.

*Lite topic*, RIP-83 (GrpcValidator and SendMessageProcessor of 5.5.0). A lite topic is a named queue under a
parent topic of type ``lite``. Its first message creates it.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from mocketmq.errors import IllegalMessageError, shorten
from mocketmq.message.properties import (
    DELAY,
    LITE_TOPIC,
    PRIORITY,
    SHARDING_KEY,
    START_DELIVER_TIME,
    TIMERS,
    TRAN_MSG,
)

MessageType = Literal["normal", "fifo", "delay", "transaction", "priority", "lite", "mixed"]


class TypeProperty(NamedTuple):
    """The property ``name``, the JSON API's ``field``. It has no effect on other message types.

    ``others`` are the properties of messages of other types. ``reason`` explains why such a message cannot
    have the property ``name``.
    """

    name: str
    field: str
    others: tuple[str, ...]
    reason: str

    def check_alone(self, properties: Mapping[str, str]) -> None:
        """Raise IllegalMessageError if a message with the property is of another type."""
        other = next((name for name in self.others if name in properties), None)
        if other is not None:
            allowed = (
                f"none together with the property {other}, as {self.reason}. Send the message without one of"
                " the two"
            )
            raise self.refusal(properties[self.name], allowed)

    def check_absent(self, properties: Mapping[str, str], reason: str) -> None:
        """Raise IllegalMessageError for a message with the property where it would have no effect."""
        if self.name in properties:
            raise self.refusal(properties[self.name], f"none, as {reason}")

    def refusal(self, text: str, allowed: str) -> IllegalMessageError:
        """The error for a value that is not allowed."""
        return IllegalMessageError(self.field, f"property {self.name} is {shorten(text)}; allowed: {allowed}")


HIGHEST_PRIORITY: Final = (1 << 31) - 1
_PRIORITY: Final = re.compile(r"\+?[0-9]{1,10}")
PRIORITY_PROPERTY: Final = TypeProperty(
    PRIORITY,
    "priority",
    # With one of these properties, a message is of another type, and RocketMQ drops its priority.
    (TRAN_MSG, DELAY, START_DELIVER_TIME, *TIMERS, SHARDING_KEY),
    "a delayed, ordered or transactional message cannot have a priority",
)
MAX_LITE_TOPIC_BYTES: Final = 64
LITE_TOPIC_ALLOWED: Final = f"1 to {MAX_LITE_TOPIC_BYTES} letters, digits, hyphens and underscores"
_LITE_TOPIC: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LITE_TOPIC_BYTES}}}")
LITE_TOPIC_PROPERTY: Final = TypeProperty(
    LITE_TOPIC,
    "lite_topic",
    # With one of these properties, a message is of another type, which takes precedence (TopicMessageType).
    (TRAN_MSG, DELAY, START_DELIVER_TIME, *TIMERS, SHARDING_KEY, PRIORITY),
    "a delayed, ordered or transactional message, or one with a priority, cannot have a lite topic",
)


def priority_of(properties: Mapping[str, str]) -> int | None:
    """Return the priority of a message; None if it is missing or not a number."""
    text = properties.get(PRIORITY, "")
    return int(text) if _PRIORITY.fullmatch(text) and int(text) <= HIGHEST_PRIORITY else None


def checked_priority(properties: Mapping[str, str]) -> int | None:
    """Return the priority of a message to be stored; None for a message without one.

    Raises IllegalMessageError for a priority that would have no effect.
    """
    text = properties.get(PRIORITY)
    if text is None:
        return None
    priority = priority_of(properties)
    if priority is None:
        raise PRIORITY_PROPERTY.refusal(text, f"a whole number from 0 to {HIGHEST_PRIORITY}")
    PRIORITY_PROPERTY.check_alone(properties)
    return priority


def is_lite_topic_name(name: str) -> bool:
    """Whether a lite topic may have this name."""
    return bool(_LITE_TOPIC.fullmatch(name))


def checked_lite_topic(properties: Mapping[str, str]) -> str | None:
    """Return the lite topic of a message to be stored; None for a message without one.

    Raises IllegalMessageError for a name that is not allowed, and for a message of another type.
    """
    name = properties.get(LITE_TOPIC)
    if name is None:
        return None
    if not is_lite_topic_name(name):
        raise LITE_TOPIC_PROPERTY.refusal(name, LITE_TOPIC_ALLOWED)
    LITE_TOPIC_PROPERTY.check_alone(properties)
    return name
