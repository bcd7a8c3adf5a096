"""The priority of a message, RIP-80 (Message, TopicMessageType and SendMessageProcessor of 5.5.0).

The queue of a message is its priority, or the topic's last queue for a higher priority. A topic of type
``priority`` therefore needs a queue for each priority, and no message is sorted: consumers get the messages
of the highest queue first.
"""

import re
from collections.abc import Mapping
from typing import Final

from mocketmq.message.properties import DELAY, PRIORITY, SHARDING_KEY, START_DELIVER_TIME, TIMERS, TRAN_MSG
from mocketmq.message.type_property import TypeProperty

HIGHEST: Final = (1 << 31) - 1
_NUMBER: Final = re.compile(r"\+?[0-9]{1,10}")
PRIORITY_PROPERTY: Final = TypeProperty(
    PRIORITY,
    "priority",
    # Properties of messages of another type, whose priority upstream drops.
    (TRAN_MSG, DELAY, START_DELIVER_TIME, *TIMERS, SHARDING_KEY),
    "a delayed, ordered or transactional message has no priority",
)


def priority_of(properties: Mapping[str, str]) -> int | None:
    """Return the priority of a message; None for a message without one, or with one that is no number."""
    text = properties.get(PRIORITY, "")
    return int(text) if _NUMBER.fullmatch(text) and int(text) <= HIGHEST else None


def checked_priority(properties: Mapping[str, str]) -> int | None:
    """Return the priority of a message to be stored; None for a message without one.

    Raises IllegalMessageError for a priority that would have no effect.
    """
    text = properties.get(PRIORITY)
    if text is None:
        return None
    priority = priority_of(properties)
    if priority is None:
        raise PRIORITY_PROPERTY.refusal(text, f"a whole number from 0 to {HIGHEST}")
    PRIORITY_PROPERTY.check_alone(properties)
    return priority
