"""Transactions: half messages, which nobody consumes before somebody has decided about them."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.transactions.half_messages import LONGEST_IMMUNITY_S, Half
from mocketmq.clock import US_PER_MS
from mocketmq.errors import MessageNotFoundError, TopicNotFoundError, UndecidableError
from mocketmq.http_api.fields import LARGEST, GroupName, Input, MessagePath, TopicName, TopicPath
from mocketmq.http_api.record import MessageOut, fields_of, to_ms
from mocketmq.http_api.route import Call, Family, Route, given
from mocketmq.http_api.sending import REFUSALS, MessageIn, links_by_id, message_of
from mocketmq.message.properties import CHECK_IMMUNITY


class HalfIn(MessageIn, frozen=True, kw_only=True):
    """A message as for sending, and the `group` whose producers are asked what is to become of it.

    They are first asked after the setting `transaction_timeout`, or after `check_after_s` seconds.
    """

    group: GroupName
    check_after_s: (
        Annotated[int, Meta(ge=0, le=LONGEST_IMMUNITY_S, description="Seconds of emulated time")] | UnsetType
    ) = UNSET


class HalfOut(MessageOut, frozen=True, kw_only=True):
    """A half message: the record that is kept of it, and in `real_topic` where a commit lets it go.

    `producer_group` is null for one of Aliyun's HTTP protocol, which producers take themselves. `checks` says
    how often they were asked, or took it; `next_check_ms` when they are asked next, or can take it. `due_ms`
    is an absolute due time; a delay level counts from the commit.
    """

    producer_group: str | None
    checks: int
    next_check_ms: int


class OpenHalves(Input, frozen=True):
    """Which half messages: all, or those for a topic. `after` is a `next_after`."""

    topic: TopicName | UnsetType = UNSET
    after: Annotated[int, Meta(ge=-1, le=LARGEST)] = -1
    max: Annotated[int, Meta(ge=1, le=1000)] = 100


class HalfList(msgspec.Struct, frozen=True):
    """Half messages that wait for a decision, oldest first. `next_after` is null at the end."""

    messages: list[HalfOut]
    next_after: int | None


async def prepare(call: Call, path: TopicPath, message: HalfIn) -> HalfOut:
    """Answers when the half message is durable. A client of the group is asked about it, if one is there."""
    half = message_of(path.topic, message, call.client)
    if message.check_after_s is not UNSET:
        half.properties[CHECK_IMMUNITY] = str(message.check_after_s)
    return _half_out(call, await call.broker.transactions.prepare_checked(half, message.group))


async def transactions(call: Call, which: OpenHalves) -> HalfList:
    """Of all doors."""
    found = await call.broker.transactions.page(which.after, which.max, topic_name=given(which.topic))
    last = found[-1].stored.commit_offset if len(found) == which.max else None
    return HalfList([_half_out(call, half) for half in found], last)


async def commit(call: Call, path: MessagePath) -> HalfOut:
    """The message becomes visible, or is delayed, as it was sent. Of several with one id, the oldest."""
    return _half_out(call, await call.broker.transactions.decide(path.message_id, commit=True))


async def rollback(call: Call, path: MessagePath) -> HalfOut:
    """The message is never seen. Of several with one id, the oldest."""
    return _half_out(call, await call.broker.transactions.decide(path.message_id, commit=False))


def _half_out(call: Call, half: Half) -> HalfOut:
    fields = fields_of(call.broker, half.stored) | {"due_ms": to_ms(half.due_us)}
    return HalfOut(
        **fields,
        producer_group=half.producer_group,
        checks=half.take.times,
        next_check_ms=half.take.visible_us // US_PER_MS,
    )


TRANSACTIONS = Family(
    "transactions",
    "Half messages, and the decisions about them",
    [
        Route(
            "POST",
            "/v1/topics/{topic}/transactions",
            prepare,
            "Prepare a half message",
            HalfOut,
            TopicPath,
            HalfIn,
            status=201,
            links=links_by_id("life", "commit", "rollback"),
            errors=REFUSALS,
        ),
        Route(
            "GET",
            "/v1/transactions",
            transactions,
            "List half messages",
            HalfList,
            OpenHalves,
            errors=[TopicNotFoundError],
        ),
        Route(
            "POST",
            "/v1/transactions/{message_id}/commit",
            commit,
            "Commit a half message",
            HalfOut,
            MessagePath,
            errors=[MessageNotFoundError, UndecidableError],
        ),
        Route(
            "POST",
            "/v1/transactions/{message_id}/rollback",
            rollback,
            "Roll a half message back",
            HalfOut,
            MessagePath,
            errors=[MessageNotFoundError, UndecidableError],
        ),
    ],
)
