"""Reads sent messages and their outcomes from the store, incrementally.

A sent message has one or more records: parked until it is due, then delivered to its topic, given back by a
group and parked again, delivered to ``%RETRY%group``, and finally in ``%DLQ%group``. A half message counts as
sent once it is committed. Sending writes nothing extra for this module; the cost is in the reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from mocketmq.broker.message_records import RECORDS, RecordRow
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.verification.message_matcher import MessageMatcher
from mocketmq.message.body import body_of
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from mocketmq.message.properties import ORIGIN_MESSAGE_ID, RETRY_TOPIC, decode_properties
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme import PendingFilter
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.messages import messages_at
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

MAX_KEPT = 100_000
"""Maximum number of messages that are remembered while a client waits. Older messages are forgotten."""
_STEP = 2_000
_STEP_BYTES = 8 << 20
_OVERLAP = 256
"""Number of messages outside of the store that are read again, because files are not saved in order."""

_START = "SELECT log_offset FROM messages ORDER BY log_offset LIMIT 1"
_RECORDS = f"{RECORDS} WHERE m.log_offset >= ? AND m.log_offset < ?{{}} ORDER BY m.log_offset"
_KEYS = (
    "SELECT key FROM queues"
    " WHERE topic = ? OR substr(topic, 1, 7) = '%RETRY%' OR substr(topic, 1, 5) = '%DLQ%'"
)
_OF_ALL = _RECORDS.format("")
_OF_TOPIC = _RECORDS.format(f" AND (m.queue_key IN ({_KEYS}) OR m.real_queue_key IN ({_KEYS}))")
_NOT_DELIVERED = (
    "SELECT parked_offset, kind = 'lost' FROM interventions"
    " WHERE kind IN ('cancelled', 'lost') AND parked_offset IN ({marks})"
)


class QueuePosition(msgspec.Struct, frozen=True):
    """The position at which consumers find a record of a message, and the instant when it became visible."""

    queue: Queue
    queue_offset: int
    log_offset: int
    at_us: int


class Again(msgspec.Struct, frozen=True):
    """The result of a group's last failure: a retry, parked until ``due_us``, or a dead letter.

    ``record`` is the log offset of the retry or the dead letter.
    """

    record: int
    position: QueuePosition | None  # None while the message is parked
    due_us: int
    is_dead: bool


Identity = tuple[str, int]
"""The unique key, and the number of a message that was outside of the store, otherwise ``-1 - record``."""


@dataclass(eq=False, slots=True)
class SentMessage:
    """A message that a producer sent. ``record`` identifies the record with its content.

    ``record`` is a log offset, or the number of a pending message outside of the store (``is_outside``).
    ``identity`` stays the same when such a message is delivered.
    ``positions`` are the positions of the message in its topic: none before its delivery, several if it was
    repeated.
    """

    identity: Identity
    queue: Queue
    sent_us: int
    record: int
    due_us: int | None = None  # None: the message was not delayed
    level: int | None = None
    is_outside: bool = False
    is_cancelled: bool = False
    is_lost: bool = False  # by a crash of its broker
    positions: list[QueuePosition] = field(default_factory=list)
    again: dict[str, Again] = field(default_factory=dict)  # by group

    @property
    def unique_key(self) -> str:
        """The unique key of the message."""
        return self.identity[0]

    def current_position(self, group: str) -> QueuePosition | None:
        """The position at which the group finds the message now; None while it waits, or once it is dead."""
        again = self.again.get(group)
        if again is not None:
            return None if again.is_dead else again.position
        return self.positions[-1] if self.positions else None


@dataclass(eq=False, repr=False)
class SentMessages:
    """The messages of one topic, or of all topics, that match the conditions. :meth:`follow` reads new ones.

    ``forgotten`` counts forgotten messages beyond ``MAX_KEPT``, and ``forgotten_positions`` their deliveries.
    """

    _store: Store
    _topics: Topics
    _schemes: SchemeSet
    _topic: str | None
    _matcher: MessageMatcher
    _max_message_bytes: int

    def __post_init__(self) -> None:
        self.forgotten = self.forgotten_positions = 0
        self._read_to: int | None = None
        self._kept_outside = -1
        self._last_number = -1
        self._found: dict[Identity, SentMessage] = {}
        self._by_record: dict[int, SentMessage] = {}  # by log offset of the record, and of each position
        self._by_key: dict[str, SentMessage] = {}  # the newest message with each unique key

    def __iter__(self) -> Iterator[SentMessage]:
        """All remembered messages, in no particular order."""
        return iter(self._found.values())

    def in_order(self) -> list[SentMessage]:
        """The messages in order of sending. At the same instant, those outside of the store come first."""
        return sorted(self, key=lambda sent: sent.sent_us)

    def __len__(self) -> int:
        return len(self._found)

    async def follow(self) -> None:
        """Read the messages sent, delivered or given back since the last call. Raises a StoreError."""
        kept, end = self._store.writer.kept_outside, self._store.writer.next_log_offset
        # Messages outside of the store first. A message delivered in between is then found twice, not never.
        if kept != self._kept_outside:
            await self._follow_outside()
            self._kept_outside = kept
        if self._read_to is None:
            rows = await self._store.database.rows(_START)
            self._read_to = rows[0][0] if rows else end
        while self._read_to < end:
            until = min(self._read_to + _STEP, end)
            if self._topic is None:
                rows = await self._store.database.rows(_OF_ALL, (self._read_to, until))
            else:
                rows = await self._store.database.rows(
                    _OF_TOPIC, (self._read_to, until, self._topic, self._topic)
                )
            await self._add([RecordRow._make(row) for row in rows])
            self._read_to = until

    async def _follow_outside(self) -> None:
        if self._topic is not None and self._topics.find_topic(self._topic) is None:
            return
        after = self._last_number - _OVERLAP if self._last_number >= 0 else -1
        while page := await self._schemes.outside(after, _STEP, PendingFilter(self._topic)):
            for message in page:
                after = message.log_offset
                self._add_outside(message)
            if len(page) < _STEP:
                break
        self._last_number = max(self._last_number, after)

    def _add_outside(self, message: StoredMessage) -> None:
        queue = self._topics.queue(message.real_queue_key or 0)
        key = (message.unique_key, message.log_offset)
        if key in self._found or not self._is_wanted(queue):
            return
        properties = decode_properties(message.properties)
        if self._differs(message.unique_key, properties, is_delayed=True, level=None):
            return
        if self._matcher.needs_body and self._body_differs(message):
            return
        number, due_us = message.log_offset, message.due_us
        self._keep(SentMessage(key, queue, message.store_us, number, due_us, is_outside=True))

    async def _add(self, records: Sequence[RecordRow]) -> None:
        new: list[tuple[RecordRow, SentMessage]] = []
        made: dict[int, SentMessage] = {}  # by record, including messages that do not match
        for record in records:
            queue = self._topics.queue(record.queue_key)
            if (found := self._beginning(record, queue)) is not None:
                made[record.log_offset] = found
                new.append((record, found))
        wanted = await self._matching(new)
        for record in records:
            if record.log_offset in wanted:
                self._keep(made[record.log_offset])
            self._add_place(record)

    def _beginning(self, record: RecordRow, queue: Queue) -> SentMessage | None:
        """Make the message if this is its first record in the store, otherwise return None."""
        if record.kind in ("prepared", "abandoned"):
            return None
        goal = queue if record.real_queue_key is None else self._topics.queue(record.real_queue_key)
        if not self._is_wanted(goal, record.log_offset):
            return None
        own = (record.unique_key, -1 - record.log_offset)
        sent_us, due_us, level = record.store_us, record.due_us, None
        if record.kind in ("cancelled", "held"):
            if record.number is None:
                return None
            own = (record.unique_key, record.number)
            sent_us = record.store_us if record.stored_us is None else record.stored_us
        elif record.kind == "delivered":
            if record.scheme == LevelQueues.name:
                return None
            own = (record.unique_key, record.parked_offset or 0)
            sent_us = record.store_us if record.stored_us is None else record.stored_us
            due_us = record.delivery_due_us
        elif record.due_us is not None:
            level = queue.queue_id + 1
        if own in self._found:
            return None
        sent = SentMessage(own, goal, sent_us, record.log_offset, due_us=due_us, level=level)
        sent.is_lost = record.intervention == "lost"
        return sent

    async def _matching(self, new: Sequence[tuple[RecordRow, SentMessage]]) -> set[int]:
        """The log offsets of the records of new messages that match."""
        matching: list[RecordRow] = []
        for record, sent in new:
            properties = decode_properties(record.properties)
            is_delayed = sent.due_us is not None
            if not self._differs(record.unique_key, properties, is_delayed=is_delayed, level=sent.level):
                matching.append(record)
        if not self._matcher.needs_body:
            return {record.log_offset for record in matching}
        found: set[int] = set()
        for some in _in_steps(matching):
            messages = await messages_at(self._store.database, [record.log_offset for record in some])
            found.update(offset for offset, one in messages.items() if not self._body_differs(one))
        return found

    def _add_place(self, record: RecordRow) -> None:
        """Add the data of a further record of a known message."""
        queue = self._topics.queue(record.queue_key)
        sent: SentMessage | None
        if record.kind in ("cancelled", "held"):
            sent = self._found.get((record.unique_key, record.number or 0))
            if sent is not None:
                sent.record, sent.is_outside = record.log_offset, False
                sent.is_lost = record.intervention == "lost"
                sent.is_cancelled = record.kind == "cancelled" and not sent.is_lost
            return
        if record.intervention == "lost":
            return
        if record.due_us is not None:
            if record.kind == "retried":
                self._add_again(record, self._topics.queue(record.real_queue_key or 0), is_visible=False)
            return
        if record.kind in ("prepared", "abandoned"):
            return
        if record.kind != "delivered":
            sent = self._by_record.get(record.log_offset)
        elif record.scheme == LevelQueues.name:
            sent = self._by_record.get(record.parked_offset or 0)
        else:
            sent = self._found.get((record.unique_key, record.parked_offset or 0))
        if sent is not None and sent.queue.topic == queue.topic:
            sent.positions.append(
                QueuePosition(queue, record.queue_offset, record.log_offset, record.store_us)
            )
            if sent.is_outside:
                sent.record, sent.is_outside = record.log_offset, False
            self._by_record[record.log_offset] = sent
        elif queue.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            self._add_again(record, queue, is_visible=True)

    def _add_again(self, record: RecordRow, queue: Queue, *, is_visible: bool) -> None:
        """Add a retry or a dead letter to the message that a group gave back."""
        properties = decode_properties(record.properties)
        origin = log_offset_of(properties.get(ORIGIN_MESSAGE_ID, ""))
        sent = self._by_record.get(origin) if origin is not None else None
        if sent is None or sent.unique_key != record.unique_key:
            sent = self._by_key.get(record.unique_key)
        if sent is None or sent.queue.topic != properties.get(RETRY_TOPIC):
            return
        is_dead = record.kind == "dead"
        group = queue.topic.removeprefix(DLQ_PREFIX if is_dead else RETRY_PREFIX)
        position = QueuePosition(queue, record.queue_offset, record.log_offset, record.store_us)
        sent.again[group] = Again(
            record.log_offset, position if is_visible else None, record.due_us or 0, is_dead
        )

    def _is_wanted(self, queue: Queue, log_offset: int | None = None) -> bool:
        if log_offset is not None and log_offset < queue.emptied_at:
            return False  # a record from before the reset, kept in a level queue
        topic = queue.topic
        if self._topic is not None:
            return topic == self._topic
        return not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))

    def _differs(
        self, unique_key: str, properties: dict[str, str], *, is_delayed: bool, level: int | None
    ) -> bool:
        return any(self._matcher.differences(unique_key, properties, delayed=is_delayed, level=level))

    def _body_differs(self, message: StoredMessage) -> bool:
        return any(self._matcher.body_differences(body_of(message, self._max_message_bytes).content))

    def _keep(self, sent: SentMessage) -> None:
        self._found[sent.identity] = sent
        self._by_key[sent.unique_key] = sent
        if not sent.is_outside:
            self._by_record[sent.record] = sent
        if len(self._found) > MAX_KEPT:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = self._found.pop(next(iter(self._found)))
        self.forgotten += 1
        self.forgotten_positions += len(oldest.positions)
        for record in (oldest.record, *(position.log_offset for position in oldest.positions)):
            self._by_record.pop(record, None)
        if self._by_key.get(oldest.unique_key) is oldest:
            del self._by_key[oldest.unique_key]

    async def note_cancelled(self, some: Iterable[SentMessage]) -> None:
        """Mark the messages that were cancelled, or lost by a crash, while they waited in a level queue."""
        waiting = {
            sent.record: sent
            for sent in some
            if sent.due_us is not None and not (sent.positions or sent.is_outside)
        }
        offsets = iter(waiting)
        while batch := list(islice(offsets, 500)):
            sql = _NOT_DELIVERED.format(marks=",".join("?" * len(batch)))
            for offset, is_lost in await self._store.database.rows(sql, batch):
                waiting[offset].is_lost = bool(is_lost)
                waiting[offset].is_cancelled = not is_lost

    async def contents(self, some: Sequence[SentMessage]) -> dict[int, StoredMessage]:
        """The records of these messages by :attr:`SentMessage.record`. Removed records are omitted."""
        found = await messages_at(self._store.database, [sent.record for sent in some if not sent.is_outside])
        for sent in some:
            if sent.is_outside and (waiting := await self._schemes.numbered(sent.record)):
                found[sent.record] = waiting
        return found


def _in_steps(records: Sequence[RecordRow]) -> Iterator[list[RecordRow]]:
    """Yield the records in lists, each with a limited total size of the bodies."""
    some: list[RecordRow] = []
    size = 0
    for record in records:
        if some and (size + record.size > _STEP_BYTES or len(some) == _STEP):
            yield some
            some, size = [], 0
        some.append(record)
        size += record.size
    if some:
        yield some
