"""Delayed messages: list them and the delay levels; cancel a message, or deliver it now."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.inspection.pending import PendingMessage
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import MessageNotFoundError, NotPendingError, TopicNotFoundError
from mocketmq.http_api.fields import Input, MessagePath, NoInput, PageSize, PageStart, TopicName
from mocketmq.http_api.message_out import MessageOut, fields_of, to_ms
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given


class LevelOut(msgspec.Struct, frozen=True):
    """A delay level. In its queue, all before `delay_offset` is delivered; `max_offset` is its end."""

    level: int
    delay: str
    delay_ms: int
    pending: int
    delay_offset: int
    max_offset: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None


class TimedOut(msgspec.Struct, frozen=True):
    """The messages with an absolute due time, and what their `scheme` keeps on the disk.

    `parts` are what the scheme's folder consists of: directories of a second, files of ten minutes or days.
    `quarantined` counts damaged files that were put aside, `unremoved` files of delivered or cancelled
    messages that could not be removed.
    """

    scheme: str
    pending: int
    parts: int
    disk_bytes: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    quarantined: int
    unremoved: int


class LevelsOut(msgspec.Struct, frozen=True):
    """The delay levels, and the messages with an absolute due time."""

    levels: list[LevelOut]
    timed: TimedOut


class WhichPending(Input, frozen=True):
    """Pending messages: all, or those of a topic or a level."""

    topic: TopicName | UnsetType = UNSET
    level: Annotated[int, Meta(ge=1, le=1024, description="Delay level")] | UnsetType = UNSET
    timed: Annotated[bool, Meta(description="Only those with an absolute due time")] = False


class Pending(WhichPending, frozen=True):
    """A page of pending messages: all, or those of a topic or a level."""

    after: PageStart = -1
    max: PageSize = 100


class DelayedOut(MessageOut, frozen=True, kw_only=True):
    """A parked message. `level` is null if it has an absolute due time."""

    level: int | None


class DelayedList(msgspec.Struct, frozen=True):
    """A page of pending messages, oldest first. `next_after` is the `after` of the next page, if any."""

    messages: list[DelayedOut]
    next_after: int | None


class CancelledOut(msgspec.Struct, frozen=True):
    """How many messages were cancelled."""

    cancelled: int


class DeliveredOut(msgspec.Struct, frozen=True):
    """How many messages were delivered."""

    delivered: int


async def levels(call: ApiCall, _: NoInput) -> LevelsOut:
    """Every level, and how many messages wait."""
    timed, files = call.broker.schemes.timed_figures(), call.broker.schemes.file_figures()
    return LevelsOut(
        [
            LevelOut(
                state.level,
                format_duration(state.delay_us),
                state.delay_us // US_PER_MS,
                state.pending,
                state.delay_offset,
                state.max_offset,
                to_ms(state.next_due_us),
                to_ms(state.oldest_overdue_us),
            )
            for state in call.broker.levels.states()
        ],
        TimedOut(
            call.broker.schemes.timed().name,
            timed.pending,
            files.parts,
            files.disk_bytes,
            to_ms(timed.next_due_us),
            to_ms(timed.oldest_overdue_us),
            files.quarantined,
            files.unremoved,
        ),
    )


async def pending(call: ApiCall, which: Pending) -> DelayedList:
    """Messages that wait for their due time, in order of arrival."""
    found = await call.broker.pending.list(
        topic=given(which.topic),
        level=given(which.level),
        timed=which.timed,
        after=which.after,
        limit=which.max,
    )
    last = found[-1].message.log_offset if len(found) == which.max else None
    return DelayedList([_delayed(call, one) for one in found], last)


async def cancel(call: ApiCall, path: MessagePath) -> DelayedOut:
    """The message will never be delivered."""
    return _delayed(call, await call.broker.pending.cancel(path.message_id))


async def deliver(call: ApiCall, path: MessagePath) -> DelayedOut:
    """The ledger marks the delivery as forced."""
    return _delayed(call, await call.broker.pending.deliver_now(path.message_id))


async def cancel_all(call: ApiCall, which: WhichPending) -> CancelledOut:
    """None of what waits now will be delivered. What arrives meanwhile may stay."""
    found = await call.broker.pending.cancel_all(given(which.topic), given(which.level), which.timed)
    return CancelledOut(found)


async def deliver_all(call: ApiCall, _: NoInput, which: WhichPending) -> DeliveredOut:
    """Delivers what waits now; the ledger marks the deliveries as forced. What arrives meanwhile may stay."""
    found = await call.broker.pending.deliver_all(given(which.topic), given(which.level), which.timed)
    return DeliveredOut(found)


def _delayed(call: ApiCall, found: PendingMessage) -> DelayedOut:
    return DelayedOut(**fields_of(call.broker, found.message), level=found.level)


DELAYED = RouteGroup(
    "delayed",
    "Delayed messages and the delay levels",
    [
        Route("GET", "/v1/levels", levels, "Show the delay levels", LevelsOut),
        Route(
            "GET",
            "/v1/delayed",
            pending,
            "List pending messages",
            DelayedList,
            Pending,
            errors=[TopicNotFoundError],
        ),
        Route(
            "DELETE",
            "/v1/delayed",
            cancel_all,
            "Cancel all pending messages, or those of a topic or level",
            CancelledOut,
            WhichPending,
            errors=[TopicNotFoundError],
        ),
        Route(
            "POST",
            "/v1/deliveries",
            deliver_all,
            "Deliver all pending messages now, or those of a topic or level",
            DeliveredOut,
            body=WhichPending,
            is_body_optional=True,
            errors=[TopicNotFoundError],
        ),
        Route(
            "DELETE",
            "/v1/delayed/{message_id}",
            cancel,
            "Cancel a pending message",
            DelayedOut,
            MessagePath,
            errors=[MessageNotFoundError, NotPendingError],
        ),
        Route(
            "POST",
            "/v1/delayed/{message_id}/deliver",
            deliver,
            "Deliver a pending message now",
            DelayedOut,
            MessagePath,
            errors=[MessageNotFoundError, NotPendingError],
        ),
    ],
)
