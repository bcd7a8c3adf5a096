"""The formats of a delayed message in Kafka's delay topic, pending log and real topic.

The pending topic is compacted. Its records have these keys and values::

    "<offset> <due_ms>"   the message at this offset of the delay topic: MessagePack of KafkaMessage
    "<offset> <due_ms>"   a tombstone: the message is settled
    "position"            the offset of the delay topic up to which messages are kept, in digits
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.relay.judging import ORDERS, RELAY_ID, RELAY_REFUSED
from mocketmq.relay.partition import RelayedMessage, Settled

POSITION_KEY: Final = b"position"
RELAY_SENT_MS: Final = "RELAY_SENT_MS"
"""Name, in the real topic, of the message's timestamp in the delay topic."""

_KEY: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,15})")
Headers = Sequence[tuple[str, bytes | None]]


class KafkaMessage(msgspec.Struct, array_like=True, frozen=True):
    """The content for the real topic. Later versions may append fields."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    sent_ms: int


class KafkaRecord(NamedTuple):
    """A record to write. Without a ``partition``, Kafka chooses the partition by the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KafkaMessage).decode


def words_of(headers: Headers) -> dict[str, str]:
    """Return the headers as text. The last header of a name wins. Bytes that are not UTF-8 match nothing."""
    return {name: (value or b"").decode(errors="replace") for name, value in headers}


def pending_of(name: str, offset: int, due_us: int, message: KafkaMessage) -> RelayedMessage:
    """Make the pending message for the record at this offset in the delay topic."""
    return RelayedMessage(name, offset, due_us, _encode(message))


def kept(pending: RelayedMessage, topic: str, partition: int) -> KafkaRecord:
    """Make the pending-log record that keeps the message."""
    return KafkaRecord(topic, _key(pending), pending.content, (), partition)


def settled(pending: RelayedMessage, topic: str, partition: int) -> KafkaRecord:
    """Make the pending-log tombstone that settles the message."""
    return KafkaRecord(topic, _key(pending), None, (), partition)


def position(offset: int, topic: str, partition: int) -> KafkaRecord:
    """Make the pending-log record with the read position in the delay topic."""
    return KafkaRecord(topic, POSITION_KEY, b"%d" % offset, (), partition)


def in_log(name: str, records: Iterable[Any]) -> Iterator[RelayedMessage | Settled]:
    """Decode records of the pending log, except the position. Unknown records are skipped."""
    for one in records:
        if not (match := _KEY.fullmatch(one.key or b"")):
            continue
        offset, due_us = int(match[1]), int(match[2]) * US_PER_MS
        if one.value is None:
            yield Settled(offset, due_us)
        else:
            yield RelayedMessage(f"{name}/{offset}", offset, due_us, one.value)


def message_in(pending: RelayedMessage) -> KafkaMessage:
    """Decode the pending message."""
    return _decode(pending.content)


def forwarded(pending: RelayedMessage, message: KafkaMessage) -> KafkaRecord:
    """Make the record for the real topic, with headers for id and send time instead of topic and delay.

    Its timestamp is the time of forwarding. With the original timestamp, retention could remove the record at
    once.
    """
    headers = _without(message.headers, ORDERS | {RELAY_ID, RELAY_SENT_MS})
    headers += ((RELAY_ID, pending.id.encode()), (RELAY_SENT_MS, b"%d" % message.sent_ms))
    return KafkaRecord(message.topic, message.key, message.value, headers)


def refused(
    name: str, topic: str, key: bytes | None, value: bytes | None, headers: Headers, reason: str
) -> KafkaRecord:
    """Make the record for the refused topic: the original and the reason."""
    marked = _without(headers, {RELAY_ID, RELAY_REFUSED})
    marked += ((RELAY_ID, name.encode()), (RELAY_REFUSED, reason.encode()))
    has_content = key is not None or value is not None
    return KafkaRecord(topic, key, value if has_content else b"", marked)


def _key(pending: RelayedMessage) -> bytes:
    return b"%d %d" % (pending.number, pending.due_us // US_PER_MS)


def _without(
    headers: Iterable[tuple[str, bytes | None]], names: frozenset[str] | set[str]
) -> list[tuple[str, bytes | None]]:
    return [(name, value) for name, value in headers if name not in names]
