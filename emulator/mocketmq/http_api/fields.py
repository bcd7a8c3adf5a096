"""Types of fields that several requests share, with their limits.

A limit stands here once: it is checked when a request is decoded, and shown by the OpenAPI document.
"""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.message.names import GROUP_NAMES, TOPIC_NAMES

LARGEST: Final = (1 << 63) - 1
INT32: Final = Meta(ge=-(1 << 31), le=(1 << 31) - 1)


def matching(pattern: str, rule: str) -> Meta:
    """Text that matches the pattern; ``rule`` is what people are told."""
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
        "* for everything, or up to 100 tags parted by ||, such as A || B; with filter_type SQL92 a condition"
        " on properties, such as price > 10 AND region IN ('x', 'y')",
    ),
]
FilterType = Annotated[Literal["TAG", "SQL92"], Meta(description="The language in which the filter is")]
MessageId = Annotated[
    str, Meta(min_length=1, max_length=255, description="Unique key or offset message id of a message")
]
QueueId = Annotated[int, Meta(ge=0, le=1023)]
Offset = Annotated[int, Meta(ge=0, le=LARGEST)]
InstantMs = Annotated[
    int, Meta(ge=0, le=LATEST_US // US_PER_MS, description="Milliseconds since the epoch, emulated time")
]
WaitMs = Annotated[int, Meta(ge=0, description="Longest wait, in real milliseconds")]


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of what a client sends."""


class NoInput(Input, frozen=True):
    """Nothing needs to be given."""


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
