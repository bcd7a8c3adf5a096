"""Routes for delayed messages: list them and the delay levels, cancel a message, deliver it now."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.access.needs import Action
from mocketmq.broker.consuming.selection import MAX_RECEIVED_BYTES
from mocketmq.broker.inspection.pending import PendingMessage
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import MessageNotFoundError, NotPendingError, TopicNotFoundError
from mocketmq.http_api.access import on_topic, reads_messages
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import Input, MessagePath, NoInput, PageSize, PageStart, TopicName
from mocketmq.http_api.message_out import MessageOut, fields_of
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.schedule.held_deliveries import HeldBy
from mocketmq.schedule.scheme import PendingFilter


class HeldByOut(msgspec.Struct, frozen=True):
    """Messages held past their due time. `fault` is the rule, or another cause, such as `broker-b down`."""

    fault: str
    count: int
    oldest_due_ms: int


class LevelOut(msgspec.Struct, frozen=True):
    """A delay level.

    `delay_offset` is the offset of the next message to deliver in the level's queue, and `max_offset` the end
    of the queue. `held` lists the messages that are held past their due time, which `pending` does not count.
    """

    level: int
    delay: str
    delay_ms: int
    pending: int
    delay_offset: int
    max_offset: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    held: list[HeldByOut]


class TimedOut(msgspec.Struct, frozen=True):
    """The messages with an absolute due time, and the files of the delay `scheme` that stores them.

    `parts` is the number of directories or files in the scheme's folder, such as one for each second or day.
    `quarantined` is the number of damaged files in the quarantine. `unremoved` is the number of files that
    could not be removed after their messages were delivered or cancelled. `held` has the same meaning as in a
    level.
    """

    scheme: str
    pending: int
    parts: int
    disk_bytes: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    quarantined: int
    unremoved: int
    held: list[HeldByOut]


class LevelsOut(msgspec.Struct, frozen=True):
    """The delay levels, and the messages with an absolute due time."""

    levels: list[LevelOut]
    timed: TimedOut


class WhichPending(Input, frozen=True):
    """Selects pending messages: all, or those of a topic, of a level, or with an absolute due time."""

    topic: TopicName | UnsetType = UNSET
    level: Annotated[int, Meta(ge=1, le=1024, description="Delay level")] | UnsetType = UNSET
    timed: Annotated[bool, Meta(description="Only messages with an absolute due time")] = False


class PendingPage(WhichPending, frozen=True):
    """A page of pending messages: all, or those of a topic or a level."""

    after: PageStart = -1
    max: PageSize = 100


class DelayedOut(MessageOut, frozen=True, kw_only=True):
    """A parked message. `level` is null if the message has an absolute due time.

    `fault` names the fault rule, or other cause, that holds the message past its due time.
    """

    level: int | None
    fault: str | None


class DelayedList(msgspec.Struct, frozen=True):
    """A page of pending messages, oldest first. `next_after` is the next page's `after`; null at the end.

    A page ends early once its bodies have 4 MiB in total.
    """

    messages: list[DelayedOut]
    next_after: int | None


class FirstDue(Input, frozen=True):
    """The number of messages to list."""

    max: PageSize = 100


class FirstDueList(msgspec.Struct, frozen=True):
    """Messages with an absolute due time, ordered by due time. Large bodies end the list early."""

    messages: list[DelayedOut]


class CancelledOut(msgspec.Struct, frozen=True):
    """The number of cancelled messages."""

    cancelled: int


class DeliveredOut(msgspec.Struct, frozen=True):
    """The number of delivered messages."""

    delivered: int


DELAYED = RouteGroup("delayed", "Delayed messages and the delay levels")


@Route(DELAYED, "GET /v1/levels", "Show the delay levels")
async def levels(call: ApiCall, _: NoInput) -> LevelsOut:
    """Returns the figures of all delay levels, and of the messages with an absolute due time."""
    held = await call.broker.held.overdue()
    timed, files = call.broker.schemes.timed_figures(), call.broker.schemes.file_figures()
    return LevelsOut(
        [
            answer_from(
                LevelOut,
                state,
                delay=format_duration(state.delay_us),
                held=held_out(held.get(state.level, [])),
            )
            for state in call.broker.levels.states()
        ],
        answer_from(
            TimedOut,
            timed,
            scheme=call.broker.schemes.timed().name,
            parts=files.parts,
            disk_bytes=files.disk_bytes,
            quarantined=files.quarantined,
            unremoved=files.unremoved,
            held=held_out(held.get(0, [])),
        ),
    )


@Route(DELAYED, "GET /v1/delayed", "List pending messages", errors=[TopicNotFoundError], needs=reads_messages)
async def pending(call: ApiCall, which: PendingPage) -> DelayedList:
    """Returns the messages that are not due yet, in order of arrival."""
    load = load_of(call.request)
    async with load.reading(MAX_RECEIVED_BYTES) as max_bytes:
        found = await call.broker.pending.list(
            topic=given(which.topic),
            level=given(which.level),
            timed=which.timed,
            after=which.after,
            limit=which.max,
            max_bytes=max_bytes,
        )
        size = sum(len(one.message.body) for one in found)
        load.settle(size)
    is_end = len(found) < which.max and size < max_bytes
    last = None if is_end else found[-1].message.log_offset
    return DelayedList([_delayed(call, one) for one in found], last)


@Route(DELAYED, "GET /v1/timed", "List messages with an absolute due time, by due time")
async def first_due(call: ApiCall, which: FirstDue) -> FirstDueList:
    """Returns the messages with an absolute due time that are due first."""
    found = await call.broker.pending.first_due(which.max)
    return FirstDueList([_delayed(call, one) for one in found])


@Route(
    DELAYED,
    "DELETE /v1/delayed",
    "Cancel all pending messages, or those of a topic or level",
    errors=[TopicNotFoundError],
    needs=on_topic(Action.UPDATE),
)
async def cancel_all(call: ApiCall, which: WhichPending) -> CancelledOut:
    """Cancels the selected messages that are pending now. Messages that arrive meanwhile may remain."""
    found = await call.broker.pending.cancel_all(_filter(which))
    return CancelledOut(found)


@Route(
    DELAYED,
    "POST /v1/deliveries",
    "Deliver all pending messages now, or those of a topic or level",
    is_body_optional=True,
    errors=[TopicNotFoundError],
    needs=on_topic(Action.UPDATE),
)
async def deliver_all(call: ApiCall, _: NoInput, which: WhichPending) -> DeliveredOut:
    """Delivers the selected messages that are pending now. The ledger marks the deliveries as forced.

    Messages that arrive during the request may remain pending.
    """
    found = await call.broker.pending.deliver_all(_filter(which))
    return DeliveredOut(found)


@Route(
    DELAYED,
    "DELETE /v1/delayed/{message_id}",
    "Cancel a pending message",
    errors=[MessageNotFoundError, NotPendingError],
)
async def cancel(call: ApiCall, path: MessagePath) -> DelayedOut:
    """The message will never be delivered."""
    return _delayed(call, await call.broker.pending.cancel(path.message_id))


@Route(
    DELAYED,
    "POST /v1/delayed/{message_id}/deliver",
    "Deliver a pending message now",
    errors=[MessageNotFoundError, NotPendingError],
)
async def deliver(call: ApiCall, path: MessagePath) -> DelayedOut:
    """Delivers the message before its due time. The ledger marks the delivery as forced."""
    return _delayed(call, await call.broker.pending.deliver_now(path.message_id))


def _filter(which: WhichPending) -> PendingFilter:
    return PendingFilter(given(which.topic), None if which.timed else given(which.level), which.timed)


def held_out(held: Iterable[HeldBy]) -> list[HeldByOut]:
    """Convert the held messages for a response."""
    return [HeldByOut(one.fault, one.messages, one.oldest_us // US_PER_MS) for one in held]


def _delayed(call: ApiCall, found: PendingMessage) -> DelayedOut:
    return DelayedOut(**fields_of(call.broker, found.message), level=found.level, fault=found.fault)
