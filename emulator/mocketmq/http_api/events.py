"""Tell what happened since the last reset."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.broker.verification.events import Event, Kind
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.fields import Input
from mocketmq.http_api.message_out import to_ms
from mocketmq.http_api.route import ApiCall, Route


class EventsIn(Input, frozen=True):
    """How many events to answer."""

    max: Annotated[int, Meta(ge=1, le=1_000, description="Most events: the newest")] = 200


class EventOut(msgspec.Struct, frozen=True):
    """Something that happened. `text` says it in words, without its time.

    `until_ms` is when a message is due; of a move of the clock, which began at `at_ms`, where it ended.
    `fault` is the name of the rule that struck a request or a delivery. `door` is the one
    by which a message was sent.
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
    door: str | None


class EventsOut(msgspec.Struct, frozen=True):
    """The newest events, oldest first, and whether there are `more` before them."""

    events: list[EventOut]
    more: bool


async def events(call: ApiCall, which: EventsIn) -> EventsOut:
    """What became of messages, faults on purpose, and moves of the clock, since everything was reset."""
    found, more = await call.broker.events.newest(which.max)
    return EventsOut([_event(one) for one in found], more)


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
        door=event.door,
    )


EVENTS = Route("GET", "/v1/events", events, "List what happened", EventsOut, EventsIn)
