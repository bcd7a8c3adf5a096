"""Ask what was sent and what became of it; wait until it has got so far; see what nobody expected."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.events import Event, Kind
from mocketmq.broker.verification.expectations import STAGES, NearMiss, SeenMessage, Wanted
from mocketmq.broker.verification.json_path import PATHS, PATTERN
from mocketmq.broker.verification.leaks import Leak
from mocketmq.broker.verification.like import Like, like
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import InvalidArgumentError, TopicNotFoundError
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
from mocketmq.http_api.message_out import fields_of, to_ms
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.http_api.sending import Base64
from mocketmq.settings import Settings

_Most = Annotated[int, Meta(ge=0, le=1_000, description="Most messages to answer: the newest")]
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
    max: _Most = 100
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


class AtGroup(msgspec.Struct, frozen=True):
    """How a message stands at a group, how often it was taken by receipt, and until when it stands so."""

    group: str
    state: str
    times: int
    until_ms: int | None


class SeenOut(msgspec.Struct, frozen=True):
    """A message that was sent. `due_ms` is null if it was not delayed.

    `state` is `pending`, `delivered` or `cancelled`; `delivered_ms` is when consumers could first see it.
    `text` says it in a line.
    """

    message_id: str
    topic: str
    queue_id: int
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    body: str | None
    body_base64: bytes | None
    sent_ms: int
    delay_level: int
    due_ms: int | None
    state: str
    delivered_ms: int | None
    groups: list[AtGroup]
    text: str


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
    max: _Most = 100


async def sent(call: ApiCall, path: TopicPath, which: LikeIn) -> SeenList:
    """Messages that producers sent since the last reset, delayed or not; retries and dead letters are not."""
    count, found = await call.broker.verification.expectations.sent(
        path.topic, _like(which), which.max, expected=which.expected
    )
    return SeenList(count, [_seen(call.broker, one) for one in found])


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
    found = await broker.verification.expectations.wait(
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
        messages=[_seen(broker, one) for one in found.messages],
        near_misses=[_near_miss(broker, one) for one in found.near_misses],
        explanation=found.explanation,
    )


async def unexpected(call: ApiCall, which: UnexpectedIn) -> SeenList:
    """Messages sent since the last reset that no request with `expected` has found."""
    found = await call.broker.verification.expectations.unexpected(given(which.topic), which.max)
    messages = [_seen(call.broker, one) for one in found.messages]
    return SeenList(found.total, messages, found.explanation)


class LeaksIn(Input, frozen=True):
    """A consumer group, or all, and how long to wait until there is no leak."""

    group: GroupName | UnsetType = UNSET
    max: _Most = 100
    timeout_ms: WaitMs = 0


class LeakOut(msgspec.Struct, frozen=True):
    """A message that a group has not acknowledged: its `state` there, until `until_ms` if that is known."""

    group: str
    state: str
    times: int
    until_ms: int | None
    message: SeenOut
    text: str


class LeaksOut(msgspec.Struct, frozen=True):
    """How many leaks there are, and the newest of them."""

    count: int
    leaks: list[LeakOut]


class EventsIn(Input, frozen=True):
    """How many events to answer."""

    max: Annotated[int, Meta(ge=1, le=1_000, description="Most events: the newest")] = 200


class EventOut(msgspec.Struct, frozen=True):
    """Something that happened. `text` says it in words, without its time.

    `until_ms` is when a message is due; of a move of the clock, which began at `at_ms`, where it ended.
    `fault` is the name of the rule that struck a request or a delivery.
    """

    at_ms: int
    kind: Kind
    text: str
    topic: str | None
    queue_id: int | None
    message_id: str | None
    tag: str | None
    keys: tuple[str, ...]
    group: str | None
    times: int | None
    until_ms: int | None
    fault: str | None


class EventsOut(msgspec.Struct, frozen=True):
    """The newest events, oldest first, and whether there are `more` before them."""

    events: list[EventOut]
    more: bool


async def leaks(call: ApiCall, which: LeaksIn) -> LeaksOut:
    """Messages delivered to topics that a group consumes, in flight or never acknowledged there."""
    wait_s = which.timeout_ms * US_PER_MS / US_PER_S
    count, found = await call.broker.verification.leaks.find(given(which.group), which.max, wait_s)
    return LeaksOut(count, [_leak(call.broker, one) for one in found])


async def events(call: ApiCall, which: EventsIn) -> EventsOut:
    """What became of messages, faults on purpose, and moves of the clock, since everything was reset."""
    found, more = await call.broker.verification.events.newest(which.max)
    return EventsOut([_event(one) for one in found], more)


def _leak(broker: Broker, leak: Leak) -> LeakOut:
    standing, expectations = leak.standing, broker.verification.expectations
    return LeakOut(
        leak.group,
        standing.at.value,
        standing.times,
        to_ms(standing.until_us),
        _seen(broker, leak.seen),
        f"{expectations.name(leak.seen)}: {expectations.standing_in_words(leak.group, standing)}",
    )


def _event(event: Event) -> EventOut:
    return EventOut(
        at_ms=event.at_us // US_PER_MS,
        kind=event.kind,
        text=event.text,
        topic=event.topic,
        queue_id=event.queue_id,
        message_id=event.message_id,
        tag=event.tag,
        keys=event.keys,
        group=event.group,
        times=event.times,
        until_ms=to_ms(event.until_us),
        fault=event.fault,
    )


def _like(which: LikeIn) -> Like:
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


def _seen(broker: Broker, seen: SeenMessage) -> SeenOut:
    stored, message = fields_of(broker, seen.content), seen.sent
    state = "delivered" if message.places else "cancelled" if message.is_cancelled else "pending"
    return SeenOut(
        **{name: stored[name] for name in ("message_id", "tag", "keys", "properties", "body", "body_base64")},
        topic=message.queue.topic,
        queue_id=message.queue.queue_id,
        sent_ms=message.sent_us // US_PER_MS,
        delay_level=message.level or 0,
        due_ms=to_ms(message.due_us),
        state=state,
        delivered_ms=message.places[0].at_us // US_PER_MS if message.places else None,
        groups=[
            AtGroup(group, standing.at.value, standing.times, to_ms(standing.until_us))
            for group, standing in seen.standings.items()
        ],
        text=broker.verification.expectations.describe(seen),
    )


def _near_miss(broker: Broker, miss: NearMiss) -> NearMissOut:
    return NearMissOut(_seen(broker, miss.seen), list(miss.differences))


def seen_routes(settings: Settings) -> RouteGroup:
    """The routes, with waits limited by the settings."""
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
            Route(
                "GET",
                "/v1/leaks",
                leaks,
                "List what consumers have not acknowledged",
                LeaksOut,
                bound_waits(LeaksIn, settings.max_wait_us),
            ),
            Route("GET", "/v1/events", events, "List what happened", EventsOut, EventsIn),
        ],
    )
