"""Requests to receive messages, acknowledge them, give them back, and extend their invisible time."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.broker.consuming.receiver import MAX_MESSAGES, InFlightMessage, Settled
from mocketmq.broker.filters.filter import parse_filter, prepare
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import GroupNotFoundError, NoPermissionError, ReceiptError, TopicNotFoundError
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import (
    INT32,
    FilterExpression,
    FilterType,
    GroupPath,
    Input,
    TopicName,
    WaitMs,
    bound_waits,
)
from mocketmq.http_api.message_out import MessageOut, fields_of
from mocketmq.http_api.route import ApiCall, Route, RouteGroup
from mocketmq.settings import MAX_INVISIBLE_US, Settings

"""Twelve hours, upstream's limit."""

ReceiptHandles = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=255)]], Meta(min_length=1, max_length=1_000)
]


class ReceiveIn(Input, frozen=True):
    """Receive up to `max` messages, waiting up to `wait_ms` for the first.

    Their bodies have at most 4 MiB together, unless the first alone has more. For `invisible_ms`, on the
    broker's clock, the group's other consumers do not get them.
    """

    topic: TopicName
    max: Annotated[int, Meta(ge=1, le=MAX_MESSAGES)] = 1
    wait_ms: WaitMs = 0
    invisible_ms: Annotated[int, Meta(ge=1, le=MAX_INVISIBLE_US // US_PER_MS)] = 30_000
    filter: FilterExpression = "*"
    filter_type: FilterType = "TAG"


class ReceivedMessage(MessageOut, frozen=True, kw_only=True):
    """A received message. `receipt` acknowledges it, until `visible_ms`. A retry has its original `topic`.

    `attempt` is 1, and one more for each time that the group gave the message back. `times` counts how often
    this attempt was received.
    """

    receipt: str
    times: int
    attempt: int
    visible_ms: int


class Received(msgspec.Struct, frozen=True):
    """The received messages; none if none came in time."""

    messages: list[ReceivedMessage]


class AckIn(Input, frozen=True):
    """Receipts of consumed messages."""

    receipts: ReceiptHandles


class GiveBackIn(Input, frozen=True):
    """Receipts of messages to retry at `delay_level`.

    0 takes the next level with each retry; below 0, messages become dead letters at once.
    """

    receipts: ReceiptHandles
    delay_level: Annotated[int, INT32] = 0


class ExtendIn(Input, frozen=True):
    """Receipts of messages to keep invisible for `invisible_ms` from now; 0 makes them visible at once."""

    receipts: ReceiptHandles
    invisible_ms: Annotated[int, Meta(ge=0, le=MAX_INVISIBLE_US // US_PER_MS)]


class FailedReceipt(msgspec.Struct, frozen=True):
    """A receipt that failed, and why."""

    receipt: str
    detail: str


class SettledOut(msgspec.Struct, frozen=True):
    """The receipts that were settled, and those that failed."""

    settled: list[str]
    failed: list[FailedReceipt]


async def receive(call: ApiCall, path: GroupPath, what: ReceiveIn) -> Received:
    """If the client disconnects before the answer is sent, its messages are visible again at once."""
    receipts = call.broker.consuming.receiver
    await prepare(what.filter_type)
    taken = await receipts.receive(
        path.group,
        what.topic,
        max_messages=what.max,
        invisible_us=what.invisible_ms * US_PER_MS,
        wait_s=what.wait_ms * US_PER_MS / US_PER_S,
        tag_filter=parse_filter(what.filter, what.filter_type),
        load=load_of(call.request),
    )
    if taken and call.is_lost:
        await receipts.release(path.group, taken)
    return Received([_received(call, one) for one in taken])


async def acknowledge(call: ApiCall, path: GroupPath, what: AckIn) -> SettledOut:
    """Each receipt succeeds or fails by itself. If all fail, so does the request."""
    return _settled(await call.broker.consuming.receiver.acknowledge(path.group, what.receipts))


async def give_back(call: ApiCall, path: GroupPath, what: GiveBackIn) -> SettledOut:
    """Each receipt succeeds or fails by itself. If all fail, so does the request."""
    return _settled(
        await call.broker.consuming.receiver.give_back(path.group, what.receipts, what.delay_level)
    )


async def extend(call: ApiCall, path: GroupPath, what: ExtendIn) -> SettledOut:
    """Each receipt succeeds or fails by itself. If all fail, so does the request."""
    invisible_us = what.invisible_ms * US_PER_MS
    return _settled(await call.broker.consuming.receiver.extend(path.group, what.receipts, invisible_us))


def _received(call: ApiCall, taken: InFlightMessage) -> ReceivedMessage:
    fields = fields_of(call.broker, taken.message)
    fields["topic"] = taken.topic
    return ReceivedMessage(
        **fields,
        receipt=taken.handle,
        times=taken.times,
        attempt=taken.message.reconsume_times + 1,
        visible_ms=taken.visible_us // US_PER_MS,
    )


def _settled(settled: Settled) -> SettledOut:
    if not settled.done:
        raise ReceiptError(_none_of(settled.failed))
    return SettledOut(settled.done, [FailedReceipt(handle, str(error)) for handle, error in settled.failed])


def _none_of(failed: Sequence[tuple[str, ReceiptError]]) -> str:
    first = str(failed[0][1])
    return first if len(failed) == 1 else f"none of the {len(failed)} receipts is valid; the first: {first}"


def consuming(settings: Settings) -> RouteGroup:
    """The routes, with waits limited by the settings."""
    path = "/v1/groups/{group}/"
    errors = [NoPermissionError, GroupNotFoundError, ReceiptError]
    return RouteGroup(
        "consuming",
        "Receive messages for a consumer group, and settle them by receipt",
        [
            Route(
                "POST",
                path + "receive",
                receive,
                "Receive messages",
                Received,
                GroupPath,
                bound_waits(ReceiveIn, settings.max_wait_us),
                links={
                    name: {
                        "parameters": {"group": "$request.path.group"},
                        "requestBody": {"receipts": ["$response.body#/messages/0/receipt"], **more},
                    }
                    for name, more in (
                        ("acknowledge", {}),
                        ("give_back", {}),
                        ("extend", {"invisible_ms": 0}),
                    )
                },
                errors=[NoPermissionError, TopicNotFoundError, GroupNotFoundError],
                operation="receive",
            ),
            Route(
                "POST",
                path + "ack",
                acknowledge,
                "Acknowledge messages",
                SettledOut,
                GroupPath,
                AckIn,
                errors=errors,
                operation="ack",
            ),
            Route(
                "POST",
                path + "give-back",
                give_back,
                "Give messages back for a retry",
                SettledOut,
                GroupPath,
                GiveBackIn,
                errors=errors,
                operation="give-back",
            ),
            Route(
                "POST",
                path + "extend",
                extend,
                "Change the invisible time of messages",
                SettledOut,
                GroupPath,
                ExtendIn,
                errors=errors,
                operation="extend",
            ),
        ],
    )
