"""Formats of a delayed message in RocketMQ: in the delay topic, the pending topic and the real topic.

A record of the pending topic has the body of the message that it keeps. The message's properties are packed
into a single one there, so that no broker acts on them. Other records list settled messages. docs/relay.md
describes both.
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
from mocketmq.relay.partition import Pending, Settled
from mocketmq.remoting.wire.record import WireRecord, decode_properties

RELAY_BORN_MS: Final = "RELAY_BORN_MS"
RELAY_DUE_MS: Final = "RELAY_DUE_MS"
RELAY_PACKING: Final = "RELAY_PACKING"
RELAY_PROPERTIES: Final = "RELAY_PROPERTIES"
RELAY_SETTLED: Final = "RELAY_SETTLED"

_COMPRESSION: Final = 0x701
"""Bits of ``sysFlag`` for the compression of the body (docs/protocol/remoting.md §3.2)."""
_OF_BROKERS: Final = {
    *(CHECK_IMMUNITY, CHECK_TIMES, CLUSTER, DELAY, FIRST_POP_TIME, PGROUP, POP_CK, REAL_QID, REAL_TOPIC),
    *(*TIMERS, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, "TIMER_DELAY_LEVEL", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS"),
    *("TIMER_ROLL_TIMES", TRAN_MSG, "TRAN_PREPARED_QUEUE_OFFSET", WAIT),
    *("MSG_REGION", "TRACE_ON", "__CRC32#"),
}
"""Properties that made a broker delay or deliver the message, and would do so again at the real topic."""


class Message(NamedTuple):
    """The content of a send, without topic and queue."""

    properties: dict[str, str]
    body: bytes
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0


class _Kept(NamedTuple):
    """A kept message: its id, its real topic, and the message to send there."""

    id: str
    topic: str
    message: Message


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


def id_of(broker: str, record: WireRecord) -> str:
    """The permanent id of a delayed message; its store time keeps it unique if the topic is re-created."""
    return f"{broker}/{record.queue_id}/{record.queue_offset}/{record.store_ms}"


def arrived(record: WireRecord) -> Message:
    """The arrived message without properties that its broker added."""
    properties = decode_properties(record.properties)
    own = {name: value for name, value in properties.items() if name not in _OF_BROKERS}
    return Message(own, record.body, record.flag, record.sys_flag & _COMPRESSION, record.born_ms)


def pending_of(message_id: str, message: Message, judged: Judged) -> Pending:
    """The pending message, without the relay's orders among its properties."""
    properties = {name: value for name, value in message.properties.items() if name not in ORDERS}
    kept = message._replace(properties=properties | {RELAY_ID: message_id})
    return _pending(_Kept(message_id, judged.topic, kept), judged.due_us)


def to_send(pending: Pending) -> tuple[str, Message]:
    """The real topic and the message to send to it."""
    kept = _decode(pending.content)
    return kept.topic, kept.message


def to_keep(pending: Pending) -> Message:
    """The pending-log record that keeps the message."""
    _, topic, message = _decode(pending.content)
    properties = {
        RELAY_ID: pending.id,
        RELAY_TOPIC: topic,
        RELAY_DUE_MS: str(pending.due_us // US_PER_MS),
        RELAY_BORN_MS: str(message.born_ms),
        RELAY_PACKING: str(message.sys_flag),
        RELAY_PROPERTIES: json.dumps(message.properties, ensure_ascii=False),
    }
    if UNIQ_KEY in message.properties:  # makes the record findable by the id
        properties[UNIQ_KEY] = message.properties[UNIQ_KEY]
    return Message(properties, message.body, message.flag)


def to_settle(pending: Iterable[Pending]) -> Message:
    """A pending-log record that settles these messages."""
    places = [(each.number, each.due_us) for each in pending]
    return Message({RELAY_SETTLED: str(len(places))}, msgspec.json.encode(places))


def to_refuse(message_id: str, message: Message, sentence: str) -> Message:
    """The message for the refused topic, with the reason."""
    return message._replace(properties=message.properties | {RELAY_ID: message_id, RELAY_REFUSED: sentence})


def read_pending(record: WireRecord) -> Pending | list[Settled] | None:
    """Decode a record of the pending topic; None if no relay wrote it."""
    properties = decode_properties(record.properties)
    try:
        if RELAY_SETTLED in properties:
            return msgspec.json.decode(record.body, type=list[Settled])
        message = Message(
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


def _pending(kept: _Kept, due_us: int) -> Pending:
    number = int(kept.id.split("/")[-2])
    return Pending(kept.id, number, due_us, _encode(kept))
