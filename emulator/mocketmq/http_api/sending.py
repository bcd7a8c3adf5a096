"""Send messages, alone or in a batch."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.sending.sender import MAX_BATCH, SendResult
from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.errors import (
    IllegalMessageError,
    InvalidArgumentError,
    NoPermissionError,
    TopicNotFoundError,
    WrongQueueError,
)
from mocketmq.http_api.fields import INT32, Input, InstantMs, QueueId, TopicPath, matching
from mocketmq.http_api.message_out import to_ms
from mocketmq.http_api.route import ApiCall, Route, RouteGroup
from mocketmq.message.message import Message
from mocketmq.message.properties import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    DELAY,
    KEYS,
    MAX_TIMER_DELAY_MS,
    START_DELIVER_TIME,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_MS,
    TIMER_OUT_MS,
    TIMERS,
    UNIQ_KEY,
    WITHOUT_EFFECT,
)

OWN_FIELDS: Final = {DELAY: "delay_level", KEYS: "keys", TAGS: "tag", UNIQ_KEY: "message_id"}
"""Properties that are given by a field."""
RESERVED: Final = frozenset(
    {
        *OWN_FIELDS,
        # Set by brokers and client libraries.
        *("CONSUME_START_TIME", "CORRECTION_FLAG", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET"),
        *("MQ2_FLAG", "ORIGIN_MESSAGE_ID", "PGROUP", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME"),
        *("RETRY_TOPIC", TIMER_OUT_MS, "TRANSFER_FLAG", "WAIT"),
        # Would have no effect over HTTP.
        *(TIMER_DEL_UNIQKEY, CHECK_IMMUNITY, CHECK_TIMES, "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET"),
        *WITHOUT_EFFECT,
    }
)
"""Names that user properties may not have."""
DUE_PROPERTIES: Final = (START_DELIVER_TIME, *TIMERS)
"""Properties by which SDKs delay a message. Two of them can be given by a field as well."""

Key = Annotated[
    str,
    matching(
        r"^[^\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$",
        "text without spaces and control characters",
    ),
]
REFUSALS: Final = (NoPermissionError, TopicNotFoundError, WrongQueueError)
"""Errors of a send whose fields are valid."""

PropertyText = Annotated[
    str, matching(r"^[^\x01\x02]+$", "text that is not empty and has neither U+0001 nor U+0002")
]
Base64 = Annotated[
    bytes,
    Meta(
        min_length=1,
        description="at least one byte, as base64",
        extra_json_schema={"pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"},
    ),
]


class MessageIn(Input, frozen=True):
    """A message to send, with exactly one of `body` and `body_base64`.

    At most one field or property delays it: `delay_level` (a level above the highest counts as the highest, 0
    or less is no delay); `delay_ms`, which becomes the property `TIMER_DELAY_MS`; `start_deliver_ms`, which
    becomes `__STARTDELIVERTIME`; or a property `__STARTDELIVERTIME`, `TIMER_DELAY_SEC`, `TIMER_DELAY_MS` or
    `TIMER_DELIVER_MS`.

    All other `properties` are user properties. All properties together take at most 32,767 bytes.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        "oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}],
        "not": {
            "anyOf": [
                {"required": ["start_deliver_ms", "delay_ms"]},
                {
                    "required": ["delay_level"],
                    "properties": {"delay_level": {"minimum": 1}},
                    "anyOf": [{"required": ["start_deliver_ms"]}, {"required": ["delay_ms"]}],
                },
            ]
        },
    }

    body: Annotated[str, Meta(min_length=1, description="Text, sent as UTF-8")] | UnsetType = UNSET
    body_base64: Base64 | UnsetType = UNSET
    tag: PropertyText | UnsetType = UNSET
    keys: list[Key] | UnsetType = UNSET
    properties: (
        dict[
            Annotated[PropertyText, Meta(extra_json_schema={"not": {"enum": sorted(RESERVED)}})], PropertyText
        ]
        | UnsetType
    ) = UNSET
    delay_level: Annotated[int, INT32] | UnsetType = UNSET
    delay_ms: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_TIMER_DELAY_MS,
                description="Delay in milliseconds on the broker's clock; 0 is none",
            ),
        ]
        | UnsetType
    ) = UNSET
    start_deliver_ms: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=LATEST_US // US_PER_MS,
                description="Instant of delivery: milliseconds since the epoch by the wall clock, even if the"
                " broker's clock was moved. A past instant means at once. The settings start_deliver_time"
                " and start_deliver_window limit how far ahead it may be",
            ),
        ]
        | UnsetType
    ) = UNSET
    queue_id: (
        Annotated[QueueId, Meta(description="Queue to send to; without it, the broker picks one")] | UnsetType
    ) = UNSET
    message_id: (
        Annotated[
            str,
            matching(
                "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$",
                "1 to 128 letters, digits, _, ., : and -, beginning with a letter or digit",
            ),
        ]
        | UnsetType
    ) = UNSET
    born_ms: InstantMs | UnsetType = UNSET
    flag: Annotated[int, INT32] = 0


class Sent(msgspec.Struct, frozen=True):
    """A stored message. If it is delayed, its offsets are those of the parked record."""

    message_id: str
    offset_message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    store_ms: int
    delay_level: int
    due_ms: int | None


class BatchIn(Input, frozen=True):
    """Messages to store in one transaction: all or none."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=MAX_BATCH)]


class SentBatch(msgspec.Struct, frozen=True):
    """The stored messages, in the order of the batch."""

    sent: list[Sent]


async def send(call: ApiCall, path: TopicPath, message: MessageIn) -> Sent:
    """Answers once the message is durable."""
    return _sent(await call.broker.sender.send(message_of(path.topic, message, call.client)))


async def send_batch(call: ApiCall, path: TopicPath, batch: BatchIn) -> SentBatch:
    """Answers once all messages are durable."""
    client = call.client
    sent = await call.broker.sender.send_batch(
        [message_of(path.topic, one, client) for one in batch.messages]
    )
    return SentBatch([_sent(one) for one in sent])


def links_by_id(*handlers: str) -> dict[str, Mapping[str, object]]:
    """OpenAPI links to handlers that take the id of the stored message."""
    return {name: {"parameters": {"message_id": "$response.body#/message_id"}} for name in handlers}


def message_of(topic: str, given_in: MessageIn, born_host: str) -> Message:
    """The message that a body describes. Raises IllegalMessageError, InvalidArgumentError."""
    if (given_in.body is UNSET) == (given_in.body_base64 is UNSET):
        both = "missing" if given_in.body is UNSET else "given twice"
        raise IllegalMessageError("body", f"the body is {both}; allowed: exactly one of body and body_base64")
    body = given_in.body_base64 if isinstance(given_in.body_base64, bytes) else str(given_in.body).encode()
    if len(delays := _delays(given_in)) > 1:
        first, (field, value) = delays[0][0], delays[1]
        raise InvalidArgumentError(field, value, f"no value beside {first}, as a message has one delay")
    properties: dict[str, str] = {}
    if given_in.properties is not UNSET:
        if not RESERVED.isdisjoint(given_in.properties):
            raise _reserved(given_in.properties)
        properties.update(given_in.properties)
    if given_in.tag is not UNSET:
        properties[TAGS] = given_in.tag
    if given_in.keys:
        properties[KEYS] = " ".join(given_in.keys)
    if given_in.delay_level is not UNSET:
        properties[DELAY] = str(given_in.delay_level)
    if given_in.delay_ms is not UNSET:
        properties[TIMER_DELAY_MS] = str(given_in.delay_ms)
    if given_in.start_deliver_ms is not UNSET:
        properties[START_DELIVER_TIME] = str(given_in.start_deliver_ms)
    if given_in.message_id is not UNSET:
        properties[UNIQ_KEY] = given_in.message_id
    return Message(
        topic,
        body,
        properties,
        queue_id=None if given_in.queue_id is UNSET else given_in.queue_id,
        flag=given_in.flag,
        born_us=None if given_in.born_ms is UNSET else given_in.born_ms * US_PER_MS,
        born_host=born_host,
        door="http",
    )


def _delays(given_in: MessageIn) -> list[tuple[str, object]]:
    """The fields and properties that delay the message, with their values."""
    delays: list[tuple[str, object]] = []
    if given_in.delay_level is not UNSET and given_in.delay_level > 0:
        delays.append(("delay_level", given_in.delay_level))
    if given_in.delay_ms is not UNSET:
        delays.append(("delay_ms", given_in.delay_ms))
    if given_in.start_deliver_ms is not UNSET:
        delays.append(("start_deliver_ms", given_in.start_deliver_ms))
    if given_in.properties:
        own = given_in.properties
        delays.extend((f"properties.{name}", own[name]) for name in DUE_PROPERTIES if name in own)
    return delays


def _reserved(properties: Mapping[str, str]) -> InvalidArgumentError:
    name = next(name for name in properties if name in RESERVED)
    if name in OWN_FIELDS:
        allowed = f"only the field {OWN_FIELDS[name]}"
    elif name in WITHOUT_EFFECT:
        allowed = f"no such property, as {WITHOUT_EFFECT[name]}. Send the message without it"
    else:
        allowed = "no value, as the name is reserved"
    return InvalidArgumentError(f"properties.{name}", properties[name], allowed)


def _sent(sent: SendResult) -> Sent:
    stored = sent.stored
    return Sent(
        stored.unique_key,
        sent.receipt.offset_message_id,
        sent.queue.topic,
        sent.receipt.queue_id,
        sent.receipt.queue_offset,
        stored.log_offset,
        stored.store_us // US_PER_MS,
        sent.level,
        to_ms(stored.due_us),
    )


SENDING = RouteGroup(
    "sending",
    "Send messages",
    [
        Route(
            "POST",
            "/v1/topics/{topic}/messages",
            send,
            "Send a message, delayed or not",
            Sent,
            TopicPath,
            MessageIn,
            status=201,
            links=links_by_id("life", "cancel", "deliver"),
            errors=REFUSALS,
            operation="send",
        ),
        Route(
            "POST",
            "/v1/topics/{topic}/messages/batch",
            send_batch,
            "Send up to 1,000 messages in one transaction",
            SentBatch,
            TopicPath,
            BatchIn,
            status=201,
            errors=REFUSALS,
            operation="send",
        ),
    ],
)
