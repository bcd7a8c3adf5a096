"""Converts stored messages for gRPC clients (GrpcConverter.java, 5.3.3; priorities as in 5.5.0)."""

import hashlib
from typing import Any, Final

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.grpc_proxy import topic_types
from mocketmq.grpc_proxy.messages import message_class, set_us
from mocketmq.message.body import body_of
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_types import priority_of
from mocketmq.message.names import DLQ_PREFIX
from mocketmq.message.properties import (
    DELAY,
    KEYS,
    LITE_TOPIC,
    PRIORITY,
    RETRY_TOPIC,
    START_DELIVER_TIME,
    TAGS,
    TIMER_DELIVER_MS,
    TIMERS,
    TRACE_CONTEXT,
    TRAN_MSG,
    decode_properties,
)
from mocketmq.store.queue import LiteQueue

IDENTITY, GZIP = 1, 2
"""Values of Encoding."""
MESSAGE_GROUP: Final = "__SHARDINGKEY"
BORN_HOST: Final = "__BORNHOST"
_TRANSACTION_ID: Final = "__transactionId__"
_RESERVED: Final = (
    "KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID"
    " ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY"
    " EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME"
    " TRAN_PREPARED_QUEUE_OFFSET DUP_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME"
    " PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC"
    " TIMER_DELIVER_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY"
    " TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#"
    " _SYS_MSG_PRIORITY_ __LITE_TOPIC"
)
RESERVED: Final = frozenset(_RESERVED.split())
"""Properties that clients can neither set nor receive (MessageConst.java, 5.3.3, and two of 5.5.0)."""
_FIELDS: Final = (
    (TAGS, "tag"),
    (MESSAGE_GROUP, "message_group"),
    (TRACE_CONTEXT, "trace_context"),
    (LITE_TOPIC, "lite_topic"),
)
"""Properties that have their own field."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_COMPRESSED: Final = 1

_Message = message_class("Message")


def message_out(broker: Broker, stored: StoredMessage, topic: str, reconsumed: int = 0) -> Any:
    """Convert a message. ``topic`` is its name for clients; ``reconsumed`` counts earlier deliveries."""
    properties = decode_properties(stored.properties)
    out = _Message()
    out.topic.name = topic
    out.user_properties.update((name, text) for name, text in properties.items() if name not in RESERVED)
    kind = _type_of(properties)
    if kind == topic_types.TRANSACTION:
        out.user_properties[_TRANSACTION_ID] = stored.unique_key  # RocketMQ's broker adds this property
    system = out.system_properties
    out.body, system.body_encoding = _body(broker, stored)
    system.body_digest.type = 2
    system.body_digest.checksum = hashlib.md5(out.body, usedforsecurity=False).hexdigest().upper()
    system.keys.extend(properties.get(KEYS, "").split())
    system.message_id = stored.unique_key
    system.message_type = kind
    set_us(system.born_timestamp, stored.born_us)
    system.born_host = properties.get(BORN_HOST) or stored.born_host
    set_us(system.store_timestamp, stored.store_us)
    system.store_host = broker.store.writer.store_host
    queue = broker.registry.topics.queue(stored.queue_key)
    system.queue_id = 0 if isinstance(queue, LiteQueue) else broker.registry.brokers.queue_id(queue)
    system.queue_offset = stored.queue_offset
    system.delivery_attempt = reconsumed + 1
    for name, field in _FIELDS:
        if name in properties:
            setattr(system, field, properties[name])
    if (due := properties.get(TIMER_DELIVER_MS) or properties.get(START_DELIVER_TIME, "")).isdecimal():
        set_us(system.delivery_timestamp, int(due) * US_PER_MS)
    if (priority := priority_of(properties)) is not None:
        system.priority = priority
    if topic.startswith(DLQ_PREFIX):
        system.dead_letter_queue.topic = properties.get(RETRY_TOPIC, "")
        system.dead_letter_queue.message_id = stored.unique_key
    return out


def _body(broker: Broker, stored: StoredMessage) -> tuple[bytes, int]:
    """Return the body and its encoding. Only a gzip body, which gRPC clients can read, stays compressed."""
    if not stored.sys_flag & _COMPRESSED:
        return stored.body, IDENTITY
    if stored.body.startswith(_GZIP_MAGIC):
        return stored.body, GZIP
    body = body_of(stored, broker.sender.intake.max_message_bytes)
    return body.content, GZIP if body.compression else IDENTITY


def _type_of(properties: dict[str, str]) -> int:
    if properties.get(TRAN_MSG, "").lower() == "true":  # even after the commit
        return topic_types.TRANSACTION
    if any(name in properties for name in (DELAY, START_DELIVER_TIME, *TIMERS)):
        return topic_types.DELAY
    if MESSAGE_GROUP in properties:
        return topic_types.FIFO
    if PRIORITY in properties:
        return topic_types.PRIORITY
    return topic_types.LITE if LITE_TOPIC in properties else topic_types.NORMAL
