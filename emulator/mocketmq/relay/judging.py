"""Reads the real topic and the due time of a delayed message, or gives the reason to refuse it.

Topic and due time come with the message, in Kafka headers or RocketMQ user properties. Alternatively, a JSON
body names them, in the format of a published article on delays for Kafka (docs/relay.md).
"""

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS, US_PER_S, whole_ms_us
from mocketmq.duration import format_duration
from mocketmq.errors import EmulatorError, shorten
from mocketmq.message.properties import START_DELIVER_TIME

RELAY_TOPIC: Final = "RELAY_TOPIC"
"""Name of the header or property with the real topic."""
RELAY_DELAY_MS: Final = "RELAY_DELAY_MS"
"""Name of the header or property with the delay in milliseconds, counted from the message's time."""
RELAY_ID: Final = "RELAY_ID"
"""Name, in the real topic, of the message's id, with which consumers can drop duplicates."""
RELAY_REFUSED: Final = "RELAY_REFUSED"
"""Name, in the refused topic, of the reason for the refusal."""
ORDERS: Final = frozenset((RELAY_TOPIC, RELAY_DELAY_MS))
"""Instructions to the relay, which removes them before it forwards the message."""

_TOPIC: Final = re.compile("[a-zA-Z0-9._%|-]{1,262}")
_TOPICS: Final = "1 to 262 characters of a-z, A-Z, 0-9, ., _, %, | and -"
"""Length and characters of topic names. Kafka and RocketMQ each allow a subset."""
_NUMBER: Final = re.compile("[0-9]{1,15}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = "%Y-%m-%d %H:%M:%S"
_AN_INSTANT: Final = "milliseconds since the epoch, such as 1767225600000"
_A_DELAY: Final = "milliseconds, such as 60000"


class UnfitMessageError(EmulatorError):
    """The relay or a broker refuses the message."""


class Judged(NamedTuple):
    """The real topic and due time of a message. A due time in the past means now."""

    topic: str
    due_us: int


class _Body(msgspec.Struct, rename="camel"):
    """A JSON body in the article's format."""

    actual_topic: str
    actual_time: str


class Judge:
    """Reads instructions, and refuses delays that are too long and real topics in ``own_topics``.

    JSON bodies are read only if a time zone is configured for them.
    """

    def __init__(self, longest_us: int, own_topics: Collection[str], zone: tzinfo | None = None) -> None:
        self._longest_us = longest_us
        self._own_topics = own_topics
        self._zone = zone

    def judge(self, words: Mapping[str, str], body: bytes | None, sent_us: int, now_us: int) -> Judged:
        """Judge a message by its headers or properties and its timestamp. Raises UnfitMessageError."""
        if RELAY_TOPIC in words:
            topic, due_us = words[RELAY_TOPIC], _due_us(words, sent_us)
        elif self._zone is not None:
            topic, due_us = _in_body(body, self._zone)
        else:
            raise UnfitMessageError(f"{RELAY_TOPIC} is missing; needed: the name of the real topic")
        if not _TOPIC.fullmatch(topic):
            raise UnfitMessageError(f"the real topic is {shorten(topic)}; allowed: {_TOPICS}")
        if topic in self._own_topics:
            raise UnfitMessageError(f"the real topic is {topic}, one of the relay's own; allowed: any other")
        if due_us - now_us > self._longest_us:
            ahead, longest = format_duration(due_us - now_us), format_duration(self._longest_us)
            raise UnfitMessageError(f"the message is due in {ahead}; allowed: at most {longest} ahead")
        return Judged(topic, whole_ms_us(max(due_us, now_us)))


def _due_us(words: Mapping[str, str], sent_us: int) -> int:
    if START_DELIVER_TIME in words and RELAY_DELAY_MS in words:
        raise UnfitMessageError(f"{START_DELIVER_TIME} and {RELAY_DELAY_MS} are both given; allowed: one")
    if START_DELIVER_TIME in words:
        return _number(START_DELIVER_TIME, words, _AN_INSTANT) * US_PER_MS
    if RELAY_DELAY_MS in words:
        return sent_us + _number(RELAY_DELAY_MS, words, _A_DELAY) * US_PER_MS
    raise UnfitMessageError(
        f"the due time is missing; needed: {START_DELIVER_TIME} in {_AN_INSTANT}; or {RELAY_DELAY_MS}"
    )


def _number(name: str, words: Mapping[str, str], allowed: str) -> int:
    text = words[name]
    if not _NUMBER.fullmatch(text):
        raise UnfitMessageError(f"{name} is {shorten(text)}; allowed: {allowed}")
    return int(text)


def _in_body(body: bytes | None, zone: tzinfo) -> tuple[str, int]:
    """Return the real topic and the due time that a JSON body names."""
    try:
        found = msgspec.json.decode(body or b"", type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnfitMessageError(
            f"{RELAY_TOPIC} is missing; needed: the name of the real topic,"
            " or a JSON body with actualTopic and actualTime"
        ) from None
    try:
        due = datetime.strptime(found.actual_time, _TIME).replace(tzinfo=zone)
        return found.actual_topic, int((due - _EPOCH).total_seconds()) * US_PER_S
    except (ValueError, OverflowError):
        raise UnfitMessageError(
            f"actualTime is {shorten(found.actual_time)}; allowed: yyyy-MM-dd HH:mm:ss"
        ) from None
