"""Makes the line of a recording from the properties and the body of a message."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.message.body import COMPRESSED_FLAG, text_of, unpacked
from mocketmq.message.properties import (
    DELAY,
    HALF_DUE_US,
    KEYS,
    LITE_TOPIC,
    PRIORITY,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    START_DELIVER_TIME,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    UNIQ_KEY,
)
from mocketmq.recording.masks import OF_BROKERS, Masks
from mocketmq.recording.recording import Origin, RecordedMessage, sent_text

NOT_OF_SENDERS: Final = (OF_BROKERS - {KEYS, TAGS}) | {
    *(HALF_DUE_US, PUSH_REPLY_TIME, REPLY_TO_CLIENT, "ARRIVE_TIME", "BORN_TIMESTAMP", "__BORNHOST"),
    *("DLQ_ORIGIN_MESSAGE_ID", "__transactionId__"),
}
"""Properties whose values an application does not choose: ids, times and addresses of brokers and clients."""
UNPLAYED: Final = (PRIORITY, LITE_TOPIC)
"""Properties that decide the queue of a message. A recording leaves them out, because it has the queue."""
LARGEST_INFLATED: Final = 15 << 20
"""Largest zlib body that can be replayed: the largest body that ``max_message_bytes`` allows."""
INFLATED: Final = 4 << 20
"""Maximum size of a zlib body that is recorded decompressed: a broker's default limit on bodies."""


class AskedDelay(NamedTuple):
    """A delay as the sender requested it. An absolute due time is in milliseconds of the sender's clock."""

    level: int = 0
    delay_ms: int | None = None
    due_ms: int | None = None


def asked_delay(properties: Mapping[str, str]) -> AskedDelay:
    """Return the delay that the properties of a parked message request. Raises ValueError."""
    if (level := int(properties.get(DELAY, "0"))) > 0:
        return AskedDelay(level=level)
    if TIMER_DELAY_SEC in properties:
        return AskedDelay(delay_ms=int(properties[TIMER_DELAY_SEC]) * 1_000)
    if TIMER_DELAY_MS in properties:
        return AskedDelay(delay_ms=int(properties[TIMER_DELAY_MS]))
    due = properties.get(TIMER_DELIVER_MS) or properties.get(START_DELIVER_TIME)
    return AskedDelay(due_ms=int(due)) if due else AskedDelay()


class Sending(NamedTuple):
    """When and where a message was sent; times in milliseconds."""

    sent_ms: int
    born_ms: int
    topic: str
    queue_id: int | None
    flag: int
    sys_flag: int
    queues: int | None = None


def recorded(
    sending: Sending,
    body: bytes,
    properties: Mapping[str, str],
    asked: AskedDelay,
    masks: Masks,
    origin: Origin | None = None,
    *,
    limit: int = INFLATED,
) -> RecordedMessage:
    """Make the line of a message, with masks. A zlib body larger than ``limit`` bytes stays compressed."""
    masked = masks.properties(dict(properties))
    content, compression = unpacked(body, sending.sys_flag, limit)
    hidden = masks.body(content, is_plain=compression is None)
    if hidden is not content:
        compression = None
    text = None if compression else text_of(hidden)
    return RecordedMessage(
        sent_at=sent_text(sending.sent_ms * US_PER_MS),
        topic=sending.topic,
        queue_id=sending.queue_id,
        queues=sending.queues,
        body=text,
        body_base64=hidden if text is None else None,
        tag=masked.get(TAGS),
        keys=tuple(masked.get(KEYS, "").split()),
        properties={name: value for name, value in masked.items() if name not in OF_BROKERS},
        delay_level=asked.level,
        delay_ms=asked.delay_ms,
        deliver_at=None if asked.due_ms is None else sent_text(asked.due_ms * US_PER_MS),
        message_id=masked.get(UNIQ_KEY),
        born_ms=sending.born_ms,
        flag=sending.flag,
        compression=compression,
        origin=origin,
    )


def inflated(message: RecordedMessage) -> RecordedMessage:
    """Return the message, with its body decompressed if it is zlib and not too large."""
    if message.compression != "zlib" or message.body_base64 is None:
        return message
    content, compression = unpacked(message.body_base64, COMPRESSED_FLAG, LARGEST_INFLATED)
    return msgspec.structs.replace(message, body_base64=content, compression=compression)
