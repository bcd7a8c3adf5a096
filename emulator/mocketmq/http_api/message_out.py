"""Converts stored messages, sent messages with their states in consumer groups, and events to JSON."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mocketmq.broker.broker import Broker
from mocketmq.broker.life import EventKind
from mocketmq.broker.verification.expectations import SeenMessage
from mocketmq.broker.verification.group_status import GroupStatus
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.answer_fields import answer_from, to_ms
from mocketmq.message.body import Compression, body_of, text_of
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.message_types import priority_of
from mocketmq.message.properties import KEYS, LITE_TOPIC, TAGS, decode_properties
from mocketmq.message.trace_context import trace_context_of

Most = Annotated[int, Meta(ge=0, le=1_000, description="Largest number of messages; the newest are returned")]


class MessageOut(msgspec.Struct, frozen=True, kw_only=True):
    """A stored message. A body that is not UTF-8 text is in `body_base64`, and `body` is null.

    Bodies that a client compressed with zlib are shown uncompressed, if they then fit `max_message_bytes`.
    Otherwise `compression` names the compression of `body_base64`. `sys_flag` is as stored. A parked message
    will be delivered at `due_ms` to the queue `real_queue_id` of `real_topic`. A message that was delivered
    after a delay has `parked_offset_message_id`. `priority`, `lite_topic` and `trace_id` are null for a
    message without them. The queue of a lite topic has a negative `queue_id`. `door` is how the message was
    sent: `remoting`, `grpc`, `http`, `aliyun`, or `seed` for a seed; null if an older version stored it.
    """

    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    body: str | None
    body_base64: bytes | None
    compression: Compression | None
    tag: str | None
    keys: list[str]
    priority: int | None
    lite_topic: str | None
    trace_id: str | None
    properties: dict[str, str]
    born_ms: int
    born_host: str
    door: str | None
    store_ms: int
    store_host: str
    flag: int
    sys_flag: int
    reconsume_times: int
    due_ms: int | None
    real_topic: str | None
    real_queue_id: int | None
    parked_offset_message_id: str | None


def message_out(broker: Broker, message: StoredMessage) -> MessageOut:
    """The message as JSON, with the topic and queue in which it is stored."""
    return MessageOut(**fields_of(broker, message))


def fields_of(broker: Broker, message: StoredMessage) -> dict[str, Any]:
    """The fields of :class:`MessageOut`, which its subclasses share."""
    queue = broker.registry.topics.queue(message.queue_key)
    store_host = broker.store.writer.store_host
    properties = decode_properties(message.properties)
    parked_offset = message.parked_offset
    real_key = message.real_queue_key
    real_queue = None if real_key is None else broker.registry.topics.queue(real_key)
    body = body_of(message, broker.sender.intake.max_message_bytes)
    text = None if body.compression else text_of(body.content)
    return {
        "message_id": message.unique_key,
        "offset_message_id": offset_message_id(store_host, message.log_offset),
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "queue_offset": message.queue_offset,
        "log_offset": message.log_offset,
        "body": text,
        "body_base64": body.content if text is None else None,
        "compression": body.compression,
        "tag": properties.get(TAGS),
        "keys": properties[KEYS].split() if KEYS in properties else [],
        "priority": priority_of(properties),
        "lite_topic": properties.get(LITE_TOPIC),
        "trace_id": trace.trace_id if (trace := trace_context_of(properties)) else None,
        "properties": properties,
        "born_ms": message.born_us // US_PER_MS,
        "born_host": message.born_host,
        "door": message.door,
        "store_ms": message.store_us // US_PER_MS,
        "store_host": store_host,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "due_ms": to_ms(message.due_us),
        "real_topic": None if real_queue is None else real_queue.topic,
        "real_queue_id": None if real_queue is None else real_queue.queue_id,
        "parked_offset_message_id": None
        if parked_offset is None
        else offset_message_id(store_host, parked_offset),
    }


class AtGroup(msgspec.Struct, frozen=True):
    """A message's state in a consumer group, the end of that state, and how often consumers received it."""

    group: str
    state: str
    times: int
    until_ms: int | None


def at_group(group: str, status: GroupStatus) -> AtGroup:
    """Convert a message's state in a consumer group to JSON."""
    return answer_from(AtGroup, status, group=group, state=status.state.value)


class SeenOut(msgspec.Struct, frozen=True):
    """A message that was sent. `due_ms` is null if the message was not delayed.

    `state` is `pending`, `delivered`, `cancelled` or `lost` (by a crash). `delivered_ms` is the time at which
    the message became visible to consumers. `text` is a summary in one line.
    """

    message_id: str
    topic: str
    queue_id: int
    lite_topic: str | None
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    body: str | None
    body_base64: bytes | None
    sent_ms: int
    delay_level: int
    due_ms: int | None
    state: str
    delivered_ms: int | None
    groups: list[AtGroup]
    text: str


def seen_out(broker: Broker, seen: SeenMessage) -> SeenOut:
    """Convert a sent message to JSON."""
    stored, message = fields_of(broker, seen.content), seen.sent
    state = "delivered" if message.positions else "cancelled" if message.is_cancelled else "pending"
    state = "lost" if message.is_lost else state
    return SeenOut(
        **{name: stored[name] for name in ("message_id", "tag", "keys", "properties", "body", "body_base64")},
        topic=message.queue.topic,
        queue_id=message.queue.queue_id,
        lite_topic=message.queue.lite_topic,
        sent_ms=message.sent_us // US_PER_MS,
        delay_level=message.level or 0,
        due_ms=to_ms(message.due_us),
        state=state,
        delivered_ms=message.positions[0].at_us // US_PER_MS if message.positions else None,
        groups=[at_group(group, status) for group, status in seen.group_statuses.items()],
        text=broker.expectations.describe(seen),
    )


class EventOut(msgspec.Struct, frozen=True):
    """An event. `text` describes it in words, without the time.

    `until_ms` is a message's due time, the time at which it becomes visible again, or the end of a clock move
    that began at `at_ms`. `late_us` is the time since the event became possible: for a delivery, since the
    due time; for a take, since the message became visible; for an acknowledgement, since the take. `fault` is
    the fault rule that affected a request or held a delivery. `door` is the protocol of the send, or of the
    request into which a fault was injected; `do` is the kind of fault, and `operation` the request's
    operation. `scheme` is the delay scheme that parked the message, and `level` its delay level, or null for
    an absolute due time.
    """

    at_ms: int
    kind: EventKind
    text: str
    topic: str | None
    queue_id: int | None
    message_id: str | None
    tag: str | None
    keys: tuple[str, ...]
    group: str | None
    times: int | None
    until_ms: int | None
    late_us: int | None
    fault: str | None
    door: str | None
    do: str | None
    operation: str | None
    scheme: str | None
    level: int | None
    priority: int | None
    lite_topic: str | None
