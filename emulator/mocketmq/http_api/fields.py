"""Types of fields that several requests share, with their limits.

Each limit is declared once, here: requests are checked against it, and the OpenAPI document shows it.
"""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.message.names import GROUP_NAMES, TOPIC_NAMES

LARGEST: Final = (1 << 63) - 1
INT32: Final = Meta(ge=-(1 << 31), le=(1 << 31) - 1)


def matching(pattern: str, rule: str) -> Meta:
    """Text that matches the pattern; ``rule`` says the same to people."""
    return Meta(pattern=pattern, description=rule)


TopicName = Annotated[
    str,
    matching(
        "^(?:%(?:RETRY|DLQ)%[%|a-zA-Z0-9_-]{0,255}|[%|a-zA-Z0-9_-]{1,127})$",
        TOPIC_NAMES,
    ),
]
GroupName = Annotated[str, matching("^[%|a-zA-Z0-9_-]{1,255}$", GROUP_NAMES)]
FilterExpression = Annotated[
    str,
    Meta(max_length=4096),
    matching(
        "^[ *]*$|[^| ]",
        "* for everything, or up to 100 tags joined by ||, such as A || B; with filter_type SQL92 a condition"
        " on properties, such as price > 10 AND region IN ('x', 'y')",
    ),
]
FilterType = Annotated[Literal["TAG", "SQL92"], Meta(description="The language of the filter")]
MessageId = Annotated[
    str,
    Meta(
        min_length=1, max_length=255, description="Id of a message: its unique key, or its offset message id"
    ),
]
QueueId = Annotated[int, Meta(ge=0, le=1023, description="Number of the queue in its topic")]
Offset = Annotated[int, Meta(ge=0, le=LARGEST, description="Offset of the first message to read")]
InstantMs = Annotated[
    int,
    Meta(ge=0, le=LATEST_US // US_PER_MS, description="Milliseconds since the epoch, on the broker's clock"),
]
PageStart = Annotated[int, Meta(ge=-1, le=LARGEST, description="The `next_after` of the page before")]
PageSize = Annotated[int, Meta(ge=1, le=1000, description="Most entries of a page")]
WaitMs = Annotated[int, Meta(ge=0, description="Longest wait in milliseconds of real time")]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of parameters and bodies that a client sends."""


class NoInput(Input, frozen=True):
    """Takes no fields."""


class TopicPath(Input, frozen=True):
    """A topic."""

    topic: TopicName


class GroupPath(Input, frozen=True):
    """A consumer group."""

    group: GroupName


class MessagePath(Input, frozen=True):
    """A message."""

    message_id: MessageId


AnInput = TypeVar("AnInput", bound=type[Input])


def bound_waits(kind: AnInput, max_wait_us: int) -> AnInput:
    """The request type with its waits limited to the setting ``max_wait``."""
    limit = max_wait_us // US_PER_MS
    waits = [
        (field.name, Annotated[WaitMs, Meta(le=limit)], min(field.default, limit))
        for field in msgspec.structs.fields(kind)
        if field.type == WaitMs
    ]
    if not waits:
        return kind
    return msgspec.defstruct(  # type: ignore[return-value]
        kind.__name__,
        waits,
        bases=(kind,),
        namespace={"__doc__": kind.__doc__},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
