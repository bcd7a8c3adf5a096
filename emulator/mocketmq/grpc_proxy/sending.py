"""The producers' RPCs SendMessage, RecallMessage and EndTransaction.

The RPCs follow SendMessageActivity, GrpcValidator, ProducerProcessor and EndTransactionActivity of 5.3.3, and
SendMessageActivity of 5.5.0 for priorities.
"""

import random
import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from mocketmq.broker.inspection.recalls import recall_handle_of
from mocketmq.broker.registry.topic import Topic
from mocketmq.broker.sending.queue_choice import queue_of_group
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.errors import (
    BrokerDownError,
    EmulatorError,
    IllegalMessageError,
    NoPermissionError,
    as_emulator_error,
)
from mocketmq.grpc_proxy import topic_types
from mocketmq.grpc_proxy.call import Call, topic_of
from mocketmq.grpc_proxy.codes import Code, GrpcError, code_of, common_code, set_status
from mocketmq.grpc_proxy.fault_injection import DOOR
from mocketmq.grpc_proxy.lite import check_lite_topic
from mocketmq.grpc_proxy.message_out import BORN_HOST, GZIP, MESSAGE_GROUP, RESERVED
from mocketmq.grpc_proxy.messages import message_class, us_of
from mocketmq.message import names
from mocketmq.message.message import Message
from mocketmq.message.properties import (
    CHECK_IMMUNITY,
    CLUSTER,
    KEYS,
    LITE_TOPIC,
    PRIORITY,
    TAGS,
    TIMER_DELIVER_MS,
    TRACE_CONTEXT,
    UNIQ_KEY,
)

MAX_PROPERTIES: Final = 128
MAX_PROPERTY_BYTES: Final = 16 << 10
MAX_GROUP_BYTES: Final = 64
MAX_DELAY_US: Final = 24 * 3_600 * US_PER_S
MAX_RECOVERY_US: Final = 3_600 * US_PER_S
"""The proxy's limits on a message's properties, its message group, its delay and its first check-back."""
_COMPRESSED: Final = 1
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_CONTROLS: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))

_COMMIT, _ROLLBACK = 1, 2
"""Values of TransactionResolution."""

_Answer = message_class("SendMessageResponse")
_RecallAnswer = message_class("RecallMessageResponse")
_EndAnswer = message_class("EndTransactionResponse")


async def send(call: Call) -> Any:
    """Store the messages; the response has an entry for each, in the same order."""
    given: Sequence[Any] = call.request.messages
    if not given:
        raise GrpcError(Code.MESSAGE_CORRUPTED, "the request contains no message")
    topic_name = topic_of(given[0].topic)
    if any(one.topic.name != topic_name for one in given):
        raise GrpcError(Code.MESSAGE_CORRUPTED, "all messages of a request must have the same topic")
    intake = call.broker.sender.intake
    for one in given:
        _check(one, intake.max_message_bytes, is_proxy=intake.is_rocketmq)
    topic = await call.broker.registry.used_topics.for_send(topic_name)
    for one in given:
        kind = _type_of(one)
        if not topic_types.accepts(topic, kind):
            raise GrpcError(
                Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"topic {topic_name} accepts {_names(topic_types.types_of(topic))} messages; this is a"
                f" {topic_types.NAMES[kind]} message",
            )
    messages = [_message(call, one, topic) for one in given]
    answer = _Answer()
    codes = [
        await _send(call, message, one, answer.entries.add())
        for message, one in zip(messages, given, strict=True)
    ]
    return set_status(answer, common_code(codes), answer.entries[0].status.message)


async def _send(call: Call, message: Message, given: Any, entry: Any) -> int:
    """Store a message, fill its entry in the response, and return its code."""
    entry.message_id = entry.transaction_id = given.system_properties.message_id
    try:
        if _type_of(given) == topic_types.TRANSACTION:
            call.clients.sends_to(call.client_id, message.topic)
            half = await call.broker.half_messages.prepare_checked(message, message.topic)
            entry.offset = half.stored.queue_offset
        else:
            sent = await call.broker.sender.send(message)
            entry.offset = sent.receipt.queue_offset
            entry.recall_handle = (
                recall_handle_of(sent, call.broker.registry.brokers, of_levels=call.settings.recall_levels)
                or ""
            )
    except IllegalMessageError as error:
        code = _CODES.get(error.field, Code.INTERNAL_SERVER_ERROR)
        return _refuse(entry, GrpcError(code, str(error)))
    except Exception as error:  # noqa: BLE001 - every message needs an entry in the response
        return _refuse(entry, as_emulator_error(error))
    set_status(entry)
    return Code.OK


_CODES: Final = {
    "properties": Code.MESSAGE_PROPERTIES_TOO_LARGE,
    "body": Code.MESSAGE_BODY_TOO_LARGE,
    "priority": Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    "lite_topic": Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
}


def _refuse(entry: Any, error: EmulatorError) -> int:
    set_status(entry, code_of(error), str(error))
    return code_of(error)


def _type_of(given: Any) -> int:
    """Return the effective message type. The proxy reads the declared type only for transactions."""
    system = given.system_properties
    if system.message_type == topic_types.TRANSACTION:
        return topic_types.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return topic_types.DELAY
    is_grouped = system.message_group or MESSAGE_GROUP in given.user_properties
    if is_grouped:
        return topic_types.FIFO
    if system.HasField("priority"):
        return topic_types.PRIORITY
    return topic_types.LITE if system.HasField("lite_topic") else topic_types.NORMAL


def _names(kinds: Sequence[int]) -> str:
    return " or ".join(topic_types.NAMES[kind] for kind in kinds)


def _check(given: Any, max_body: int, *, is_proxy: bool) -> None:
    """Check a message as the proxy does, in the same order. Raises GrpcError.

    Without ``is_proxy``, the delay limits of an emulated system apply to the due time instead.
    """
    system, size = given.system_properties, len(given.body)
    check_lite_topic(system)
    if not size:
        raise GrpcError(Code.MESSAGE_BODY_EMPTY, "the body is empty")
    if size > max_body:
        raise GrpcError(
            Code.MESSAGE_BODY_TOO_LARGE, f"the body takes {size} bytes; allowed: up to {max_body}"
        )
    properties = given.user_properties
    if len(properties) > MAX_PROPERTIES:
        raise GrpcError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(properties)} properties; allowed: up to {MAX_PROPERTIES}",
        )
    for name, text in properties.items():
        if name in RESERVED:
            raise GrpcError(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name} is reserved for RocketMQ")
        if _has_control(name) or _has_control(text):
            raise GrpcError(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name!r} or its value contains a control character",
            )
    tag = system.tag
    if (tag and not tag.strip()) or "|" in tag or _has_control(tag):
        raise GrpcError(
            Code.ILLEGAL_MESSAGE_TAG, f"tag {tag!r} is blank, or contains | or a control character"
        )
    for key in system.keys:
        if (key and not key.strip()) or _has_control(key):
            raise GrpcError(
                Code.ILLEGAL_MESSAGE_KEY, f"key {key!r} is blank, or contains a control character"
            )
    texts = (*properties.keys(), *properties.values(), tag, *system.keys)
    size = sum(len(text.encode()) for text in texts)
    if size > MAX_PROPERTY_BYTES:
        raise GrpcError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys are {size} bytes in total; allowed: up to {MAX_PROPERTY_BYTES}",
        )
    if not system.message_id.strip() or _has_control(system.message_id):
        raise GrpcError(Code.ILLEGAL_MESSAGE_ID, "message_id is missing, or contains a control character")
    _check_times(system, is_proxy=is_proxy)
    if system.priority < 0:
        raise GrpcError(
            Code.INTERNAL_SERVER_ERROR,
            f"priority is {system.priority}; allowed: a whole number of at least 0",
        )
    group = system.message_group
    if group and (not group.strip() or len(group.encode()) >= MAX_GROUP_BYTES or _has_control(group)):
        raise GrpcError(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"message group {group!r} is blank, is {MAX_GROUP_BYTES} bytes or longer, or contains a control"
            " character",
        )


def _check_times(system: Any, *, is_proxy: bool) -> None:
    is_half = system.message_type == topic_types.TRANSACTION
    if is_half and us_of(system.orphaned_transaction_recovery_duration) > MAX_RECOVERY_US:
        raise GrpcError(Code.BAD_REQUEST, "orphaned_transaction_recovery_duration exceeds 1 h")
    if is_proxy and system.HasField("delivery_timestamp"):
        ahead_us = us_of(system.delivery_timestamp) - wall_us()
        if ahead_us > MAX_DELAY_US:
            raise GrpcError(
                Code.ILLEGAL_DELIVERY_TIME,
                f"delivery_timestamp is {ahead_us // US_PER_S} s ahead; allowed: up to 24 h",
            )


def _has_control(text: str) -> bool:
    return not _CONTROLS.isdisjoint(text)


def _message(call: Call, given: Any, topic: Topic) -> Message:
    """Convert a message for the broker, which chooses the queue if there is no message group."""
    system = given.system_properties
    properties = {name: text for name, text in given.user_properties.items() if name and text}
    properties |= {UNIQ_KEY: system.message_id, CLUSTER: names.CLUSTER}
    if any(system.keys):
        properties[KEYS] = " ".join(system.keys)
    group = system.message_group
    texts = {
        TAGS: system.tag,
        MESSAGE_GROUP: group,
        TRACE_CONTEXT: system.trace_context,
        BORN_HOST: system.born_host,
    }
    properties |= {name: text for name, text in texts.items() if text}
    if system.HasField("lite_topic"):
        properties[LITE_TOPIC] = system.lite_topic
    if system.HasField("priority"):
        properties[PRIORITY] = str(system.priority)
    if system.HasField("delivery_timestamp"):
        properties[TIMER_DELIVER_MS] = str(us_of(system.delivery_timestamp) // US_PER_MS)
    if system.message_type == topic_types.TRANSACTION and system.HasField(
        "orphaned_transaction_recovery_duration"
    ):
        properties[CHECK_IMMUNITY] = str(us_of(system.orphaned_transaction_recovery_duration) // US_PER_S)
    body, sys_flag = _unpacked(given.body, system.body_encoding, call.broker.sender.intake.max_message_bytes)
    born_us = us_of(system.born_timestamp)
    return Message(
        given.topic.name,
        body,
        properties,
        _queue_id(call, group, topic),
        sys_flag=sys_flag,
        born_us=call.broker.clock.from_wall(born_us) if born_us > 0 else None,
        born_host=call.remote,
        reconsume_times=0,
        door=DOOR,
    )


def _queue_id(call: Call, group: str, topic: Topic) -> int | None:
    """Return the queue of a message, by its message group; None if the broker may choose any queue.

    Groups are redistributed when routes no longer list a broker. The endpoint of a single broker accepts
    messages for its own queues only. Raises TopicNotFoundError if that broker does not have the topic.
    """
    if call.local is None and not group:
        return None
    queues = topic.writable
    if call.local is None:
        offered = call.broker.registry.brokers.offered(queues) or queues
        return offered[queue_of_group(group, len(offered))].queue_id
    share = call.local.share
    own = [queue for queue in queues if share.has_queue(topic.name, queue.queue_id)]
    if not own:
        call.broker.registry.topics.check_is_at(topic, share.position)
        raise NoPermissionError(f"the topic[{topic.name}] sending message is forbidden")
    index = queue_of_group(group, len(own)) if group else random.randrange(len(own))  # noqa: S311 - spreads load
    return own[index].queue_id


def _unpacked(body: bytes, encoding: int, limit: int) -> tuple[bytes, int]:
    """Decompress gzip, because remoting clients cannot read it; return the body and its sysFlag."""
    if encoding != GZIP:
        return body, 0
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(body, limit + 1)
    except zlib.error:
        return body, _COMPRESSED
    return (plain, 0) if unpacker.eof and 0 < len(plain) <= limit else (body, _COMPRESSED)


async def recall(call: Call) -> Any:
    """Cancel a delayed message."""
    topic_name = topic_of(call.request.topic)
    topic = call.broker.registry.topics.get(topic_name)
    if topic_types.DELAY not in topic_types.types_of(topic):
        raise GrpcError(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"topic {topic_name} does not accept DELAY messages"
        )
    message_id = await call.broker.recalls.recall(
        topic_name, call.request.recall_handle, is_strict=call.settings.strict_recall
    )
    return _RecallAnswer(message_id=message_id)


async def end_transaction(call: Call) -> Any:
    """Commit a half message or roll it back.

    If the client is undecided, or the broker of the half message is down, the broker checks back later.
    """
    topic = topic_of(call.request.topic)
    transaction_id, resolution = call.request.transaction_id, call.request.resolution
    if not transaction_id.strip():
        raise GrpcError(Code.INVALID_TRANSACTION_ID, "transaction_id is blank")
    halves = call.broker.half_messages
    if resolution in (_COMMIT, _ROLLBACK):
        with suppress(BrokerDownError):  # RocketMQ's proxy does not wait for the broker's response either
            await halves.decide(transaction_id, commit=resolution == _COMMIT, topic=topic)
    else:
        await halves.leave_undecided(transaction_id, topic=topic)
    return _EndAnswer()
