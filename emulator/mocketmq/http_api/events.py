"""Converts events to JSON."""

import msgspec

from mocketmq.broker.life import Event, EventKind
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.message_out import to_ms


class EventOut(msgspec.Struct, frozen=True):
    """An event. `text` describes it in words, without the time.

    `until_ms` is a message's due time, the time at which it is visible again, or the end of a clock move that
    began at `at_ms`. `late_us` is the time since the event became possible: of a delivery since the due time,
    of a take since the message was visible, of an acknowledgement since the take. `fault` is the name of the
    fault rule that affected a request or put off a delivery. `door` is the protocol of the send, or of the
    request into which a fault was injected; `do` and `operation` say what the fault did to which operation.
    A message is parked by a `scheme`, at a `level` unless it has an absolute due time.
    """

    at_ms: int
    kind: EventKind
    text: str
    topic: str | None
    queue_id: int | None
    message_id: str | None
    tag: str | None
    keys: tuple[str, ...]
    group: str | None
    times: int | None
    until_ms: int | None
    late_us: int | None
    fault: str | None
    door: str | None
    do: str | None
    operation: str | None
    scheme: str | None
    level: int | None
    priority: int | None
    lite_topic: str | None


def event_out(event: Event) -> EventOut:
    """The event as JSON."""
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
        late_us=event.late_us,
        fault=event.fault,
        door=event.door,
        do=event.do,
        operation=event.operation,
        scheme=event.scheme,
        level=event.level,
        priority=event.priority,
        lite_topic=event.lite_topic,
    )
