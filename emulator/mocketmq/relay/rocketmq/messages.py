"""Messages as they arrive, as they wait in the pending topic, and as they are sent to their real topic.

A record of the pending topic has the body of the message that it keeps. Its properties are one property
there, so that no broker acts on them. Other records list what is settled. docs/relay.md describes both.
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
"""Bits of a ``sysFlag`` that say how the body is packed (docs/protocol/remoting.md §3.2)."""
_OF_BROKERS: Final = {
    *(CHECK_IMMUNITY, CHECK_TIMES, CLUSTER, DELAY, FIRST_POP_TIME, PGROUP, POP_CK, REAL_QID, REAL_TOPIC),
    *(*TIMERS, TIMER_DEL_UNIQKEY, TIMER_OUT_MS, "TIMER_DELAY_LEVEL", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS"),
    *("TIMER_ROLL_TIMES", TRAN_MSG, "TRAN_PREPARED_QUEUE_OFFSET", WAIT),
    *("MSG_REGION", "TRACE_ON", "__CRC32#"),
}
"""Properties by which a broker delayed or delivered the message; at its real topic they would do so again."""


class Message(NamedTuple):
    """What a send takes, beside its topic and queue."""

    properties: dict[str, str]
    body: bytes
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0


class _Kept(NamedTuple):
    """What a message is at its real topic."""

    id: str
    topic: str
    message: Message


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Kept).decode


def id_of(broker: str, record: WireRecord) -> str:
    """The id of a delayed message for good; its store time tells topics apart that were made anew."""
    return f"{broker}/{record.queue_id}/{record.queue_offset}/{record.store_ms}"


def arrived(record: WireRecord) -> Message:
    """A delayed message, without what its broker has added."""
    properties = decode_properties(record.properties)
    own = {name: value for name, value in properties.items() if name not in _OF_BROKERS}
    return Message(own, record.body, record.flag, record.sys_flag & _COMPRESSION, record.born_ms)


def pending_of(message_id: str, message: Message, judged: Judged) -> Pending:
    """The message as it waits."""
    properties = {name: value for name, value in message.properties.items() if name not in ORDERS}
    kept = message._replace(properties=properties | {RELAY_ID: message_id})
    return _pending(_Kept(message_id, judged.topic, kept), judged.due_us)


def to_send(pending: Pending) -> tuple[str, Message]:
    """The real topic, and the message there."""
    kept = _decode(pending.content)
    return kept.topic, kept.message


def to_keep(pending: Pending) -> Message:
    """The record of the pending topic."""
    _, topic, message = _decode(pending.content)
    properties = {
        RELAY_ID: pending.id,
        RELAY_TOPIC: topic,
        RELAY_DUE_MS: str(pending.due_us // US_PER_MS),
        RELAY_BORN_MS: str(message.born_ms),
        RELAY_PACKING: str(message.sys_flag),
        RELAY_PROPERTIES: json.dumps(message.properties, ensure_ascii=False),
    }
    if UNIQ_KEY in message.properties:  # so that it is found by its id
        properties[UNIQ_KEY] = message.properties[UNIQ_KEY]
    return Message(properties, message.body, message.flag)


def to_settle(pending: Iterable[Pending]) -> Message:
    """A record of the pending topic that says what has left."""
    places = [(each.number, each.due_us) for each in pending]
    return Message({RELAY_SETTLED: str(len(places))}, msgspec.json.encode(places))


def to_refuse(message_id: str, message: Message, sentence: str) -> Message:
    """The message as it goes to those who look after refused ones."""
    return message._replace(properties=message.properties | {RELAY_ID: message_id, RELAY_REFUSED: sentence})


def read_pending(record: WireRecord) -> Pending | list[Settled] | None:
    """What a record of the pending topic says; None if it is no relay's."""
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
