"""The priority of a message, RIP-80 (Message, TopicMessageType and SendMessageProcessor of 5.5.0).

The queue of a message is its priority, or the topic's last queue for a higher priority. A topic of type
``priority`` therefore needs a queue for each priority, and no message is sorted: consumers get the messages
of the highest queue first.
"""

import re
from collections.abc import Mapping
from typing import Final

from mocketmq.errors import IllegalMessageError, shorten
from mocketmq.message.properties import DELAY, PRIORITY, SHARDING_KEY, START_DELIVER_TIME, TIMERS, TRAN_MSG

HIGHEST: Final = (1 << 31) - 1
_NUMBER: Final = re.compile(r"\+?[0-9]{1,10}")
_OTHER_TYPES: Final = (TRAN_MSG, DELAY, START_DELIVER_TIME, *TIMERS, SHARDING_KEY)
"""Properties of messages of another type, whose priority upstream drops."""


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
        raise _refused(text, f"a whole number from 0 to {HIGHEST}")
    other = next((name for name in _OTHER_TYPES if name in properties), None)
    if other is not None:
        raise _refused(
            text,
            f"none beside the property {other}, as a delayed, ordered or transactional message has no"
            " priority. Send the message without one of them",
        )
    return priority


def check_no_priority(properties: Mapping[str, str], reason: str) -> None:
    """Raise IllegalMessageError for a message with a priority where it would have no effect."""
    if PRIORITY in properties:
        raise _refused(properties[PRIORITY], f"none, as {reason}")


def _refused(text: str, allowed: str) -> IllegalMessageError:
    return IllegalMessageError("priority", f"property {PRIORITY} is {shorten(text)}; allowed: {allowed}")
