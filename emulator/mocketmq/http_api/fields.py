"""Types of fields that several requests share, with their limits.

This module is the only place that declares the limits. Requests are checked against them, and the OpenAPI
document shows them.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.clock import LATEST_US, US_PER_MS, US_PER_S
from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.message_types import LITE_TOPIC_ALLOWED, MAX_LITE_TOPIC_BYTES
from mocketmq.message.names import GROUP_NAMES, MAX_QUEUE_NUMBER, TOPIC_NAMES

LARGEST: Final = (1 << 63) - 1
INT32: Final = Meta(ge=-(1 << 31), le=(1 << 31) - 1)
ANY_FIELDS: Final = Meta(extra_json_schema={"additionalProperties": {"description": "any JSON value"}})
"""An object with any fields. Without this, client generators assume that it has no fields."""


def matching(pattern: str, rule: str) -> Meta:
    """Constrain text to the pattern. ``rule`` describes the pattern in words."""
    return Meta(pattern=pattern, description=rule)


TopicName = Annotated[
    str,
    matching(
        "^(?:%(?:RETRY|DLQ)%[%|a-zA-Z0-9_-]{0,255}|[%|a-zA-Z0-9_-]{1,127})$",
        TOPIC_NAMES,
    ),
]
GroupName = Annotated[str, matching("^[%|a-zA-Z0-9_-]{1,255}$", GROUP_NAMES)]
LiteTopicName = Annotated[str, matching(f"^[A-Za-z0-9_-]{{1,{MAX_LITE_TOPIC_BYTES}}}$", LITE_TOPIC_ALLOWED)]
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
QueueId = Annotated[int, Meta(ge=0, le=MAX_QUEUE_NUMBER, description="Number of the queue in its topic")]
Offset = Annotated[int, Meta(ge=0, le=LARGEST, description="Offset of the first message to read")]
InstantMs = Annotated[
    int,
    Meta(ge=0, le=LATEST_US // US_PER_MS, description="Milliseconds since the epoch, on the broker's clock"),
]
PageStart = Annotated[int, Meta(ge=-1, le=LARGEST, description="The previous page's `next_after`")]
PageSize = Annotated[int, Meta(ge=1, le=1000, description="Largest number of entries on a page")]
WaitMs = Annotated[int, Meta(ge=0, description="Longest wait in milliseconds of real time")]

# Each unit may occur once, with few enough digits to keep the sum below a century.
Duration = Annotated[
    str,
    matching(
        r"^(?:0|(?=[0-9])(?:[0-9]{1,4}(?:\.[0-9]{1,6})?d)?(?:[0-9]{1,4}(?:\.[0-9]{1,6})?h)?"
        r"(?:[0-9]{1,6}(?:\.[0-9]{1,6})?m)?(?:[0-9]{1,8}(?:\.[0-9]{1,6})?s)?"
        r"(?:[0-9]{1,11}(?:\.[0-9]{1,3})?ms)?(?:[0-9]{1,14}us)?)$",
        "a duration such as 200ms, 1.5s, 10s, 1h30m or 2d, in whole microseconds",
    ),
]


class HasName(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """The name, by which lists are sorted and searched."""


Named = TypeVar("Named", bound=HasName)


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base class of the parameters and bodies that clients send."""


class NoInput(Input, frozen=True):
    """A request without fields."""


class TopicPath(Input, frozen=True):
    """A topic."""

    topic: TopicName


class NameSearch(Input, frozen=True):
    """Selects objects by name, sorted by name. Without `max`, there is only one page."""

    search: (
        Annotated[str, Meta(min_length=1, max_length=255, description="Part of the name; case is ignored")]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[str, Meta(min_length=1, max_length=255, description="The previous page's `next_after`")]
        | UnsetType
    ) = UNSET
    max: PageSize | UnsetType = UNSET

    def page_of(self, named: Iterable[Named]) -> tuple[list[Named], int, str | None]:
        """Return a page of the objects, the number of matches, and the name after which the next page begins.

        The objects in ``named`` must be sorted by name. The name is None on the last page.
        """
        search = "" if self.search is UNSET else self.search.lower()
        found = [one for one in named if search in one.name.lower()]
        page = found if self.after is UNSET else [one for one in found if one.name > self.after]
        if self.max is UNSET or len(page) <= self.max:
            return page, len(found), None
        return page[: self.max], len(found), page[self.max - 1].name


class GroupPath(Input, frozen=True):
    """A consumer group."""

    group: GroupName


class MessagePath(Input, frozen=True):
    """A message."""

    message_id: MessageId


SETTING: Final = "x-setting"
"""Key in a schema for the name of the setting that defines its maximum."""

AnInput = TypeVar("AnInput", bound=type[Input])


def duration_us(text: str | UnsetType, ms: int, field: str, limits: tuple[int, int], allows: str = "") -> int:
    """Return a duration in microseconds, from the text in ``field`` or, if it is unset, from milliseconds.

    ``limits`` apply only to the text, because the type of the milliseconds has its own limits. ``allows`` is
    the end of the error message; it names the origin of the limits.
    """
    if text is UNSET:
        return ms * US_PER_MS
    us, (low, high) = parse_duration_us(text, field), limits
    if not low <= us <= high:
        allowed = f"a duration from {format_duration(low)} to {format_duration(high)}{allows}"
        raise InvalidArgumentError(field, text, allowed)
    return us


def allowed_by(setting: str) -> str:
    """The end of a sentence about a maximum, which names the setting that defines it."""
    return f", the most that the setting {setting} allows"


def wait_s(text: str | UnsetType, ms: int, max_wait_us: int, field: str = "wait") -> float:
    """Return a wait in seconds, from the text of this field or, if it is unset, from milliseconds."""
    return duration_us(text, ms, field, (0, max_wait_us), allowed_by("max_wait")) / US_PER_S


def bound_waits(kind: AnInput, max_wait_us: int) -> AnInput:
    """Return the request type with waits limited by the setting ``max_wait``."""
    limit = max_wait_us // US_PER_MS
    bounded = Annotated[WaitMs, Meta(le=limit, extra_json_schema={SETTING: "max_wait"})]
    waits = [
        (field.name, bounded, min(field.default, limit))
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
