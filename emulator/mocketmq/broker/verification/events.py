"""What happened since the last reset, for the report of a failed test: messages, faults, moves of the clock.

It is gathered from the store when somebody asks, the newest of each kind of row. Events of one instant are in
the order of their messages: of takes the store has the time alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.pull_trail import PullTrail
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.verification.like import shown_body
from mocketmq.duration import format_duration
from mocketmq.message.body import is_compressed
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import (
    CHECKED_HALF_TOPIC,
    DLQ_PREFIX,
    HALF_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_system_topic,
)
from mocketmq.message.properties import KEYS, TAGS, decode_properties
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

Kind = Literal[
    "sent", "parked", "delivered", "forced", "cancelled", "taken", "acknowledged", "retried", "dead",
    "prepared", "committed", "rolled back", "moved", "fault",
]  # fmt: skip

_BODY = 80
"""Bytes of a body that are shown."""
_RECORDS = f"""
SELECT m.log_offset, m.queue_key, m.queue_offset, m.store_us, m.unique_key, m.properties, m.due_us,
 m.real_queue_key, m.parked_offset, m.prepared_offset, substr(m.body, 1, {_BODY}), m.sys_flag,
 m.door, d.scheme, d.stored_us, d.due_us, d.forced, i.kind, i.at_us
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset
LEFT JOIN interventions i ON i.parked_offset = m.log_offset ORDER BY m.log_offset DESC LIMIT ?"""
_TAKES = """
SELECT log_offset, times, first_taken_us, last_taken_us, settled_us, outcome FROM receipts
WHERE group_name = ? ORDER BY log_offset DESC LIMIT ?"""
_MOVES = """
SELECT from_us, to_us FROM clock_moves
WHERE move > coalesce((SELECT value FROM counters WHERE name = 'reset_at_move'), 0)
ORDER BY move DESC LIMIT ?"""
_HITS = """
SELECT unique_key, at_us, fault, do, door, operation, next_offset, topic, group_name FROM fault_hits
ORDER BY rowid DESC LIMIT ?"""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = 1 << 62
_AFTER_ALL = 9
"""The rank of what comes after all else that is about a record."""


class Event(NamedTuple):
    """Something that happened at an emulated instant, and the same in words, without the instant.

    ``order`` is that of events at one instant. ``until_us`` is when a message is due, or where a move of the
    clock ended; ``fault`` the name of the rule that struck; ``door`` the one by which it was sent.
    """

    at_us: int
    order: tuple[int, int]
    kind: Kind
    text: str
    topic: str | None = None
    queue_id: int | None = None
    message_id: str | None = None
    tag: str | None = None
    keys: tuple[str, ...] = ()
    group: str | None = None
    times: int | None = None
    until_us: int | None = None
    fault: str | None = None
    door: str | None = None


class _Record(NamedTuple):
    log_offset: int
    queue_key: int
    queue_offset: int
    store_us: int
    unique_key: str
    properties: str
    due_us: int | None
    real_queue_key: int | None
    parked_offset: int | None
    prepared_offset: int | None
    body: bytes
    sys_flag: int
    door: str | None
    scheme: str | None = None
    delayed_stored_us: int | None = None
    delayed_due_us: int | None = None
    forced: int | None = None
    intervention: str | None = None
    intervened_us: int | None = None


class Events:
    """Gathers what happened."""

    def __init__(
        self, store: Store, topics: Topics, groups: ConsumingGroups, schemes: SchemeSet, trail: PullTrail
    ) -> None:
        self._database = store.database
        self._topics = topics
        self._groups = groups
        self._schemes = schemes
        self._trail = trail

    async def newest(self, limit: int) -> tuple[list[Event], bool]:
        """The newest events, oldest first, and whether there are older ones. Raises a StoreError."""
        outside = [
            event
            for message in await self._schemes.outside(-1, limit)
            for event in self._of_record(_waiting(message))
        ]
        records = [_Record._make(row) for row in await self._database.rows(_RECORDS, (limit + 1,))]
        found = outside + [event for record in records for event in self._of_record(record)]
        by_offset = {record.log_offset: record for record in records}
        for group in self._groups:
            rows = await self._database.rows(_TAKES, (group.name, limit + 1))
            for log_offset, *take in rows:
                if log_offset in by_offset:
                    found += self._of_take(by_offset[log_offset], group.name, *take)
        found += self._of_trail(records)
        found += [_move(*row) for row in await self._database.rows(_MOVES, (limit + 1,))]
        by_key = {record.unique_key: record for record in records}
        hits = await self._database.rows(_HITS, (limit + 1,))
        found += [self._of_hit(by_key.get(unique_key), *hit) for unique_key, *hit in reversed(hits)]
        found.sort(key=lambda event: (event.at_us, event.order))
        return found[-limit:], len(found) > limit

    def _of_record(self, record: _Record) -> Iterator[Event]:
        """What a record tells: that a message was sent, delivered, given back."""
        queue = self._topics.queue(record.queue_key)
        real = queue if record.real_queue_key is None else self._topics.queue(record.real_queue_key)
        due_us = record.due_us
        if queue.topic in (SCHEDULE_TOPIC, TIMER_TOPIC) and due_us is not None:
            is_retry = real.topic.startswith(RETRY_PREFIX)
            if record.intervention is None or queue.topic == SCHEDULE_TOPIC:
                yield self._parked(record, record.store_us, due_us, is_retry=is_retry)
            if record.intervention == "cancelled" and record.intervened_us is not None:
                yield self._event(record, record.intervened_us, "cancelled", "cancelled", rank=1)
        elif queue.topic == CHECKED_HALF_TOPIC or queue.topic.startswith(HALF_PREFIX):
            text = f"prepared for {real.topic}{_by(record)}"
            yield self._event(record, record.store_us, "prepared", text, door=record.door)
        elif queue.topic.startswith(DLQ_PREFIX):
            group = queue.topic.removeprefix(DLQ_PREFIX)
            yield self._event(record, record.store_us, "dead", f"dead at {group}", group=group)
        elif is_system_topic(queue.topic):
            return
        elif record.parked_offset is None:
            if record.prepared_offset is None:
                text = f"sent to {queue.topic}{_by(record)}"
                yield self._event(record, record.store_us, "sent", text, door=record.door)
            else:
                yield self._event(record, record.store_us, "committed", f"committed to {queue.topic}")
        else:
            if record.scheme != LevelQueues.name and record.delayed_due_us is not None:
                stored_us = record.delayed_stored_us or 0
                yield self._parked(record, stored_us, record.delayed_due_us, is_retry=False)
            kind: Kind = "forced" if record.forced else "delivered"
            early = " before it was due" if record.forced else ""
            yield self._event(record, record.store_us, kind, f"delivered to {queue.topic}{early}")

    def _parked(self, record: _Record, at_us: int, due_us: int, *, is_retry: bool) -> Event:
        goal = self._topics.queue(record.real_queue_key or record.queue_key).topic
        until = f"for {format_duration(due_us - at_us)} until {_time(due_us)}"
        if is_retry:
            group = goal.removeprefix(RETRY_PREFIX)
            text = f"given back by {group}, parked {until}"
            return self._event(record, at_us, "retried", text, group=group, until_us=due_us)
        text = f"sent to {goal}{_by(record)}, parked {until}"
        return self._event(record, at_us, "parked", text, until_us=due_us, door=record.door)

    def _of_take(
        self,
        record: _Record,
        group: str,
        times: int,
        first_us: int | None,
        last_us: int | None,
        settled_us: int | None,
        outcome: str | None,
    ) -> Iterator[Event]:
        """What a group did with a record by receipt; that it gave it back is told by the retry."""
        if self._topics.queue(record.queue_key).topic in (CHECKED_HALF_TOPIC,) or outcome in (
            Outcome.COMMITTED,
            Outcome.ROLLED_BACK,
            Outcome.ABANDONED,
        ):
            if outcome == Outcome.ROLLED_BACK and settled_us is not None:
                yield self._event(record, settled_us, "rolled back", "rolled back", rank=4)
            return
        if times and first_us is not None:
            yield self._event(record, first_us, "taken", f"taken by {group}", rank=2, group=group, times=1)
        if times > 1 and last_us is not None:
            text = f"taken by {group} for the {_nth(times)} time"
            yield self._event(record, last_us, "taken", text, rank=3, group=group, times=times)
        if outcome == Outcome.ACKED and settled_us is not None:
            yield self._event(
                record, settled_us, "acknowledged", f"acknowledged by {group}", rank=4, group=group
            )

    def _of_hit(
        self,
        record: _Record | None,
        at_us: int,
        fault: str,
        do: str,
        door: str,
        operation: str,
        next_offset: int,
        topic: str | None,
        group: str | None,
    ) -> Event:
        """That a fault struck a request or a delivery, about the record if it is known."""
        text = f"fault {fault}: {do} for {operation}{f' by {door}' if door else ''}"
        found = Event(at_us, (0, 0), "fault", text, topic, group=group)
        if record is not None:
            found = self._event(record, at_us, "fault", text)
        return found._replace(order=(next_offset - 1, _AFTER_ALL), fault=fault)

    def _of_trail(self, records: Iterable[_Record]) -> Iterator[Event]:
        """What consumers by offset did. A commit does not acknowledge what they have given back before."""
        of_queue: dict[int, list[_Record]] = {}
        given_back: dict[
            tuple[str, str], int
        ] = {}  # the newest retry or dead letter, by unique key and group
        for record in records:
            of_queue.setdefault(record.queue_key, []).append(record)
            goal = self._topics.queue(record.real_queue_key or record.queue_key).topic
            for prefix in (RETRY_PREFIX, DLQ_PREFIX):
                if goal.startswith(prefix):
                    key = (record.unique_key, goal.removeprefix(prefix))
                    given_back[key] = max(record.log_offset, given_back.get(key, 0))
        for at_us, group, queue, offsets, is_commit in self._trail.steps:
            for record in of_queue.get(queue.key, ()):
                if record.queue_offset not in offsets:
                    continue
                if not is_commit:
                    yield self._event(record, at_us, "taken", f"taken by {group}", rank=2, group=group)
                elif given_back.get((record.unique_key, group), -1) <= record.log_offset:
                    text = f"acknowledged by {group}"
                    yield self._event(record, at_us, "acknowledged", text, rank=4, group=group)

    def _event(
        self,
        record: _Record,
        at_us: int,
        kind: Kind,
        text: str,
        *,
        rank: int = 0,
        group: str | None = None,
        times: int | None = None,
        until_us: int | None = None,
        door: str | None = None,
    ) -> Event:
        properties: Mapping[str, str] = decode_properties(record.properties)
        queue = self._topics.queue(record.real_queue_key or record.queue_key)
        keys, tag = properties.get(KEYS, ""), properties.get(TAGS)
        body = "(compressed)" if is_compressed(record.sys_flag) else shown_body(record.body)
        marks = [f"tag {tag}"] if tag else []
        marks += [f"keys {keys}"] if keys else []
        return Event(
            at_us,
            (record.log_offset, rank),
            kind,
            f"{text}: {' '.join([*marks, body])}",
            queue.topic,
            queue.queue_id,
            record.unique_key,
            tag,
            tuple(keys.split()),
            group,
            times,
            until_us,
            door=door,
        )


def _waiting(message: StoredMessage) -> _Record:
    """A message that waits outside of the store, as a record."""
    return _Record(
        *message[:4],
        unique_key=message.unique_key,
        properties=message.properties,
        due_us=message.due_us,
        real_queue_key=message.real_queue_key,
        parked_offset=None,
        prepared_offset=None,
        body=message.body[:_BODY],
        sys_flag=message.sys_flag,
        door=message.door,
    )


def _by(record: _Record) -> str:
    return f" by {record.door}" if record.door else ""


def _move(from_us: int, to_us: int) -> Event:
    text = f"clock moved by {format_duration(to_us - from_us)} to {_time(to_us)}"
    return Event(from_us, (_LAST, 0), "moved", text, until_us=to_us)


def _time(instant_us: int) -> str:
    return f"{_EPOCH + timedelta(microseconds=instant_us):%H:%M:%S}"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number}{ending}"
