"""Routes for producers: send a message or a batch."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.sending.sender import MAX_BATCH, SendResult
from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.duration import LONGEST_US, format_duration, parse_duration_us
from mocketmq.errors import (
    IllegalMessageError,
    InvalidArgumentError,
    NoPermissionError,
    TopicNotFoundError,
    WrongQueueError,
)
from mocketmq.http_api.access import sends, sends_and_moves
from mocketmq.http_api.answer_fields import to_ms
from mocketmq.http_api.fields import (
    INT32,
    Duration,
    Input,
    InstantMs,
    LiteTopicName,
    QueueId,
    TopicPath,
    allowed_by,
    matching,
)
from mocketmq.http_api.route import ApiCall, ApiSender, Route, RouteGroup
from mocketmq.message.message import Message
from mocketmq.message.message_types import HIGHEST_PRIORITY, LITE_TOPIC_ALLOWED
from mocketmq.message.properties import (
    DELAY,
    KEYS,
    LITE_TOPIC,
    MAX_TIMER_DELAY_MS,
    OWN_FIELDS,
    PRIORITY,
    RESERVED,
    START_DELIVER_TIME,
    TAGS,
    TIMER_DELAY_MS,
    TIMERS,
    UNIQ_KEY,
)
from mocketmq.settings import Settings

_TIMER_US: Final = MAX_TIMER_DELAY_MS * US_PER_MS
DUE_PROPERTIES: Final = (START_DELIVER_TIME, *TIMERS)
"""Properties by which SDKs delay a message. Two of them also have their own field."""

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

    At most one field or property may delay the message: `delay_level` (clamped to the highest level; 0 or
    less means no delay); `delay` or `delay_ms`, which become the property `TIMER_DELAY_MS`;
    `start_deliver_ms`, which becomes `__STARTDELIVERTIME`; or one of the properties `__STARTDELIVERTIME`,
    `TIMER_DELAY_SEC`, `TIMER_DELAY_MS` and `TIMER_DELIVER_MS`. `priority` and `lite_topic` exclude each
    other, and both exclude a delay and a `queue_id`.

    All other `properties` are user properties. All properties together take at most 32,767 bytes.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        "oneOf": [{"required": ["body"]}, {"required": ["body_base64"]}],
        "not": {
            "anyOf": [
                {"required": ["start_deliver_ms", "delay_ms"]},
                {"required": ["start_deliver_ms", "delay"]},
                {"required": ["delay", "delay_ms"]},
                {"required": ["priority", "queue_id"]},
                {"required": ["lite_topic", "queue_id"]},
                {
                    "required": ["delay_level"],
                    "properties": {"delay_level": {"minimum": 1}},
                    "anyOf": [{"required": [name]} for name in ("start_deliver_ms", "delay_ms", "delay")],
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
    delay: (
        Annotated[
            Duration,
            Meta(
                description="a duration such as 200ms, 1.5s, 10s, 1h30m or 2d, by the broker's clock; at most"
                " start_deliver_window, or 3d if that is longer; with start_deliver_time dongwo at most"
                " 36500d; with delay_limits what the chosen system allows"
            ),
        ]
        | UnsetType
    ) = UNSET
    delay_ms: (
        Annotated[int, Meta(ge=0, le=LONGEST_US // US_PER_MS, description="`delay` in milliseconds")]
        | UnsetType
    ) = UNSET
    start_deliver_ms: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=LATEST_US // US_PER_MS,
                description="Instant of delivery: milliseconds since the epoch by the wall clock, even if the"
                " broker's clock was moved. A past instant means immediate delivery. The settings"
                " start_deliver_time and start_deliver_window limit how far in the future it may be",
            ),
        ]
        | UnsetType
    ) = UNSET
    queue_id: (
        Annotated[QueueId, Meta(description="Queue to send to; without it, the broker picks one")] | UnsetType
    ) = UNSET
    priority: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=HIGHEST_PRIORITY,
                description="Priority in a topic of type `priority`; consumers get higher priorities first."
                " The broker stores the message in the queue with this number, or in the topic's last queue",
            ),
        ]
        | UnsetType
    ) = UNSET
    lite_topic: (
        Annotated[LiteTopicName, Meta(description=f"{LITE_TOPIC_ALLOWED}; the topic must be of type lite")]
        | UnsetType
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
    """A stored message. The offsets of a delayed message are those of its parked record."""

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
    """Messages that the broker stores in one transaction, all or none.

    With `advance`, the broker first moves the clock by this duration, like `POST /v1/clock/advance`. The
    clock stays moved even if the broker then refuses the messages.
    """

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=MAX_BATCH)]
    advance: Duration | UnsetType = UNSET


class SentBatch(msgspec.Struct, frozen=True):
    """The stored messages, in the order of the batch."""

    sent: list[Sent]


def links_by_id(*handlers: str) -> dict[str, Mapping[str, object]]:
    """OpenAPI links from a stored message to handlers that take its id."""
    return {name: {"parameters": {"message_id": "$response.body#/message_id"}} for name in handlers}


SENDING = RouteGroup("sending", "Send messages")


@Route(
    SENDING,
    "POST /v1/topics/{topic}/messages",
    "Send a message, delayed or not",
    status=201,
    links=links_by_id("life", "cancel", "deliver"),
    errors=REFUSALS,
    operation="send",
    needs=sends,
)
async def send(call: ApiCall, path: TopicPath, message: MessageIn) -> Sent:
    """Responds once the message is durable."""
    sending = message_of(call.sender, path.topic, message)
    try:
        return sent_of(await call.broker.sender.send(sending))
    except IllegalMessageError as error:
        if error.field == f"properties.{TIMER_DELAY_MS}" and (delay := _delay(message)) is not None:
            error.field = delay[0]
        raise


@Route(
    SENDING,
    "POST /v1/topics/{topic}/messages/batch",
    "Send up to 1,000 messages in one transaction",
    status=201,
    errors=REFUSALS,
    operation="send",
    needs=sends_and_moves,
)
async def send_batch(call: ApiCall, path: TopicPath, batch: BatchIn) -> SentBatch:
    """Responds once all messages are durable."""
    sender = call.sender
    messages = [message_of(sender, path.topic, one) for one in batch.messages]
    if batch.advance is not UNSET:
        await call.broker.mover.advance(parse_duration_us(batch.advance, "advance"))
    sent = await call.broker.sender.send_batch(messages)
    return SentBatch([sent_of(one) for one in sent])


def message_of(sender: ApiSender, topic: str, given_in: MessageIn) -> Message:
    """Make a message from a request body. Raises IllegalMessageError, InvalidArgumentError."""
    if (given_in.body is UNSET) == (given_in.body_base64 is UNSET):
        both = "missing" if given_in.body is UNSET else "given twice"
        raise IllegalMessageError("body", f"the body is {both}; allowed: exactly one of body and body_base64")
    body = given_in.body_base64 if isinstance(given_in.body_base64, bytes) else str(given_in.body).encode()
    delays = _delays(given_in)
    if len(delays) > 1:
        first, (field, value) = delays[0][0], delays[1]
        raise InvalidArgumentError(
            field, value, f"no value, because {first} is given and a message has one delay"
        )
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
    delay_us = None
    if delays and (delay := _delay(given_in)) is not None:
        asked_us = _check_delay(sender.settings, *delay)
        properties[TIMER_DELAY_MS] = str(-(-asked_us // US_PER_MS))
        if asked_us > _TIMER_US and sender.settings.delay_limits is None:
            delay_us = asked_us
    if given_in.start_deliver_ms is not UNSET:
        properties[START_DELIVER_TIME] = str(given_in.start_deliver_ms)
    if given_in.message_id is not UNSET:
        properties[UNIQ_KEY] = given_in.message_id
    if given_in.priority is not UNSET:
        _check_priority(sender, topic, given_in.priority, given_in.queue_id)
        properties[PRIORITY] = str(given_in.priority)
    if given_in.lite_topic is not UNSET:
        if given_in.queue_id is not UNSET:
            raise InvalidArgumentError(
                "queue_id", given_in.queue_id, "no value, because a lite topic is a queue of its own"
            )
        properties[LITE_TOPIC] = given_in.lite_topic
    return Message(
        topic,
        body,
        properties,
        queue_id=None if given_in.queue_id is UNSET else given_in.queue_id,
        flag=given_in.flag,
        born_us=None if given_in.born_ms is UNSET else given_in.born_ms * US_PER_MS,
        born_host=sender.host,
        door="http",
        delay_us=delay_us,
    )


def _check_priority(sender: ApiSender, topic: str, priority: int, queue_id: int | UnsetType) -> None:
    """Raise InvalidArgumentError if a queue is also given, or if the topic does not order by priority."""
    if queue_id is not UNSET:
        raise InvalidArgumentError("queue_id", queue_id, "no value, because the priority chooses the queue")
    known = sender.broker.registry.topics.find_topic(topic)
    if known is None or not known.config.is_by_priority:
        raise InvalidArgumentError(
            "priority",
            priority,
            'no value, because the topic is not of type priority. Create the topic with {"type": "priority"}',
        )


def _delay(given_in: MessageIn) -> tuple[str, str | int] | None:
    """The field with a relative delay, and its value; None if there is none."""
    if given_in.delay is not UNSET:
        return "delay", given_in.delay
    return None if given_in.delay_ms is UNSET else ("delay_ms", given_in.delay_ms)


def _check_delay(settings: Settings, field: str, value: str | int) -> int:
    """Return a delay in microseconds. Raises InvalidArgumentError if it is too long.

    The maximum is that of absolute due times, but at least the three days that RocketMQ allows for timers.
    With ``delay_limits``, the broker checks the delay instead; with ``dongwo``, any delay is allowed.
    """
    us = value * US_PER_MS if isinstance(value, int) else parse_duration_us(value, field)
    if settings.delay_limits is not None or settings.start_deliver_time == "dongwo":
        return us
    longest_us, allows = settings.start_deliver_window_us, allowed_by("start_deliver_window")
    if longest_us < _TIMER_US:
        longest_us, allows = _TIMER_US, ""
    if us > longest_us:
        if isinstance(value, int):
            allowed = f"a whole number from 0 to {longest_us // US_PER_MS}"
        else:
            allowed = f"a duration from 0 to {format_duration(longest_us)}"
        raise InvalidArgumentError(field, value, allowed + allows)
    return us


def _delays(given_in: MessageIn) -> list[tuple[str, object]]:
    """The fields and properties that delay the message, with their values."""
    delays: list[tuple[str, object]] = []
    if given_in.delay_level is not UNSET and given_in.delay_level > 0:
        delays.append(("delay_level", given_in.delay_level))
    if given_in.delay is not UNSET:
        delays.append(("delay", given_in.delay))
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
    else:
        allowed = "no value, as the name is reserved"
    return InvalidArgumentError(f"properties.{name}", properties[name], allowed)


def sent_of(sent: SendResult) -> Sent:
    """The response to a send."""
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
