"""Routes to prepare, list, commit and roll back half messages."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.broker.transactions.half_messages import LONGEST_IMMUNITY_S, HalfMessage
from mocketmq.clock import US_PER_MS
from mocketmq.errors import MessageNotFoundError, TopicNotFoundError, UndecidableError
from mocketmq.http_api.access import reads_messages, sends
from mocketmq.http_api.answer_fields import to_ms
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import GroupName, Input, MessagePath, PageSize, PageStart, TopicName, TopicPath
from mocketmq.http_api.message_out import MessageOut, fields_of
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.http_api.sending import REFUSALS, MessageIn, links_by_id, message_of
from mocketmq.message.properties import CHECK_IMMUNITY


class HalfIn(MessageIn, frozen=True, kw_only=True):
    """A message as for sending, and the producer `group` that commits it or rolls it back.

    The broker first checks back with the producers after `check_after_s` seconds, by default after the
    setting `transaction_timeout`.
    """

    group: GroupName
    check_after_s: (
        Annotated[int, Meta(ge=0, le=LONGEST_IMMUNITY_S, description="Seconds on the broker's clock")]
        | UnsetType
    ) = UNSET


class HalfOut(MessageOut, frozen=True, kw_only=True):
    """A stored half message. A commit sends it to `real_topic`.

    `checks` is the number of check backs with its producers, and `next_check_ms` the time of the next one.
    `producer_group` is null if the half message came over Aliyun's HTTP protocol, whose producers poll for
    half messages instead. `due_ms` is an absolute due time; a delay level counts from the commit.
    """

    producer_group: str | None
    checks: int
    next_check_ms: int


class OpenHalves(Input, frozen=True):
    """Selects a page of half messages: all, or those for a topic."""

    topic: TopicName | UnsetType = UNSET
    after: PageStart = -1
    max: PageSize = 100


class HalfList(msgspec.Struct, frozen=True):
    """A page of half messages, oldest first. `next_after` is the next page's `after`; null at the end.

    A page ends early once its bodies have 4 MiB in total.
    """

    messages: list[HalfOut]
    next_after: int | None


TRANSACTIONS = RouteGroup("transactions", "Half messages: prepare, list, commit, roll back")


@Route(
    TRANSACTIONS,
    "POST /v1/topics/{topic}/transactions",
    "Prepare a half message",
    status=201,
    links=links_by_id("life", "commit", "rollback"),
    errors=REFUSALS,
    operation="send",
    needs=sends,
)
async def prepare(call: ApiCall, path: TopicPath, message: HalfIn) -> HalfOut:
    """Responds once the half message is durable. The broker checks back with the producer group later."""
    half = message_of(call.sender, path.topic, message)
    if message.check_after_s is not UNSET:
        half.properties[CHECK_IMMUNITY] = str(message.check_after_s)
    return _half_out(call, await call.broker.half_messages.prepare_checked(half, message.group))


@Route(
    TRANSACTIONS,
    "GET /v1/transactions",
    "List half messages",
    errors=[TopicNotFoundError],
    needs=reads_messages,
)
async def transactions(call: ApiCall, which: OpenHalves) -> HalfList:
    """Returns the undecided half messages of all protocols."""
    load = load_of(call.request)
    async with load.reading(MAX_RECEIVED_BYTES) as max_bytes:
        found = await call.broker.half_messages.page(
            which.after, which.max, topic_name=given(which.topic), max_bytes=max_bytes
        )
        size = sum(len(half.stored.body) for half in found)
        load.settle(size)
    is_end = len(found) < which.max and size < max_bytes
    last = None if is_end else found[-1].stored.log_offset
    return HalfList([_half_out(call, half) for half in found], last)


@Route(
    TRANSACTIONS,
    "POST /v1/transactions/{message_id}/commit",
    "Commit a half message",
    errors=[MessageNotFoundError, UndecidableError],
    operation="end-transaction",
)
async def commit(call: ApiCall, path: MessagePath) -> HalfOut:
    """The message becomes visible, or waits for its due time. If several have the id, commits the oldest."""
    return _half_out(call, await call.broker.half_messages.decide(path.message_id, commit=True))


@Route(
    TRANSACTIONS,
    "POST /v1/transactions/{message_id}/rollback",
    "Roll a half message back",
    errors=[MessageNotFoundError, UndecidableError],
    operation="end-transaction",
)
async def rollback(call: ApiCall, path: MessagePath) -> HalfOut:
    """No consumer will get the message. If several have the id, rolls back the oldest."""
    return _half_out(call, await call.broker.half_messages.decide(path.message_id, commit=False))


def _half_out(call: ApiCall, half: HalfMessage) -> HalfOut:
    fields = fields_of(call.broker, half.stored) | {"due_ms": to_ms(half.due_us)}
    return HalfOut(
        **fields,
        producer_group=half.producer_group,
        checks=half.receipt.times,
        next_check_ms=half.receipt.visible_us // US_PER_MS,
    )
