"""Makes spans from records and steps, following OpenTelemetry's semantic conventions for messaging.

A message's spans form a tree. ``send`` is its root, or a child of the producer's span. ``park`` and
``deliver`` are children of ``send``; ``receive`` and ``settle`` are children of ``deliver`` if the message
was delayed, otherwise of ``send``. docs/metrics.md describes them.

The times of spans are on the wall clock, because backends show the spans together with those of applications,
which know no other clock. If the broker's clock is manual, scaled or was moved, the span of an hour's delay
may therefore take milliseconds. The attributes ``mocketmq.clock.*`` have the instants on the broker's clock.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from mocketmq import __version__
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import US_PER_MS, Clock
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from mocketmq.message.properties import DELAY, KEYS, RETRY_TOPIC, SHARDING_KEY, TAGS, TRAN_MSG
from mocketmq.otlp.traced_record import TracedRecord, TraceIdentity, identity_of, properties_of
from mocketmq.store.queue import Queue

MAX_PARKED: Final = 100_000
"""Maximum number of pending messages whose time of parking is remembered."""
MAX_GIVEN_BACK: Final = 10_000
"""Maximum number of retries remembered, so that a later commit does not count as an acknowledgement."""
MAX_TEXT: Final = 1_024
"""Maximum length of an attribute."""
_NS_PER_US: Final = 1_000
_OUTCOMES: Final = {
    Outcome.ACKED: "acknowledged",
    Outcome.PASSED: "passed",
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.ABANDONED: "abandoned",
}
"""Outcomes that leave no record, named as in docs/messages.md."""
_SCOPE: Final = InstrumentationScope("mocketmq", __version__)

Attributes = dict[str, str | int | bool | tuple[str, ...]]


class SpanTimes(NamedTuple):
    """Beginning and end of a span, on the wall clock and on the broker's clock."""

    began_us: int
    ended_us: int
    clock_began_us: int
    clock_ended_us: int


class LifeSpans:
    """Makes spans. Remembers when messages were parked, because the store has no wall-clock times."""

    def __init__(self, topics: Topics, clock: Clock, resource: Resource) -> None:
        self._topics = topics
        self._clock = clock
        self._resource = resource
        self._parked_us: dict[int, int] = {}  # when messages were parked by the wall clock, by span id
        self._given_back: dict[int, int] = {}  # log offset of the retry, by the span id of message and group

    def of_record(
        self, record: TracedRecord, began_us: int, ended_us: int, at_us: int
    ) -> Iterator[ReadableSpan]:
        """Yield the spans of a new record, stored between these instants of the wall clock.

        ``at_us`` is the time on the broker's clock after the record was stored.
        """
        properties, queue = properties_of(record), self._goal(record)
        identity = identity_of(record, properties)
        if is_system_topic(queue.topic) or not identity.is_sampled:
            return
        attributes = self._attributes(record, queue, properties)
        times = SpanTimes(began_us, ended_us, record.store_us, at_us)
        match record.kind:
            case "sent" | "parked" | "prepared":
                yield self._sent(identity, attributes, record, times)
            case "committed":
                yield self._span("commit", identity, attributes, times, record.log_offset)
            case "retried" | "dead":
                group = queue.topic.removeprefix(RETRY_PREFIX).removeprefix(DLQ_PREFIX)
                _remember(
                    self._given_back, identity.span_id("given back", group), record.log_offset, MAX_GIVEN_BACK
                )
                settled = attributes | {"messaging.consumer.group.name": group}
                yield self._settled(identity, settled, times, record, record.kind)
            case "delivered":
                yield from self._delivered(identity, attributes, record, times)
        if record.due_us is not None and record.kind in ("parked", "retried"):
            _remember(self._parked_us, _park(identity, record.store_us), ended_us, MAX_PARKED)

    def of_parking(
        self, record: TracedRecord, wall_us: int, at_us: int, *, is_cancelled: bool
    ) -> Iterator[ReadableSpan]:
        """Yield the span of a message that was parked outside of the store, or of a cancelled wait."""
        properties, queue = properties_of(record), self._goal(record)
        identity = identity_of(record, properties)
        if is_system_topic(queue.topic) or not identity.is_sampled:
            return
        attributes = self._attributes(record, queue, properties)
        if is_cancelled:
            attributes["mocketmq.outcome"] = "cancelled"
            began_us = self._parked_us.pop(_park(identity, record.store_us), wall_us)
            times = SpanTimes(began_us, wall_us, record.store_us, at_us)
            yield self._span("park", identity, attributes, times, record.store_us)
            return
        _remember(self._parked_us, _park(identity, record.store_us), wall_us, MAX_PARKED)
        times = SpanTimes(wall_us, wall_us, record.store_us, at_us)
        if record.prepared_offset is None:
            yield self._sent(identity, attributes, record, times)
        else:
            yield self._span("commit", identity, attributes, times, record.log_offset)

    def of_group(
        self,
        record: TracedRecord,
        group: str,
        outcome: Outcome | None,
        wall_us: int,
        at_us: int,
        count: int | None,
    ) -> Iterator[ReadableSpan]:
        """Yield the span of a group's ``count``-th receive of the record, or of its settlement."""
        properties, queue = properties_of(record), self._goal(record)
        identity = identity_of(record, properties)
        is_half = record.kind == "prepared"
        if is_system_topic(queue.topic) or not identity.is_sampled:
            return
        attributes = self._attributes(record, queue, properties)
        times = SpanTimes(wall_us, wall_us, at_us, at_us)
        if not is_half:
            attributes["messaging.consumer.group.name"] = group
        if outcome is None and not is_half:
            attributes["messaging.operation.type"] = "receive"
            attributes["mocketmq.attempt"] = record.reconsume_times + (count or 1)
            late_us = at_us - record.store_us
            attributes["mocketmq.wait_us"] = max(late_us, 0)
            marks = record.log_offset, group, count, wall_us
            yield self._span("receive", identity, attributes, times, *marks, parent=_parent(record))
        elif outcome in _OUTCOMES:
            yield self._settled(identity, attributes, times, record, _OUTCOMES[outcome])

    def was_given_back(self, record: TracedRecord, group: str) -> bool:
        """Whether the group has given this record back, so that a later commit does not acknowledge it."""
        mark = identity_of(record, properties_of(record)).span_id("given back", group)
        return self._given_back.get(mark, -1) > record.log_offset

    def _sent(
        self,
        identity: TraceIdentity,
        attributes: Attributes,
        record: TracedRecord,
        times: SpanTimes,
    ) -> ReadableSpan:
        more: Attributes = {"messaging.operation.type": "send"}
        if record.door:
            more["mocketmq.door"] = record.door
        if record.kind == "prepared":
            more["mocketmq.outcome"] = "prepared"
        return self._span("send", identity, attributes | more, times)

    def _settled(
        self,
        identity: TraceIdentity,
        attributes: Attributes,
        times: SpanTimes,
        record: TracedRecord,
        outcome: str,
    ) -> ReadableSpan:
        more: Attributes = {"messaging.operation.type": "settle", "mocketmq.outcome": outcome}
        marks = record.log_offset, attributes.get("messaging.consumer.group.name"), outcome, times.ended_us
        parent = _parent(record) if outcome not in ("retried", "dead") else ("send",)
        return self._span("settle", identity, attributes | more, times, *marks, parent=parent)

    def _delivered(
        self,
        identity: TraceIdentity,
        attributes: Attributes,
        record: TracedRecord,
        times: SpanTimes,
    ) -> Iterator[ReadableSpan]:
        """Yield the spans of a delayed message's wait and of its delivery.

        If the time of parking is unknown, the span of the wait has no length.
        """
        stored_us, due_us = record.stored_us, record.delivery_due_us
        if stored_us is None or due_us is None:
            return
        more: Attributes = {"messaging.rocketmq.message.delivery_timestamp": due_us // US_PER_MS}
        if record.scheme:
            more["mocketmq.scheme"] = record.scheme
        if record.fault:
            more["mocketmq.fault"] = record.fault
        if record.forced:
            more["mocketmq.forced"] = True
        else:
            more["mocketmq.lateness_us"] = record.store_us - due_us
        attributes |= more
        parked_us = self._parked_us.pop(_park(identity, stored_us), times.began_us)
        wait = SpanTimes(min(parked_us, times.began_us), times.began_us, stored_us, record.store_us)
        yield self._span("park", identity, attributes, wait, stored_us)
        parent = "park", stored_us
        yield self._span("deliver", identity, attributes, times, record.log_offset, parent=parent)

    def _span(
        self,
        operation: str,
        identity: TraceIdentity,
        attributes: Attributes,
        times: SpanTimes,
        *marks: object,
        parent: tuple[object, ...] = ("send",),
    ) -> ReadableSpan:
        """Make a span, whose id follows from operation and ``marks``. ``parent`` has the parent's."""
        began_us, ended_us, at_us, until_us = times
        more: Attributes = {
            "messaging.operation.name": operation,
            "mocketmq.clock.mode": self._clock.mode,
            "mocketmq.clock.start_ms": at_us // US_PER_MS,
            "mocketmq.clock.end_ms": max(until_us, at_us) // US_PER_MS,
        }
        outcome = attributes.get("mocketmq.outcome")
        return ReadableSpan(
            f"{operation} {attributes['messaging.destination.name']}",
            context=_context(identity, identity.span_id(operation, *marks)),
            parent=_producer(identity)
            if operation == "send"
            else _context(identity, identity.span_id(*parent)),
            resource=self._resource,
            attributes=attributes | more,
            kind=SpanKind.INTERNAL if operation in ("park", "deliver") else SpanKind.SERVER,
            status=Status(StatusCode.ERROR, "dead letter") if outcome == "dead" else Status(StatusCode.UNSET),
            start_time=began_us * _NS_PER_US,
            end_time=max(ended_us, began_us) * _NS_PER_US,
            instrumentation_scope=_SCOPE,
        )

    def _attributes(self, record: TracedRecord, queue: Queue, properties: dict[str, str]) -> Attributes:
        """Return the attributes of every span of the record."""
        topic = queue.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            topic = properties.get(RETRY_TOPIC, topic)
        delay = properties.get(DELAY, "")
        has_level = delay.isdecimal() and int(delay[:9]) > 0
        is_timed = record.due_us is not None or record.scheme is not None
        found: Attributes = {
            "messaging.system": "rocketmq",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(queue.queue_id),
            "messaging.message.id": record.unique_key[:MAX_TEXT],
            "messaging.message.body.size": record.size,
            "messaging.rocketmq.message.type": (
                "transaction"
                if TRAN_MSG in properties
                else "fifo"
                if SHARDING_KEY in properties
                else "delay"
                if has_level or is_timed
                else "normal"
            ),
        }
        if tag := properties.get(TAGS):
            found["messaging.rocketmq.message.tag"] = tag[:MAX_TEXT]
        if keys := properties.get(KEYS, "").split():
            found["messaging.rocketmq.message.keys"] = tuple(" ".join(keys)[:MAX_TEXT].split())
        if group := properties.get(SHARDING_KEY):
            found["messaging.rocketmq.message.group"] = group[:MAX_TEXT]
        if has_level:
            found["messaging.rocketmq.message.delay_time_level"] = int(delay[:9])
        if record.due_us is not None:
            found["messaging.rocketmq.message.delivery_timestamp"] = record.due_us // US_PER_MS
        return found

    def _goal(self, record: TracedRecord) -> Queue:
        key = record.queue_key if record.real_queue_key is None else record.real_queue_key
        return self._topics.queue(key)


def _remember(found: dict[int, int], key: int, value: int, most: int) -> None:
    """Set the value, and forget the oldest values beyond ``most``."""
    found[key] = value
    while len(found) > most:
        del found[next(iter(found))]


def _park(identity: TraceIdentity, stored_us: int) -> int:
    """Return the id of the span of a wait that began at this instant."""
    return identity.span_id("park", stored_us)


def _parent(record: TracedRecord) -> tuple[object, ...]:
    """Return operation and marks of the parent of the spans of this record's consumers."""
    return ("deliver", record.log_offset) if record.stored_us is not None else ("send",)


def _context(identity: TraceIdentity, span_id: int) -> SpanContext:
    state = TraceState.from_header([identity.producer.state]) if identity.producer else TraceState()
    return SpanContext(
        identity.trace_id,
        span_id,
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=state,
    )


def _producer(identity: TraceIdentity) -> SpanContext | None:
    """Return the producer's span, if the message names one."""
    if identity.producer is None:
        return None
    return _context(identity, int(identity.producer.span_id, 16))
