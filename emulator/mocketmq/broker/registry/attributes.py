"""Attributes of topics and groups: checks and applies changes (AttributeUtil and AttributeParser, 5.3.3).

A change is the attribute's name with a sign: ``+`` adds or changes it, ``-`` removes it. Attributes are
stored without the sign. The attributes are those of 5.5.0 (TopicAttributes.java,
SubscriptionGroupAttributes.java).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from mocketmq.broker.registry.groups import (
    LITE_BIND_TOPIC,
    LITE_QUOTA,
    LITE_RESET_WHEN_EVICTED,
    LITE_RESET_WHEN_UNSUBSCRIBED,
    LITE_SUB_MODEL,
    LITE_WILDCARD,
)
from mocketmq.broker.registry.topic_config import LITE_EXPIRATION, MAX_LITE_EXPIRATION
from mocketmq.errors import InvalidArgumentError

_LONGEST = (1 << 63) - 1
_NUMBER: Final = re.compile(r"[+-]?\d{1,64}")  # unlike Java's parseLong, int allows spaces and underscores


class Attribute(NamedTuple):
    """The allowed values of an attribute. With ``is_fixed``, an existing topic's value cannot change."""

    is_allowed: Callable[[str], bool]
    allowed: str
    is_fixed: bool = False


def _one_of(*values: str, is_fixed: bool = False) -> Attribute:
    return Attribute(values.__contains__, " or ".join(values), is_fixed)


def _whole_number(first: int, last: int, allowed: str) -> Attribute:
    def is_allowed(text: str) -> bool:
        return bool(_NUMBER.fullmatch(text)) and first <= int(text) <= last

    return Attribute(is_allowed, allowed)


Attributes = Mapping[str, Attribute]

TOPIC_ATTRIBUTES: Final[Attributes] = {
    "queue.type": _one_of("SimpleCQ", is_fixed=True),  # no BatchCQ: batches are stored as single messages
    "cleanup.policy": _one_of("DELETE", "COMPACTION", is_fixed=True),
    "message.type": _one_of(
        "UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED"
    ),
    "reserve.time": _whole_number(-1, _LONGEST, "a whole number of at least -1"),
    LITE_EXPIRATION: _whole_number(
        -1, MAX_LITE_EXPIRATION, f"a whole number of minutes from -1 to {MAX_LITE_EXPIRATION}"
    ),
}
GROUP_ATTRIBUTES: Final[Attributes] = {
    "priority.factor": _whole_number(0, 100, "a whole number from 0 to 100"),
    LITE_BIND_TOPIC: Attribute(bool, "the name of a topic"),
    LITE_SUB_MODEL: _one_of("Shared", "Exclusive"),
    LITE_RESET_WHEN_EVICTED: _one_of("true", "false"),
    LITE_RESET_WHEN_UNSUBSCRIBED: _one_of("true", "false"),
    LITE_QUOTA: _whole_number(-1, _LONGEST, "a whole number of at least -1"),
    "lite.sub.client.max.event.cnt": _whole_number(10, _LONGEST, "a whole number of at least 10"),
    LITE_WILDCARD: Attribute(bool, "any text"),
}


def parse_changes(text: str) -> Mapping[str, str]:
    """Parse changes of a topic's attributes, ``+name=value,-name``, by signed name.

    Raises InvalidArgumentError in RocketMQ's words.
    """
    changes: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, is_pair, value = part.partition("=")
        if is_pair and "+" not in name:
            raise _invalid(TOPIC_ATTRIBUTES, f"add/alter attribute format is wrong: {name}")
        if not is_pair and "-" not in name:
            raise _invalid(TOPIC_ATTRIBUTES, f"delete attribute format is wrong: {name}")
        if name in changes:
            raise _invalid(TOPIC_ATTRIBUTES, f"key duplication: {name}")
        changes[name] = value
    return changes


def changed_attributes(
    known: Attributes, current: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Apply changes, by signed name, to attributes. ``current`` is None for a new topic or group.

    Raises InvalidArgumentError, in RocketMQ's words, for a change that is not allowed.
    """
    after = dict(current or {})
    names = set()
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if not name or "+" in name or "-" in name:
            raise _invalid(known, "kv string format wrong.")
        if name in names:
            raise _invalid(known, f"alter duplication key. key: {name}")
        names.add(name)
        if current is None and sign != "+":
            raise _invalid(known, f"only add attribute is supported while creating topic. key: {name}")
        if sign not in ("+", "-"):
            raise _invalid(known, f"wrong format key: {name}")
        if sign == "-" and name not in after:
            raise _invalid(known, f"attempt to delete a nonexistent key: {name}")
        attribute = known.get(name)
        if attribute is None:
            raise _invalid(known, f"unsupported key: {name}")
        if current is not None and attribute.is_fixed:
            raise _invalid(known, f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            del after[name]
        elif attribute.is_allowed(value):
            after[name] = value
        else:
            raise InvalidArgumentError(name, value, attribute.allowed)
    return after


def _invalid(known: Attributes, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError("attributes", None, f"+name=value or -name, of {', '.join(known)}", reason)
