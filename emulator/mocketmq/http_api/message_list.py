"""The route for the list of messages with their states, newest first."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.life import Consumption, MessageState
from mocketmq.broker.watching.message_list import Cursor, MessageSummary
from mocketmq.broker.watching.stored_records import RecordSearch
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.fields import LARGEST, Input, TopicName
from mocketmq.http_api.message_out import AtGroup, to_ms
from mocketmq.http_api.route import ApiCall, given

_MAX_GROUPS = 20


class MessageStateOut(msgspec.Struct, frozen=True):
    """A summary of a message, from its newest record. `topic` is the topic to which it was sent.

    `consumption` is `never taken`, `in flight`, `to be redelivered`, `to be retried` or `acknowledged`, or
    null while consumers cannot see the message. `groups` has its state in up to 20 consumer groups, and
    `group` is the one that gave the message back. `store_ms` is the time at which the newest record was
    stored; `lateness_us` is the lateness of the delivery after a delay. `preview` is the beginning of the
    body.
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
    """Criteria for messages; a message must meet all. `text` is in body, properties or unique key."""

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

    A page that takes long ends early, and may even be empty.
    """

    messages: list[MessageStateOut]
    next_before: str | None


async def message_states(call: ApiCall, which: MessageStatesIn) -> MessageStatesOut:
    """One row for each message, whatever number of records it has.

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
    newest = one.newest
    return MessageStateOut(
        newest.message_id,
        one.topic,
        newest.lite_topic,
        one.state.state,
        one.state.consumption,
        newest.group,
        [
            AtGroup(group, status.state.value, status.times, to_ms(status.until_us))
            for group, status in one.state.groups[:_MAX_GROUPS]
        ],
        newest.tag,
        newest.keys,
        newest.store_us // US_PER_MS,
        to_ms(newest.due_us),
        newest.level,
        newest.lateness_us,
        newest.size,
        newest.preview,
    )
