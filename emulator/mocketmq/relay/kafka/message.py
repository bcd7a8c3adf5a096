"""A delayed message on its way through Kafka: at the delay topic, in the pending log, at its real topic.

The pending topic is compacted. Its keys and values::

    "<offset> <due_ms>"   the message at this offset of the delay topic, due then: MessagePack of KafkaMessage
    "<offset> <due_ms>"   nothing: the message is settled
    "position"            the offset of the delay topic up to which messages are kept, in digits
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.relay.judging import ORDERS, RELAY_ID, RELAY_REFUSED
from mocketmq.relay.partition import Pending, Settled

POSITION_KEY: Final = b"position"
RELAY_SENT_MS: Final = "RELAY_SENT_MS"
"""At the real topic: the time of the message at the delay topic."""

_KEY: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,15})")
Headers = Sequence[tuple[str, bytes | None]]


class KafkaMessage(msgspec.Struct, array_like=True, frozen=True):
    """All that the real topic is to get. A later version of this may have more at its end."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    sent_ms: int


class KafkaRecord(NamedTuple):
    """What is to be written; without a ``partition``, the key says which."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KafkaMessage).decode


def words_of(headers: Headers) -> dict[str, str]:
    """The headers as text, of several with one name the last. Bytes that are no UTF-8 fit no rule."""
    return {name: (value or b"").decode(errors="replace") for name, value in headers}


def pending_of(name: str, offset: int, due_us: int, message: KafkaMessage) -> Pending:
    """The message ``name``, at this offset of the delay topic."""
    return Pending(name, offset, due_us, _encode(message))


def kept(pending: Pending, topic: str, partition: int) -> KafkaRecord:
    """The record of the pending log by which the message is kept."""
    return KafkaRecord(topic, _key(pending), pending.content, (), partition)


def settled(pending: Pending, topic: str, partition: int) -> KafkaRecord:
    """The record of the pending log by which it is settled."""
    return KafkaRecord(topic, _key(pending), None, (), partition)


def position(offset: int, topic: str, partition: int) -> KafkaRecord:
    """The record of the pending log that says how far the delay topic has been read."""
    return KafkaRecord(topic, POSITION_KEY, b"%d" % offset, (), partition)


def in_log(name: str, records: Iterable[Any]) -> Iterator[Pending | Settled]:
    """What the client's records of the pending log say but the position; others are passed over."""
    for one in records:
        if not (match := _KEY.fullmatch(one.key or b"")):
            continue
        offset, due_us = int(match[1]), int(match[2]) * US_PER_MS
        if one.value is None:
            yield Settled(offset, due_us)
        else:
            yield Pending(f"{name}/{offset}", offset, due_us, one.value)


def message_in(pending: Pending) -> KafkaMessage:
    """The message that is pending."""
    return _decode(pending.content)


def forwarded(pending: Pending, message: KafkaMessage) -> KafkaRecord:
    """The record for the real topic: as it was sent, with its identity and its time instead of its orders.

    Its timestamp is that of the forwarding: the real topic's retention could remove an old one at once.
    """
    headers = _without(message.headers, ORDERS | {RELAY_ID, RELAY_SENT_MS})
    headers += ((RELAY_ID, pending.id.encode()), (RELAY_SENT_MS, b"%d" % message.sent_ms))
    return KafkaRecord(message.topic, message.key, message.value, headers)


def refused(
    name: str, topic: str, key: bytes | None, value: bytes | None, headers: Headers, reason: str
) -> KafkaRecord:
    """The record for the topic of refused messages: as it was sent, with the reason."""
    marked = _without(headers, {RELAY_ID, RELAY_REFUSED})
    marked += ((RELAY_ID, name.encode()), (RELAY_REFUSED, reason.encode()))
    has_content = key is not None or value is not None
    return KafkaRecord(topic, key, value if has_content else b"", marked)


def _key(pending: Pending) -> bytes:
    return b"%d %d" % (pending.number, pending.due_us // US_PER_MS)


def _without(
    headers: Iterable[tuple[str, bytes | None]], names: frozenset[str] | set[str]
) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers if name not in names]
