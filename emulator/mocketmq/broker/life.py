"""The life of a message: turns its records into the message's events, in order and in words.

A message has one or more records in the store (``message_records.py``), each of a ``RecordKind``. A delayed
message is ``parked``, then ``delivered``. A message that a group gave back is ``retried``, delivered again,
and finally ``dead``. While a message with an absolute due time is pending, the store has no record of it; the
record of its delivery also has the time at which it was parked. Takes and acknowledgements come from
receipts, or from the trail for consumers by offset. docs/messages.md lists the words for records, events and
states.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from mocketmq.broker.consuming.ledger_notes import PullTrail
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.message_records import BODY_HEAD_BYTES, FaultRecord, ReceiptRecord, RecordRow
from mocketmq.broker.registry.brokers import BrokerChange, ClusterBrokers
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import US_PER_MS, Clock
from mocketmq.duration import format_duration
from mocketmq.instant import format_time
from mocketmq.message.body import preview
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_types import priority_of
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, is_system_topic
from mocketmq.message.properties import KEYS, PRIORITY, TAGS, decode_properties
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.queue import LiteQueue, Queue
from mocketmq.store.receipt_rows import Attempt, parse_attempts

EventKind = Literal[
    "sent", "prepared", "committed", "rolled back", "abandoned", "parked", "due", "delivered", "forced",
    "cancelled", "lost", "taken", "postponed", "expired", "visible", "acknowledged", "passed", "retried",
    "dead", "fault", "broker", "moved",
]  # fmt: skip
MessageState = Literal[
    "prepared", "rolled back", "abandoned", "stored", "pending", "cancelled", "lost", "delivered", "dead"
]
Consumption = Literal["never taken", "in flight", "to be redelivered", "to be retried", "acknowledged"]

_SHOWN: Final = 80
"""Number of bytes of the body that a label shows."""
_LAST: Final = 1 << 62
_AFTER_ALL: Final = 9
"""Rank of an event that comes after all other events of a record."""
_OUTCOMES: Final[dict[str, EventKind]] = {
    Outcome.ACKED: "acknowledged",
    Outcome.PASSED: "passed",
    Outcome.ROLLED_BACK: "rolled back",
    Outcome.ABANDONED: "abandoned",
}
"""The outcomes that add no further record."""


class Event(NamedTuple):
    """An event at an emulated instant. ``text`` describes it in words, without the instant.

    ``order`` sorts events at the same instant. ``until_us`` is when the message becomes due or visible again,
    or the time that the clock was moved to. ``late_us`` is the time since the event became possible.
    ``fault`` is the name of the rule that fired or held the delivery. ``door`` is the front door of the
    send, or of the request into which a fault was injected; ``do`` is the kind of the fault, and
    ``operation`` the request's operation. ``scheme`` is the delay scheme that parked the message, and
    ``level`` its delay level, unless it has an absolute due time. ``label`` shows the message's tag, keys and
    body, shortened.
    """

    at_us: int
    order: tuple[int, int]
    kind: EventKind
    text: str
    topic: str | None = None
    queue_id: int | None = None
    message_id: str | None = None
    tag: str | None = None
    keys: tuple[str, ...] = ()
    group: str | None = None
    times: int | None = None
    until_us: int | None = None
    late_us: int | None = None
    fault: str | None = None
    door: str | None = None
    do: str | None = None
    operation: str | None = None
    scheme: str | None = None
    level: int | None = None
    priority: int | None = None
    lite_topic: str | None = None
    label: str = ""


@dataclass(eq=False, repr=False)
class Lives:
    """Derives events from records."""

    _clock: Clock
    _topics: Topics
    _schemes: SchemeSet
    _trail: PullTrail
    _brokers: ClusterBrokers

    def waiting(self, message: StoredMessage) -> RecordRow:
        """Make the row of a pending message outside of the store."""
        scheme = self._schemes.holding(message)
        return RecordRow(
            message.log_offset,
            message.kind,
            message.queue_key,
            message.queue_offset,
            message.store_us,
            message.unique_key,
            message.properties,
            message.due_us,
            message.real_queue_key,
            None,
            message.door,
            message.sys_flag,
            message.body[:BODY_HEAD_BYTES],
            len(message.body),
            message.reconsume_times,
            scheme.name if scheme else None,
        )

    def is_pending(self, row: RecordRow) -> bool:
        """Whether a delay scheme holds the message."""
        if row.due_us is None:
            return False
        message = StoredMessage(
            row.log_offset,
            row.queue_key,
            row.queue_offset,
            row.store_us,
            row.store_us,
            "",
            "",
            0,
            row.sys_flag,
            b"",
            row.properties,
            0,
            0,
            row.unique_key,
            row.due_us,
            row.real_queue_key,
            row.parked_offset,
        )
        return self._schemes.holding(message) is not None

    def goal(self, row: RecordRow) -> Queue:
        """The queue in which consumers find the message, now or once it is delivered."""
        return self._topics.queue(row.queue_key if row.real_queue_key is None else row.real_queue_key)

    def level(self, row: RecordRow) -> int | None:
        """The delay level of a parked or delivered record."""
        queue = self._topics.queue(row.queue_key)
        return queue.queue_id + 1 if queue.topic == SCHEDULE_TOPIC else row.level

    def of_record(self, row: RecordRow) -> Iterator[Event]:
        """The events of a record itself: sent, parked, delivered, given back, lost."""
        goal = self.goal(row)
        if is_system_topic(goal.topic):
            return
        if row.intervention == "lost" and row.intervened_us is not None:
            text = f"lost when {self._brokers.name_of(goal)} went down"
            if row.kind != "cancelled" and row.intervened_us > row.store_us:
                text += f", {format_duration(row.intervened_us - row.store_us)} after it was stored"
            yield self._event(row, row.intervened_us, "lost", text, rank=_AFTER_ALL)
        match row.kind:
            case "parked" | "retried" | "held":
                yield from self._waits(row, goal)
            case "cancelled" if row.intervention != "lost":
                yield self._cancelled(row, goal)
            case "prepared":
                text = f"prepared for {goal.topic}{_by(row)}"
                yield self._event(row, row.store_us, "prepared", text, door=row.door)
            case "dead":
                group = goal.topic.removeprefix(DLQ_PREFIX)
                yield self._event(row, row.store_us, "dead", f"dead at {group}", group=group)
            case "delivered":
                yield from self._delivered(row, goal)
            case "committed":
                yield self._event(row, row.store_us, "committed", f"committed to {goal.topic}")
            case "sent":
                priority, by = _priority(row), _by(row)
                text = f"sent to {goal.topic}{_in_lite_topic(goal)}{by}{_with(priority)}"
                yield self._event(row, row.store_us, "sent", text, door=row.door)._replace(priority=priority)

    def _waits(self, row: RecordRow, goal: Queue) -> Iterator[Event]:
        at_us = row.store_us if row.kind != "held" else row.stored_us
        if row.due_us is None and row.kind == "retried":  # a retry that a client sent itself, visible at once
            group = goal.topic.removeprefix(RETRY_PREFIX)
            yield self._event(row, row.store_us, "retried", f"given back by {group}", group=group)
        elif row.due_us is not None and at_us is not None:
            yield self._parked(row, goal, at_us, row.due_us)
            if row.intervention is None and row.kind != "held":
                yield self._event(row, row.due_us, "due", "due", rank=1)
        if row.intervention == "cancelled" and row.intervened_us is not None:
            yield self._event(row, row.intervened_us, "cancelled", "cancelled", rank=2)

    def _delivered(self, row: RecordRow, goal: Queue) -> Iterator[Event]:
        due_us, stored_us = row.delivery_due_us, row.stored_us
        if row.scheme != LevelQueues.name and due_us is not None and stored_us is not None:
            yield self._parked(row, goal, stored_us, due_us)
            if not row.forced:
                yield self._event(row, due_us, "due", "due", rank=1)
        if row.forced:
            text = f"delivered to {goal.topic} by hand, before it was due"
            yield self._event(row, row.store_us, "forced", text, rank=2)
        else:
            late_us = None if due_us is None else row.store_us - due_us
            event = self._event(
                row, row.store_us, "delivered", f"delivered to {goal.topic}", rank=2, late_us=late_us
            )
            yield event._replace(fault=row.fault)

    def _cancelled(self, row: RecordRow, goal: Queue) -> Event:
        """The only event of a message cancelled outside of the store, which has no record of its sending."""
        at_us, due_us = row.intervened_us or row.store_us, row.due_us
        text = f"cancelled while parked for {goal.topic}"
        text += "" if due_us is None else f" until {format_time(due_us, at_us)}"
        return self._event(row, at_us, "cancelled", text, rank=2, until_us=due_us)

    def _parked(self, row: RecordRow, goal: Queue, at_us: int, due_us: int) -> Event:
        level = self.level(row)
        keeper = row.scheme if level is None else f"level {level}"
        waits_us = due_us - at_us
        if level is None:
            waits_us -= waits_us % US_PER_MS  # absolute due times are rounded up to whole ms
        until = f"for {format_duration(waits_us)} until {format_time(due_us, at_us)}"
        until = f"parked ({keeper}) {until}" if keeper else f"parked {until}"
        if row.kind == "retried":
            group = goal.topic.removeprefix(RETRY_PREFIX)
            text = f"given back by {group}, {until}"
            event = self._event(row, at_us, "retried", text, group=group, until_us=due_us)
        else:
            text = f"sent to {goal.topic}{_by(row)}, {until}"
            event = self._event(row, at_us, "parked", text, until_us=due_us, door=row.door)
        return event._replace(scheme=row.scheme if level is None else LevelQueues.name, level=level)

    def of_receipt(self, row: RecordRow, receipt: ReceiptRecord, attempts: str) -> Iterator[Event]:
        """The events of a group's receipt. Retries, dead letters and commits are separate records."""
        group, outcome = receipt.group, receipt.outcome
        last_us, settled_us = receipt.last_taken_us, receipt.settled_us
        if row.kind != "prepared" and receipt.times:
            takes = parse_attempts(attempts)
            yield from self._attempts(row, receipt, takes)
            has_expired = self._is_expired(receipt) and not any(one.is_change for one in takes[-1:])
            if outcome is None and not has_expired:
                text = f"visible to {group} again"
                yield self._event(row, receipt.visible_us, "visible", text, rank=5, group=group)
        kind = _OUTCOMES.get(outcome or "")
        if kind is None or settled_us is None:
            return
        if row.kind == "prepared":
            yield self._event(row, settled_us, kind, kind, rank=5)
        else:
            text = f"passed over by {group}" if kind == "passed" else f"{kind} by {group}"
            late_us: int | None = None if last_us is None or kind == "passed" else settled_us - last_us
            yield self._event(row, settled_us, kind, text, rank=5, group=group, late_us=late_us)

    def _attempts(
        self, row: RecordRow, receipt: ReceiptRecord, attempts: Sequence[Attempt]
    ) -> Iterator[Event]:
        """The takes of a record, and the changes and expirations of its invisible time."""
        group = receipt.group
        if not attempts and receipt.first_taken_us is not None:
            attempts = [Attempt(False, receipt.first_taken_us, receipt.visible_us)]
        times = max(receipt.times - sum(not one.is_change for one in attempts), 0)
        for one, following in zip(attempts, [*attempts[1:], None], strict=True):
            if one.is_change:
                text = f"postponed by {group} for {format_duration(one.visible_us - one.at_us)}"
                yield self._event(
                    row, one.at_us, "postponed", text, rank=4, group=group, until_us=one.visible_us
                )
                continue
            times += 1
            yield self.taken(row, group, one.at_us, times)
            if following is None:
                is_dead = receipt.outcome == Outcome.DEAD and one.visible_us <= (receipt.settled_us or 0)
                is_over = is_dead or self._is_expired(receipt)
            else:
                is_over = not following.is_change
            if is_over:
                at_us = one.visible_us if following else min(one.visible_us, receipt.visible_us)
                text = f"not acknowledged by {group} in time"
                yield self._event(row, at_us, "expired", text, rank=2, group=group, times=times)

    def _is_expired(self, receipt: ReceiptRecord) -> bool:
        """Whether the message is visible again, and nobody has taken it since."""
        return receipt.outcome is None and receipt.visible_us <= self._clock.now_us()

    def of_trail(self, rows: Iterable[RecordRow]) -> Iterator[Event]:
        """The events of consumers by offset. A commit does not acknowledge messages given back before."""
        of_queue: dict[int, list[RecordRow]] = {}
        given_back: dict[tuple[str, str], int] = {}  # newest retry or dead letter, by unique key and group
        for row in rows:
            of_queue.setdefault(row.queue_key, []).append(row)
            goal = self.goal(row).topic
            for prefix in (RETRY_PREFIX, DLQ_PREFIX):
                if goal.startswith(prefix):
                    key = (row.unique_key, goal.removeprefix(prefix))
                    given_back[key] = max(row.log_offset, given_back.get(key, 0))
        takes: Counter[tuple[int, str]] = Counter()  # by log offset and group
        for at_us, group, queue, offsets, is_commit in self._trail.steps:
            for row in of_queue.get(queue.key, ()):
                if row.queue_offset not in offsets:
                    continue
                if not is_commit:
                    takes[row.log_offset, group] += 1
                    yield self.taken(row, group, at_us, takes[row.log_offset, group])
                elif given_back.get((row.unique_key, group), -1) <= row.log_offset:
                    yield self.acknowledged(row, group, at_us)

    def taken(self, row: RecordRow, group: str, at_us: int, times: int = 1) -> Event:
        """The event of a group taking a record for the ``times``-th time; the text counts retries, too."""
        late_us = at_us - row.store_us if times == 1 else None
        if self.goal(row).topic.startswith(RETRY_PREFIX):
            times += row.reconsume_times
        text = f"taken by {group}" + (f" for the {_nth(times)} time" if times > 1 else "")
        return self._event(row, at_us, "taken", text, rank=3, group=group, times=times, late_us=late_us)

    def acknowledged(self, row: RecordRow, group: str, at_us: int) -> Event:
        """The event of a group acknowledging a record."""
        return self._event(row, at_us, "acknowledged", f"acknowledged by {group}", rank=5, group=group)

    def of_fault(self, row: RecordRow | None, fault: FaultRecord, next_offset: int) -> Event:
        """The event of a fault injected into a request for ``row``, before ``next_offset`` was assigned."""
        at_us, door = fault.at_us, f" by {fault.door}" if fault.door else ""
        text = f"fault {fault.fault}: {fault.do} for {fault.operation}{door}"
        event = Event(at_us, (0, 0), "fault", text) if row is None else self._event(row, at_us, "fault", text)
        return event._replace(
            order=(next_offset - 1, _AFTER_ALL),
            fault=fault.fault,
            do=fault.do,
            operation=fault.operation,
            door=fault.door or None,
        )

    def _event(
        self, row: RecordRow, at_us: int, kind: EventKind, text: str, *, rank: int = 0,
        group: str | None = None, times: int | None = None, until_us: int | None = None,
        late_us: int | None = None, door: str | None = None,
    ) -> Event:  # fmt: skip
        properties = decode_properties(row.properties)
        goal = self.goal(row)
        tag, keys = properties.get(TAGS), properties.get(KEYS, "")
        marks = [f"tag {tag}"] if tag else []
        marks += [f"keys {keys}"] if keys else []
        return Event(
            at_us,
            (row.log_offset, rank),
            kind,
            text,
            goal.topic,
            goal.queue_id,
            row.unique_key,
            tag,
            tuple(keys.split()),
            group,
            times,
            until_us,
            late_us,
            door=door,
            lite_topic=goal.name if isinstance(goal, LiteQueue) else None,
            label=" ".join([*marks, preview(row.head[:_SHOWN], row.sys_flag)]),
        )


def move(from_us: int, to_us: int) -> Event:
    """The event of a clock move."""
    text = f"clock moved by {format_duration(to_us - from_us)} to {format_time(to_us, from_us)}"
    return Event(from_us, (_LAST, 0), "moved", text, until_us=to_us)


def broker_changed(change: BrokerChange) -> Event:
    """The event of a broker that has ended, started, or changed otherwise."""
    order = (change.after_offset, _AFTER_ALL)
    return Event(change.at_us, order, "broker", f"{change.broker} {change.what}")


def state_of(newest: RecordRow, outcomes: Iterable[str | None], *, is_pending: bool) -> MessageState:
    """The state of a message, given its newest record and the outcomes of that record's receipts.

    ``is_pending`` is set if a delay scheme has the record.
    """
    if newest.intervention == "lost":
        return "lost"
    match newest.kind:
        case "parked" | "retried" | "held" | "cancelled" if newest.due_us is not None:
            if is_pending:
                return "pending"
            return "cancelled" if newest.intervention == "cancelled" else "delivered"
        case "prepared":
            if is_pending:
                return "pending"
            return "rolled back" if Outcome.ROLLED_BACK in outcomes else "prepared"
        case "delivered" | "dead" | "abandoned":
            return newest.kind
    return "stored"


def _in_lite_topic(queue: Queue) -> str:
    return f", lite topic {queue.name}," if isinstance(queue, LiteQueue) else ""


def _priority(row: RecordRow) -> int | None:
    if PRIORITY not in row.properties:  # avoids decoding the properties of most messages
        return None
    return priority_of(decode_properties(row.properties))


def _with(priority: int | None) -> str:
    return "" if priority is None else f" with priority {priority}"


def _by(row: RecordRow) -> str:
    return f" by {row.door}" if row.door else ""


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number}{ending}"
