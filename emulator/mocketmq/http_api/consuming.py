"""Routes for consumers: receive, acknowledge, give back, extend the invisible time."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq import invisible_time
from mocketmq.broker.consuming.receiver import MAX_MESSAGES, InFlightMessage
from mocketmq.broker.consuming.settler import Settled
from mocketmq.broker.filters.filter import parse_filter, prepare
from mocketmq.clock import US_PER_MS
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    NoPermissionError,
    ReceiptError,
    TopicNotFoundError,
)
from mocketmq.http_api.access import consumes
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import (
    INT32,
    Duration,
    FilterExpression,
    FilterType,
    GroupPath,
    Input,
    TopicName,
    WaitMs,
    duration_us,
    wait_s,
)
from mocketmq.http_api.message_out import MessageOut, fields_of
from mocketmq.http_api.route import ApiCall, Route, RouteGroup

_JSON_DEFAULT_MS: Final = invisible_time.JSON_DEFAULT_US // US_PER_MS
_LONGEST_MS: Final = invisible_time.LONGEST_US // US_PER_MS

ReceiptHandles = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=255)]], Meta(min_length=1, max_length=1_000)
]


class ReceiveIn(Input, frozen=True):
    """Receive up to `max` messages, waiting up to `wait` for the first.

    Their bodies take at most 4 MiB in total, unless the first alone is larger. The messages are invisible to
    the group's other consumers for `invisible` on the broker's clock. `wait_ms` and `invisible_ms` are the
    same in milliseconds; the durations take precedence.
    """

    topic: TopicName
    max: Annotated[int, Meta(ge=1, le=MAX_MESSAGES)] = 1
    wait: Duration | UnsetType = UNSET
    wait_ms: WaitMs = 0
    invisible: Duration | UnsetType = UNSET
    invisible_ms: Annotated[int, Meta(ge=1, le=_LONGEST_MS)] = _JSON_DEFAULT_MS
    filter: FilterExpression = "*"
    filter_type: FilterType = "TAG"


class ReceivedMessage(MessageOut, frozen=True, kw_only=True):
    """A received message. `receipt` is valid until `visible_ms`. A retry has its original `topic`.

    `attempt` is 1 plus the number of times that the group gave the message back. `times` is how often
    consumers received this attempt.
    """

    receipt: str
    times: int
    attempt: int
    visible_ms: int


class Received(msgspec.Struct, frozen=True):
    """The received messages; empty if none arrived in time."""

    messages: list[ReceivedMessage]


class AckIn(Input, frozen=True):
    """Receipts of consumed messages."""

    receipts: ReceiptHandles


class GiveBackIn(Input, frozen=True):
    """Receipts of messages to retry at `delay_level`.

    With 0, the level rises by one with each retry. A level below 0 makes the messages dead letters at once.
    """

    receipts: ReceiptHandles
    delay_level: Annotated[int, INT32] = 0


class ExtendIn(Input, frozen=True):
    """Receipts of messages to keep invisible from now on, for `invisible` or for `invisible_ms`.

    With 0, the messages become visible at once.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        "oneOf": [{"required": ["invisible"]}, {"required": ["invisible_ms"]}]
    }

    receipts: ReceiptHandles
    invisible: Duration | UnsetType = UNSET
    invisible_ms: Annotated[int, Meta(ge=0, le=_LONGEST_MS)] | UnsetType = UNSET


class FailedReceipt(msgspec.Struct, frozen=True):
    """A receipt that failed, and the reason."""

    receipt: str
    detail: str


class SettledOut(msgspec.Struct, frozen=True):
    """The receipts that were settled, and those that failed."""

    settled: list[str]
    failed: list[FailedReceipt]


_ERRORS: Final = (NoPermissionError, GroupNotFoundError, ReceiptError)
CONSUMING = RouteGroup("consuming", "Receive messages for a consumer group, and settle them by receipt")


@Route(
    CONSUMING,
    "POST /v1/groups/{group}/receive",
    "Receive messages",
    is_waiting=True,
    links={
        name: {
            "parameters": {"group": "$request.path.group"},
            "description": "`receipts` takes the `receipt` of each of the `messages`",
        }
        for name in ("acknowledge", "give_back", "extend")
    },
    errors=[NoPermissionError, TopicNotFoundError, GroupNotFoundError],
    operation="receive",
    needs=consumes,
)
async def receive(call: ApiCall, path: GroupPath, what: ReceiveIn) -> Received:
    """If the client disconnects before the response is sent, the messages become visible again at once."""
    receiver = call.broker.receiver
    await prepare(what.filter_type)
    taken = await receiver.receive(
        path.group,
        what.topic,
        max_messages=what.max,
        invisible_us=duration_us(
            what.invisible, what.invisible_ms, "invisible", (US_PER_MS, invisible_time.LONGEST_US)
        ),
        wait_s=wait_s(what.wait, what.wait_ms, call.api.settings.max_wait_us),
        tag_filter=parse_filter(what.filter, what.filter_type),
        load=load_of(call.request),
    )
    if taken and call.is_lost:
        await receiver.release(path.group, taken)
    return Received([_received(call, one) for one in taken])


@Route(
    CONSUMING,
    "POST /v1/groups/{group}/ack",
    "Acknowledge messages",
    errors=_ERRORS,
    operation="ack",
    needs=consumes,
)
async def acknowledge(call: ApiCall, path: GroupPath, what: AckIn) -> SettledOut:
    """Each receipt succeeds or fails independently. If all fail, so does the request."""
    return _settled(await call.broker.settler.acknowledge(path.group, what.receipts))


@Route(
    CONSUMING,
    "POST /v1/groups/{group}/give-back",
    "Give messages back for a retry",
    errors=_ERRORS,
    operation="give-back",
    needs=consumes,
)
async def give_back(call: ApiCall, path: GroupPath, what: GiveBackIn) -> SettledOut:
    """Each receipt succeeds or fails independently. If all fail, so does the request."""
    return _settled(await call.broker.settler.give_back(path.group, what.receipts, what.delay_level))


@Route(
    CONSUMING,
    "POST /v1/groups/{group}/extend",
    "Change the invisible time of messages",
    errors=_ERRORS,
    operation="extend",
    needs=consumes,
)
async def extend(call: ApiCall, path: GroupPath, what: ExtendIn) -> SettledOut:
    """Each receipt succeeds or fails independently. If all fail, so does the request."""
    if (what.invisible is UNSET) == (what.invisible_ms is UNSET):
        both = "missing" if what.invisible is UNSET else "given twice"
        raise InvalidArgumentError("invisible", both, "one of invisible and invisible_ms")
    invisible_us = duration_us(
        what.invisible, what.invisible_ms or 0, "invisible", (0, invisible_time.LONGEST_US)
    )
    return _settled(await call.broker.settler.extend(path.group, what.receipts, invisible_us))


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
