"""Routes for tests: find sent messages, wait for messages, list unexpected messages and leaks.

An unexpected message is one that no request with ``expected`` has found. A leak is a delivered message that a
consumer group has not acknowledged.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.clock_steps import Advance
from mocketmq.broker.verification.expectations import STAGES, Wanted
from mocketmq.broker.verification.leaks import Leak
from mocketmq.broker.verification.message_matcher import MessageMatcher, make_matcher
from mocketmq.clock import US_PER_MS
from mocketmq.duration import parse_duration_us
from mocketmq.errors import ClockError, GroupNotFoundError, InvalidArgumentError, TopicNotFoundError
from mocketmq.http_api.access import reads_messages, waits
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.fields import (
    ANY_FIELDS,
    LARGEST,
    Duration,
    GroupName,
    Input,
    TopicName,
    TopicPath,
    WaitMs,
    matching,
    wait_s,
)
from mocketmq.http_api.message_out import EventOut, Most, SeenOut, seen_out
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.http_api.sending import Base64
from mocketmq.json_path import PATHS, PATTERN

_Count = Annotated[int, Meta(ge=0, le=LARGEST)]


class MatcherIn(Input, frozen=True):
    """Criteria for messages; a message must meet all of them.

    If `body` is a string, it must equal the message's body as text. Any other JSON value except null must
    equal the body parsed as JSON. `body_base64` is the body as bytes. `json_path` maps paths, such as
    `$.order.id`, `$.lines[0].sku` or `$.lines[*]['unit price']`, to the expected values. A message may have
    other properties besides the given `properties`. `delay_level` is compared with the level after clamping.
    """

    more_schema: ClassVar[Mapping[str, object]] = {"not": {"required": ["body", "body_base64"]}}

    tag: str | UnsetType = UNSET
    key: Annotated[str, Meta(description="One of the message's `keys`")] | UnsetType = UNSET
    message_id: Annotated[str, Meta(description="The unique key")] | UnsetType = UNSET
    properties: dict[str, str] | UnsetType = UNSET
    body: Any = UNSET
    body_base64: Base64 | UnsetType = UNSET
    json_path: Annotated[dict[Annotated[str, matching(PATTERN, PATHS)], Any], ANY_FIELDS] | UnsetType = UNSET
    delayed: bool | UnsetType = UNSET
    delay_level: Annotated[int, Meta(ge=0, le=1024)] | UnsetType = UNSET
    max: Most = 100
    expected: Annotated[
        bool,
        Meta(description="Whether the found messages count as expected, so that `unexpected` omits them"),
    ] = False


class WaitIn(MatcherIn, frozen=True):
    """The number of messages to wait for, at one or more stages, and criteria for the messages.

    `delivered` counts every delivery to the topic. `acknowledged` needs a `group`; `dead` may have one. The
    wait ends when at least this many messages have reached each stage. With `exactly`, it also ends, without
    success, when more messages have. The wait takes up to `wait` of real time, or `timeout_ms`; the duration
    takes precedence.

    With `advance`, the wait moves the clock to each instant that the messages wait for, such as their due
    times and retries, but by at most `advance` in total. While a consumer has a message or could receive one,
    the clock moves only after `pause` of real time, or `pause_ms`, without any change.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        **MatcherIn.more_schema,
        # Inside allOf, because client generators take an anyOf next to properties as a type of any value.
        "allOf": [{"anyOf": [{"required": [stage]} for stage in STAGES]}],
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
    wait: Duration | UnsetType = UNSET
    timeout_ms: WaitMs = 5_000
    advance: Duration | UnsetType = UNSET
    pause: Duration | UnsetType = UNSET
    pause_ms: WaitMs = 1_000


class NearMissOut(msgspec.Struct, frozen=True):
    """A message that meets only some of the criteria, and its differences from the criteria."""

    message: SeenOut
    differences: list[str]


class SeenList(msgspec.Struct, frozen=True):
    """The number of messages, and the newest messages, oldest first. `explanation` is a summary in words."""

    count: int
    messages: list[SeenOut]
    explanation: str = ""


class Awaited(msgspec.Struct, frozen=True):
    """The number of matching messages at each stage. `reached` says whether the wait succeeded.

    `messages` are those that have reached every requested stage. If there are too few, `near_misses` has the
    most similar messages, and `explanation` describes what is missing. With `advance`, the wait moved the
    clock `moves` times, by `moved_ms` in total.
    """

    reached: bool
    sent: int
    delivered: int
    acknowledged: int
    dead: int
    messages: list[SeenOut]
    near_misses: list[NearMissOut]
    explanation: str
    moves: int
    moved_ms: int


class UnexpectedIn(Input, frozen=True):
    """The topic to check; all topics by default."""

    topic: TopicName | UnsetType = UNSET
    max: Most = 100


class LeaksIn(Input, frozen=True):
    """The consumer group to check, by default all groups, and how long to wait until there are no leaks.

    `timeout_ms` is `wait` in milliseconds; the duration takes precedence.
    """

    group: GroupName | UnsetType = UNSET
    max: Most = 100
    wait: Duration | UnsetType = UNSET
    timeout_ms: WaitMs = 0


class LeakOut(msgspec.Struct, frozen=True):
    """A message that a group has not acknowledged, its `state` there, and the end of that state, if known."""

    group: str
    state: str
    times: int
    until_ms: int | None
    message: SeenOut
    text: str


class LeaksOut(msgspec.Struct, frozen=True):
    """The number of leaks, and the newest of them."""

    count: int
    leaks: list[LeakOut]


class EventsIn(Input, frozen=True):
    """The number of events to return."""

    max: Annotated[
        int, Meta(ge=1, le=1_000, description="Largest number of events; the newest are returned")
    ] = 200


class EventsOut(msgspec.Struct, frozen=True):
    """The newest events, oldest first. `more` says whether there are earlier events."""

    events: list[EventOut]
    more: bool


VERIFICATION = RouteGroup("seen", "Sent messages and their outcomes: find them, wait for them, expect them")


@Route(
    VERIFICATION,
    "POST /v1/topics/{topic}/sent",
    "Find messages sent to a topic",
    is_body_optional=True,
    needs=reads_messages,
)
async def sent(call: ApiCall, path: TopicPath, which: MatcherIn) -> SeenList:
    """Returns the messages that producers sent since the last reset, without retries and dead letters."""
    count, found = await call.broker.expectations.sent(
        path.topic, _matcher(which), which.max, expected=which.expected
    )
    return SeenList(count, [seen_out(call.broker, one) for one in found])


@Route(
    VERIFICATION,
    "POST /v1/topics/{topic}/wait",
    "Wait until messages are sent, delivered, acknowledged or dead",
    is_waiting=True,
    errors=[TopicNotFoundError, ClockError],
    needs=waits,
)
async def wait(call: ApiCall, path: TopicPath, what: WaitIn) -> Awaited:
    """Responds when the counts are reached, or when the time is up.

    Only messages sent since the last reset count. The topic need not exist yet if topics are created on first
    use. Messages below a pulling consumer's committed offset count as acknowledged.
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
        raise InvalidArgumentError("group", None, "a consumer group, because acknowledged is given")
    if not broker.registry.used_topics.auto_create:
        broker.registry.topics.get(path.topic)
    found = await broker.expectations.wait(
        Wanted(path.topic, _matcher(what), counts, given(what.group), what.exactly),
        what.max,
        wait_s(what.wait, what.timeout_ms, call.api.settings.max_wait_us),
        expected=what.expected,
        advance=_advance(what, call.api.settings.max_wait_us),
    )
    return Awaited(
        reached=found.reached,
        sent=found.counts["sent"],
        delivered=found.counts["delivered"],
        acknowledged=found.counts["acknowledged"],
        dead=found.counts["dead"],
        messages=[seen_out(broker, one) for one in found.messages],
        near_misses=[
            NearMissOut(seen_out(broker, one.seen), list(one.differences)) for one in found.near_misses
        ],
        explanation=found.explanation,
        moves=found.steps.count if found.steps else 0,
        moved_ms=found.steps.moved_us // US_PER_MS if found.steps else 0,
    )


def _advance(what: WaitIn, max_wait_us: int) -> Advance | None:
    if what.advance is UNSET:
        return None
    pause_s = wait_s(what.pause, what.pause_ms, max_wait_us, "pause")
    return Advance(parse_duration_us(what.advance, "advance"), pause_s)


@Route(VERIFICATION, "GET /v1/unexpected", "List unexpected messages", needs=reads_messages)
async def unexpected(call: ApiCall, which: UnexpectedIn) -> SeenList:
    """Returns messages sent since the last reset that no request with `expected` has found."""
    found = await call.broker.expectations.unexpected(given(which.topic), which.max)
    messages = [seen_out(call.broker, one) for one in found.messages]
    return SeenList(found.total, messages, found.explanation)


@Route(
    VERIFICATION,
    "GET /v1/leaks",
    "List messages that consumers have not acknowledged",
    is_waiting=True,
    errors=[GroupNotFoundError],
)
async def leaks(call: ApiCall, which: LeaksIn) -> LeaksOut:
    """Returns messages that are in flight or unacknowledged in a group that consumes their topic."""
    longest_s = wait_s(which.wait, which.timeout_ms, call.api.settings.max_wait_us)
    count, found = await call.broker.leaks.find_leaks(given(which.group), which.max, longest_s)
    return LeaksOut(count, [_leak(call.broker, one) for one in found])


@Route(VERIFICATION, "GET /v1/events", "List recent events")
async def events(call: ApiCall, which: EventsIn) -> EventsOut:
    """Returns the events since the last full reset: of messages, brokers, the clock and injected faults."""
    found, more = await call.broker.events.newest(which.max)
    return EventsOut([answer_from(EventOut, one) for one in found], more)


def _matcher(which: MatcherIn) -> MessageMatcher:
    body = given(which.body)
    if which.body_base64 is not UNSET:
        if body is not None:
            raise InvalidArgumentError("body_base64", "given", "only one of body and body_base64")
        body = which.body_base64
    return make_matcher(
        given(which.json_path) or {},
        tag=given(which.tag),
        key=given(which.key),
        message_id=given(which.message_id),
        properties=given(which.properties) or {},
        delayed=given(which.delayed),
        delay_level=given(which.delay_level),
        body=body,
    )


def _leak(broker: Broker, leak: Leak) -> LeakOut:
    status, expectations = leak.status, broker.expectations
    return answer_from(
        LeakOut,
        status,
        group=leak.group,
        state=status.state.value,
        message=seen_out(broker, leak.seen),
        text=f"{expectations.name(leak.seen)}: {expectations.status_in_words(leak.group, status)}",
    )
