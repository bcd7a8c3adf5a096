"""The formats of a delayed message in RocketMQ's delay topic, pending topic and real topic.

A record that keeps a message in the pending topic has the message's body. The message's properties are packed
into a single property, so that no broker acts on them. Other records list settled messages. docs/relay.md
describes both kinds of records.
"""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    CLUSTER,
    DELAY,
    FIRST_POP_TIME,
    PGROUP,
    POP_CK,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TIMERS,
    TRAN_MSG,
    UNIQ_KEY,
    WAIT,
)
from mocketmq.relay.judging import ORDERS, RELAY_ID, RELAY_REFUSED, RELAY_TOPIC, Judged
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.remoting.wire.record import WireRecord, decode_properties

RELAY_BORN_MS: Final = "RELAY_BORN_MS"
RELAY_DUE_MS: Final = "RELAY_DUE_MS"
RELAY_PACKING: Final = "RELAY_PACKING"
RELAY_PROPERTIES: Final = "RELAY_PROPERTIES"
RELAY_SETTLED: Final = "RELAY_SETTLED"

_COMPRESSION: Final = 0x701
"""Bits of ``sysFlag`` for the body's compression (docs/protocol/remoting.md §3.2)."""
_OF_BROKERS: Final = {
    *(CHECK_IMMUNITY, CHECK_TIMES, CLUSTER, DELAY, FIRST_POP_TIME, PGROUP, POP_CK, REAL_QID, REAL_TOPIC),
    *(*TIMERS, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, "TIMER_DELAY_LEVEL", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS"),
    *("TIMER_ROLL_TIMES", TRAN_MSG, "TRAN_PREPARED_QUEUE_OFFSET", WAIT),
    *("MSG_REGION", "TRACE_ON", "__CRC32#"),
}
"""Properties with which a broker would again delay or redirect the message in the real topic."""


class MessageContent(NamedTuple):
    """The content of a send, without topic and queue."""

    properties: dict[str, str]
    body: bytes
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0


class _Kept(NamedTuple):
    """A kept message, with its id, its real topic, and the content to send to that topic."""

    id: str
    topic: str
    message: MessageContent


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


def id_of(broker: str, record: WireRecord) -> str:
    """Return a delayed message's permanent id. The store time keeps it unique if the topic is re-created."""
    return f"{broker}/{record.queue_id}/{record.queue_offset}/{record.store_ms}"


def arrived(record: WireRecord) -> MessageContent:
    """Return the arrived message without properties that its broker added."""
    properties = decode_properties(record.properties)
    own = {name: value for name, value in properties.items() if name not in _OF_BROKERS}
    return MessageContent(own, record.body, record.flag, record.sys_flag & _COMPRESSION, record.born_ms)


def pending_of(message_id: str, message: MessageContent, judged: Judged) -> RelayedMessage:
    """Make the pending message, without the properties that instruct the relay."""
    properties = {name: value for name, value in message.properties.items() if name not in ORDERS}
    kept = message._replace(properties=properties | {RELAY_ID: message_id})
    return _pending(_Kept(message_id, judged.topic, kept), judged.due_us)


def to_send(pending: RelayedMessage) -> tuple[str, MessageContent]:
    """Return the real topic and the message to send to it."""
    kept = _decode(pending.content)
    return kept.topic, kept.message


def to_keep(pending: RelayedMessage) -> MessageContent:
    """Make the pending-log record that keeps the message."""
    _, topic, message = _decode(pending.content)
    properties = {
        RELAY_ID: pending.id,
        RELAY_TOPIC: topic,
        RELAY_DUE_MS: str(pending.due_us // US_PER_MS),
        RELAY_BORN_MS: str(message.born_ms),
        RELAY_PACKING: str(message.sys_flag),
        RELAY_PROPERTIES: json.dumps(message.properties, ensure_ascii=False),
    }
    if UNIQ_KEY in message.properties:  # tools can then find the record by the id
        properties[UNIQ_KEY] = message.properties[UNIQ_KEY]
    return MessageContent(properties, message.body, message.flag)


def to_settle(pending: Iterable[RelayedMessage]) -> MessageContent:
    """Make a pending-log record that settles these messages."""
    places = [(each.number, each.due_us) for each in pending]
    return MessageContent({RELAY_SETTLED: str(len(places))}, msgspec.json.encode(places))


def to_refuse(message_id: str, message: MessageContent, sentence: str) -> MessageContent:
    """Make the message for the refused topic, with the reason."""
    return message._replace(properties=message.properties | {RELAY_ID: message_id, RELAY_REFUSED: sentence})


def read_pending(record: WireRecord) -> RelayedMessage | list[Settled] | None:
    """Decode a record of the pending topic; None if no relay wrote it."""
    properties = decode_properties(record.properties)
    try:
        if RELAY_SETTLED in properties:
            return msgspec.json.decode(record.body, type=list[Settled])
        message = MessageContent(
            json.loads(properties[RELAY_PROPERTIES]),
            record.body,
            record.flag,
            int(properties[RELAY_PACKING]),
            int(properties[RELAY_BORN_MS]),
        )
        kept = _Kept(properties[RELAY_ID], properties[RELAY_TOPIC], message)
        return _pending(kept, int(properties[RELAY_DUE_MS]) * US_PER_MS)
    except (LookupError, ValueError, msgspec.DecodeError):
        return None


def _pending(kept: _Kept, due_us: int) -> RelayedMessage:
    number = int(kept.id.split("/")[-2])
    return RelayedMessage(kept.id, number, due_us, _encode(kept))
