"""Ask what was sent and what became of it; wait until it has got so far; see what nobody expected."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.expectations import STAGES, NearMiss, Wanted
from mocketmq.broker.verification.json_path import PATHS, PATTERN
from mocketmq.broker.verification.like import MessageMatcher, like
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import InvalidArgumentError, TopicNotFoundError
from mocketmq.http_api.events import EVENTS
from mocketmq.http_api.fields import (
    LARGEST,
    GroupName,
    Input,
    TopicName,
    TopicPath,
    WaitMs,
    bound_waits,
    matching,
)
from mocketmq.http_api.leaks import leaks_route
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.http_api.seen_message import Most, SeenOut, seen_out
from mocketmq.http_api.sending import Base64
from mocketmq.settings import Settings

_Count = Annotated[int, Meta(ge=0, le=LARGEST)]


class LikeIn(Input, frozen=True):
    """Which messages. All that is given has to hold.

    `body` is the text of the body, or any other JSON value but null, to which the body, parsed, is equal;
    `body_base64` is the body as bytes. Of `json_path`, each path leads to a value that is equal to the given
    one: `$.order.id`, `$.lines[0].sku`, `$.lines[*]['unit price']`. `properties` are equal, others may be
    there. `delay_level` is that after clamping.
    """

    more_schema: ClassVar[Mapping[str, object]] = {"not": {"required": ["body", "body_base64"]}}

    tag: str | UnsetType = UNSET
    key: Annotated[str, Meta(description="One of the message's `keys`")] | UnsetType = UNSET
    message_id: Annotated[str, Meta(description="The unique key")] | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    body: Any = UNSET
    body_base64: Base64 | UnsetType = UNSET
    json_path: dict[Annotated[str, matching(PATTERN, PATHS)], Any] | UnsetType = UNSET
    delayed: bool | UnsetType = UNSET
    delay_level: Annotated[int, Meta(ge=0, le=1024)] | UnsetType = UNSET
    max: Most = 100
    expected: Annotated[
        bool, Meta(description="Whether what is found counts as expected, and is none of the `unexpected`")
    ] = False


class WaitIn(LikeIn, frozen=True):
    """How many messages to wait for, at one stage or several, and which messages.

    `delivered` counts every delivery to the topic, `acknowledged` needs a `group`, `dead` may have one. At
    least so many, or `exactly` so many: more are then an answer at once, too.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        **LikeIn.more_schema,
        "anyOf": [{"required": [stage]} for stage in STAGES],
        "dependentRequired": {"acknowledged": ["group"]},
        "if": {"required": ["exactly"], "properties": {"exactly": {"const": True}}},
        "else": {"properties": {stage: {"minimum": 1} for stage in STAGES}},
    }

    sent: _Count | UnsetType = UNSET
    delivered: _Count | UnsetType = UNSET
    acknowledged: _Count | UnsetType = UNSET
    dead: _Count | UnsetType = UNSET
    group: GroupName | UnsetType = UNSET
    exactly: bool = False
    timeout_ms: WaitMs = 5_000


class NearMissOut(msgspec.Struct, frozen=True):
    """A message that is not quite what was asked for, and in what it differs."""

    message: SeenOut
    differences: list[str]


class SeenList(msgspec.Struct, frozen=True):
    """How many messages there are, and the newest of them, oldest first. `explanation` says it in words."""

    count: int
    messages: list[SeenOut]
    explanation: str = ""


class Awaited(msgspec.Struct, frozen=True):
    """How many of these messages got to each stage, and whether that is what was waited for.

    `messages` are those at every stage that was asked for. If they are not enough, `near_misses` are those
    that came nearest, and `explanation` says in words what is missing.
    """

    reached: bool
    sent: int
    delivered: int
    acknowledged: int
    dead: int
    messages: list[SeenOut]
    near_misses: list[NearMissOut]
    explanation: str


class UnexpectedIn(Input, frozen=True):
    """A topic, or all."""

    topic: TopicName | UnsetType = UNSET
    max: Most = 100


async def sent(call: ApiCall, path: TopicPath, which: LikeIn) -> SeenList:
    """Messages that producers sent since the last reset, delayed or not; retries and dead letters are not."""
    count, found = await call.broker.expectations.sent(
        path.topic, _like(which), which.max, expected=which.expected
    )
    return SeenList(count, [seen_out(call.broker, one) for one in found])


async def wait(call: ApiCall, path: TopicPath, what: WaitIn) -> Awaited:
    """Answers as soon as it is so, or when the time is up. Counts from the last reset on.

    The topic need not exist yet, if topics are created on first use. What a pulling consumer's committed
    offset has passed is acknowledged.
    """
    broker = call.broker
    counts = {stage: getattr(what, stage) for stage in STAGES if getattr(what, stage) is not UNSET}
    if not counts:
        raise InvalidArgumentError(
            "delivered", None, "at least one of sent, delivered, acknowledged and dead"
        )
    for stage, count in counts.items():
        if count == 0 and not what.exactly:
            raise InvalidArgumentError(stage, 0, "a whole number from 1; with exactly, from 0")
    if "acknowledged" in counts and what.group is UNSET:
        raise InvalidArgumentError("group", None, "a group beside acknowledged")
    if not broker.registry.topics.auto_create:
        broker.registry.topics.get(path.topic)
    found = await broker.expectations.wait(
        Wanted(path.topic, _like(what), counts, given(what.group), what.exactly),
        what.max,
        what.timeout_ms * US_PER_MS / US_PER_S,
        expected=what.expected,
    )
    return Awaited(
        reached=found.reached,
        sent=found.counts["sent"],
        delivered=found.counts["delivered"],
        acknowledged=found.counts["acknowledged"],
        dead=found.counts["dead"],
        messages=[seen_out(broker, one) for one in found.messages],
        near_misses=[_near_miss(broker, one) for one in found.near_misses],
        explanation=found.explanation,
    )


async def unexpected(call: ApiCall, which: UnexpectedIn) -> SeenList:
    """Messages sent since the last reset that no request with `expected` has found."""
    found = await call.broker.expectations.unexpected(given(which.topic), which.max)
    messages = [seen_out(call.broker, one) for one in found.messages]
    return SeenList(found.total, messages, found.explanation)


def _like(which: LikeIn) -> MessageMatcher:
    body = given(which.body)
    if which.body_base64 is not UNSET:
        if body is not None:
            raise InvalidArgumentError("body_base64", "given", "only one of body and body_base64")
        body = which.body_base64
    return like(
        given(which.json_path) or {},
        tag=given(which.tag),
        key=given(which.key),
        message_id=given(which.message_id),
        properties=given(which.properties) or {},
        delayed=given(which.delayed),
        delay_level=given(which.delay_level),
        body=body,
    )


def _near_miss(broker: Broker, miss: NearMiss) -> NearMissOut:
    return NearMissOut(seen_out(broker, miss.seen), list(miss.differences))


def verification(settings: Settings) -> RouteGroup:
    """The routes for tests, with waits limited by the settings."""
    return RouteGroup(
        "seen",
        "What was sent, and what became of it: ask, wait, expect",
        [
            Route(
                "POST",
                "/v1/topics/{topic}/sent",
                sent,
                "Find what was sent to a topic",
                SeenList,
                TopicPath,
                LikeIn,
                is_body_optional=True,
            ),
            Route(
                "POST",
                "/v1/topics/{topic}/wait",
                wait,
                "Wait until messages are sent, delivered, acknowledged or dead",
                Awaited,
                TopicPath,
                bound_waits(WaitIn, settings.max_wait_us),
                errors=[TopicNotFoundError],
            ),
            Route(
                "GET",
                "/v1/unexpected",
                unexpected,
                "List what was sent and never expected",
                SeenList,
                UnexpectedIn,
            ),
            leaks_route(settings),
            EVENTS,
        ],
    )
