"""The lite topic of a message, RIP-83 (GrpcValidator and SendMessageProcessor of 5.5.0).

A lite topic is a queue with a name of its own under a parent topic of type ``lite``. The first message makes
it.
"""

import re
from collections.abc import Mapping
from typing import Final

from mocketmq.message.properties import (
    DELAY,
    LITE_TOPIC,
    PRIORITY,
    SHARDING_KEY,
    START_DELIVER_TIME,
    TIMERS,
    TRAN_MSG,
)
from mocketmq.message.type_property import TypeProperty

MAX_LITE_TOPIC_BYTES: Final = 64
LITE_TOPIC_ALLOWED: Final = f"1 to {MAX_LITE_TOPIC_BYTES} letters, digits, hyphens and underscores"
_NAME: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LITE_TOPIC_BYTES}}}")
LITE_TOPIC_PROPERTY: Final = TypeProperty(
    LITE_TOPIC,
    "lite_topic",
    # Properties of messages of another type, which upstream puts first (TopicMessageType).
    (TRAN_MSG, DELAY, START_DELIVER_TIME, *TIMERS, SHARDING_KEY, PRIORITY),
    "a delayed, ordered or transactional message, or one with a priority, has no lite topic",
)


def is_lite_topic_name(name: str) -> bool:
    """Whether a lite topic may have this name."""
    return bool(_NAME.fullmatch(name))


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
