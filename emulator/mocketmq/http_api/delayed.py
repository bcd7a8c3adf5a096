"""The delay levels as a table, and the messages that wait in them."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.looking.pending import PendingMessage
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import MessageNotFoundError, NotPendingError, TopicNotFoundError
from mocketmq.http_api.fields import LARGEST, Input, MessagePath, NoInput, TopicName
from mocketmq.http_api.record import MessageOut, fields_of, to_ms
from mocketmq.http_api.route import Call, Family, Route, given


class LevelOut(msgspec.Struct, frozen=True):
    """One delay level. Offsets are those of its level queue; instants in emulated milliseconds."""

    level: int
    delay: str
    delay_ms: int
    pending: int
    delay_offset: int
    max_offset: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None


class SecondDirectoriesOut(msgspec.Struct, frozen=True):
    """The files of messages with an absolute due time. Instants in emulated milliseconds.

    `quarantined` files were put aside as damaged; `unremoved` ones are of messages that are done with, but
    the disk does not let go of them.
    """

    pending: int
    directories: int
    disk_bytes: int
    next_due_ms: int | None
    oldest_overdue_ms: int | None
    quarantined: int
    unremoved: int


class LevelsOut(msgspec.Struct, frozen=True):
    """The level table, and beside it what waits in second directories."""

    levels: list[LevelOut]
    second_directories: SecondDirectoriesOut


class Pending(Input, frozen=True):
    """Which pending messages: all, or those of a topic or a level. `after` is a `next_after`."""

    topic: TopicName | UnsetType = UNSET
    level: Annotated[int, Meta(ge=1, le=1024)] | UnsetType = UNSET
    after: Annotated[int, Meta(ge=-1, le=LARGEST)] = -1
    max: Annotated[int, Meta(ge=1, le=1000)] = 100


class DelayedOut(MessageOut, frozen=True, kw_only=True):
    """A parked message and its level, which is null in second directories."""

    level: int | None


class DelayedList(msgspec.Struct, frozen=True):
    """Pending messages, oldest first. `next_after` is null at the end."""

    messages: list[DelayedOut]
    next_after: int | None


async def levels(call: Call, _: NoInput) -> LevelsOut:
    """All levels, also those without messages."""
    files = call.broker.pending.timed()
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
            for state in call.broker.pending.levels()
        ],
        SecondDirectoriesOut(
            files.pending,
            files.directories,
            files.disk_bytes,
            to_ms(files.next_due_us),
            to_ms(files.oldest_overdue_us),
            files.quarantined,
            files.unremoved,
        ),
    )


async def pending(call: Call, which: Pending) -> DelayedList:
    """A page of what waits."""
    found = await call.broker.pending.list(
        topic=given(which.topic), level=given(which.level), after=which.after, limit=which.max
    )
    last = found[-1].message.commit_offset if len(found) == which.max else None
    return DelayedList([_delayed(call, one) for one in found], last)


async def cancel(call: Call, path: MessagePath) -> DelayedOut:
    """The message is never delivered."""
    return _delayed(call, await call.broker.pending.cancel(path.message_id))


async def deliver(call: Call, path: MessagePath) -> DelayedOut:
    """The message does not wait any longer."""
    return _delayed(call, await call.broker.pending.deliver_now(path.message_id))


def _delayed(call: Call, found: PendingMessage) -> DelayedOut:
    return DelayedOut(**fields_of(call.broker, found.message), level=found.level)


DELAYED = Family(
    "delayed",
    "The delay levels, and what waits in them",
    [
        Route("GET", "/v1/levels", levels, "The table of delay levels", LevelsOut),
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
