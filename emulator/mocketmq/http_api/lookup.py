"""Routes to look up messages by queue, id, key or state, without consuming them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.consuming.pull import Pulled
from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.broker.filters.filter import Filter, parse_filter, prepare
from mocketmq.broker.inspection.history import MAX_FOUND_BYTES, DeliveryRecord, InterventionRecord
from mocketmq.broker.life import Consumption, MessageState
from mocketmq.broker.message_records import FaultRecord, ReceiptRecord
from mocketmq.broker.watching.message_list import Cursor, MessageSummary
from mocketmq.broker.watching.stored_records import RecordSearch
from mocketmq.errors import MessageNotFoundError, QueueNotFoundError, TopicNotFoundError
from mocketmq.http_api.access import reads_messages
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import (
    LARGEST,
    FilterExpression,
    FilterType,
    Input,
    LiteTopicName,
    MessagePath,
    Offset,
    QueueId,
    TopicName,
    TopicPath,
)
from mocketmq.http_api.message_out import AtGroup, EventOut, MessageOut, at_group, message_out
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given

_MAX_GROUPS = 20


class MessageStateOut(msgspec.Struct, frozen=True):
    """A summary of a message, from its newest record. `topic` is the topic to which it was sent.

    `consumption` is `never taken`, `in flight`, `to be redelivered`, `to be retried` or `acknowledged`. It is
    null unless the message is visible to consumers or waits for a retry. `groups` has the message's state in
    up to 20 consumer groups, and `group` is the group that gave the message back. `store_ms` is the time at
    which the newest record was stored; `lateness_us` is the lateness of the delivery after a delay. `preview`
    is the beginning of the body.
    """

    message_id: str
    topic: str
    lite_topic: str | None
    state: MessageState
    consumption: Consumption | None
    group: str | None
    groups: list[AtGroup]
    tag: str | None
    keys: tuple[str, ...]
    store_ms: int
    due_ms: int | None
    level: int | None
    lateness_us: int | None
    size: int
    preview: str


class MessageStatesIn(Input, frozen=True):
    """Criteria for messages; a message must meet all. `text` must occur in body, properties or unique key."""

    topic: TopicName | UnsetType = UNSET
    state: (
        Annotated[MessageState | Consumption, Meta(description="A `state`, or a `consumption`")] | UnsetType
    ) = UNSET
    tag: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    key: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    text: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    after: Annotated[
        int, Meta(ge=-1, le=LARGEST, description="Only messages with a record above this log offset")
    ] = -1
    before: (
        Annotated[
            str,
            Meta(pattern="^[0-9]{1,19}-[0-9]{1,19}$", description="The previous page's `next_before`"),
        ]
        | UnsetType
    ) = UNSET
    max: Annotated[int, Meta(ge=1, le=200, description="Largest number of messages")] = 100


class MessageStatesOut(msgspec.Struct, frozen=True):
    """Messages, newest first. `next_before` is the next page's `before`, or null at the end of the list.

    If the search takes long, the page ends early, and may even be empty.
    """

    messages: list[MessageStateOut]
    next_before: str | None


class MessageRange(TopicPath, frozen=True):
    """A range of messages."""

    offset: Offset = 0
    max: Annotated[int, Meta(ge=1, le=256, description="Largest number of messages")] = 32
    filter: FilterExpression = "*"
    filter_type: FilterType = "TAG"


class Browse(MessageRange, frozen=True, kw_only=True):
    """A range of messages in a queue."""

    queue_id: QueueId


class BrowseLiteTopic(MessageRange, frozen=True, kw_only=True):
    """A range of messages in a lite topic."""

    lite_topic: LiteTopicName


class Browsed(msgspec.Struct, frozen=True):
    """Messages of a queue or a lite topic.

    `next_offset` is the offset of the next page, and `status` is RocketMQ's pull status.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageOut]


class MessageHistoryOut(msgspec.Struct, frozen=True):
    """The records of a message, and its events. `state` is the state of the newest record.

    If the bodies have more than 4 MiB in total, the oldest records and their events are omitted; `omitted` is
    the number of omitted records. `consumption` is `never taken`, `in flight`, `to be redelivered`, `to be
    retried` or `acknowledged`. It is null unless the message is visible to consumers or waits for a retry.
    `life` lists the events in order, followed by the expected events of a pending message. The lists after
    `life` have the instants of each stage in microseconds.
    """

    message_id: str
    state: MessageState
    consumption: Consumption | None
    life: list[EventOut]
    records: list[MessageOut]
    omitted: int
    deliveries: list[DeliveryRecord]
    interventions: list[InterventionRecord]
    receipts: list[ReceiptRecord]
    faults: list[FaultRecord]


class ByKey(Input, frozen=True):
    """The key of the messages to find."""

    key: Annotated[str, Meta(min_length=1, max_length=255, description="One of the message's `keys`")]
    topic: TopicName | UnsetType = UNSET
    max: Annotated[int, Meta(ge=1, le=256, description="Largest number of messages")] = 64


class Messages(msgspec.Struct, frozen=True):
    """Messages, oldest first."""

    messages: list[MessageOut]


LOOKUP = RouteGroup("lookup", "Look at messages without consuming them")


@Route(
    LOOKUP,
    "GET /v1/topics/{topic}/queues/{queue_id}/messages",
    "Browse a queue",
    errors=[TopicNotFoundError, QueueNotFoundError],
    needs=reads_messages,
)
async def browse(call: ApiCall, where: Browse) -> Browsed:
    """Reads at most 4 MiB, unless the first message alone is larger. No group's offset changes."""
    return await _browsed(call, where, partial(call.broker.pull.browse, where.topic, where.queue_id))


@Route(
    LOOKUP,
    "GET /v1/topics/{topic}/lite-topics/{lite_topic}/messages",
    "Browse a lite topic",
    errors=[TopicNotFoundError],
    needs=reads_messages,
)
async def browse_lite_topic(call: ApiCall, where: BrowseLiteTopic) -> Browsed:
    """Reads at most 4 MiB, unless the first message alone is larger. No group's offset changes."""
    read = partial(call.broker.pull.browse_lite_topic, where.topic, where.lite_topic)
    return await _browsed(call, where, read)


@Route(
    LOOKUP, "GET /v1/messages/{message_id}", "Show the history of a message", errors=[MessageNotFoundError]
)
async def life(call: ApiCall, path: MessagePath) -> MessageHistoryOut:
    """Finds a message by its unique key, or by the offset message id of any of its records."""
    load = load_of(call.request)
    async with load.reading(2 * MAX_FOUND_BYTES):
        found = await call.broker.histories.of(path.message_id)
        load.settle(sum(len(one.body) for one in found.records))
    [newest] = await call.broker.message_states.of([found.newest])
    return MessageHistoryOut(
        found.records[0].unique_key,
        found.state,
        newest.consumption,
        [answer_from(EventOut, event) for event in found.life],
        [message_out(call.broker, record) for record in found.records],
        found.omitted,
        found.deliveries,
        found.interventions,
        found.receipts,
        found.faults,
    )


async def _browsed(
    call: ApiCall, where: MessageRange, read: Callable[[int, int, Filter, int], Awaitable[Pulled]]
) -> Browsed:
    await prepare(where.filter_type)
    tag_filter = parse_filter(where.filter, where.filter_type)
    load = load_of(call.request)
    async with load.reading(MAX_RECEIVED_BYTES) as max_bytes:
        status, next_offset, min_offset, max_offset, messages = await read(
            where.offset, where.max, tag_filter, max_bytes
        )
        load.settle(sum(len(one.body) for one in messages))
    return Browsed(
        status, next_offset, min_offset, max_offset, [message_out(call.broker, one) for one in messages]
    )


@Route(LOOKUP, "GET /v1/messages", "Find messages by key", needs=reads_messages)
async def by_key(call: ApiCall, what: ByKey) -> Messages:
    """Finds messages by one of their `keys`. Their bodies take at most 4 MiB, unless the first is larger."""
    load = load_of(call.request)
    async with load.reading(MAX_RECEIVED_BYTES) as max_bytes:
        found = await call.broker.histories.by_key(what.key, given(what.topic), what.max, max_bytes)
        load.settle(sum(len(one.body) for one in found))
    return Messages([message_out(call.broker, record) for record in found])


@Route(
    LOOKUP, "GET /v1/message-states", "List messages with their states, newest first", needs=reads_messages
)
async def message_states(call: ApiCall, which: MessageStatesIn) -> MessageStatesOut:
    """Returns one entry for each message, whatever its number of records.

    A search that takes longer than about a second ends early, with `next_before` for the next request. Bodies
    that a client compressed are not searched.
    """
    wanted = RecordSearch(given(which.topic), given(which.tag), given(which.key), given(which.text))
    before = given(which.before)
    page = await call.broker.message_list.page(
        wanted,
        given(which.state),
        after=which.after,
        before=None if before is None else Cursor(*(min(int(one), LARGEST) for one in before.split("-"))),
        limit=which.max,
    )
    next_before = page.next_before
    return MessageStatesOut(
        [_state_out(one) for one in page.messages],
        None if next_before is None else f"{next_before.log_offset}-{next_before.number}",
    )


def _state_out(one: MessageSummary) -> MessageStateOut:
    return answer_from(
        MessageStateOut,
        one.newest,
        topic=one.topic,
        state=one.state.state,
        consumption=one.state.consumption,
        groups=[at_group(group, status) for group, status in one.state.groups[:_MAX_GROUPS]],
    )
