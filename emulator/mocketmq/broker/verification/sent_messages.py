"""Reads sent messages and their outcomes from the store, incrementally.

A message that was sent is one record or several: parked until it is due, then delivered to its topic, given
back by a group and parked once more, delivered to ``%RETRY%group``, at last in ``%DLQ%group``. A half message
was sent once it is committed. Nothing is written for this while messages are sent; whoever asks reads.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.verification.like import MessageMatcher
from mocketmq.broker.verification.sent_message import Again, Identity, QueuePlace, SentMessage
from mocketmq.message.body import body_of
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    is_hidden_topic,
    is_system_topic,
)
from mocketmq.message.properties import ORIGIN_MESSAGE_ID, RETRY_TOPIC, decode_properties
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.messages import messages_at
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

MAX_KEPT = 100_000
"""Messages that are remembered while a client waits; older ones are forgotten."""
_STEP = 2_000
_STEP_BYTES = 8 << 20
_OVERLAP = 256
"""Messages outside of the store that are looked at again, as their files are not saved in order."""

_START = "SELECT log_offset FROM messages ORDER BY log_offset LIMIT 1"
_RECORDS = """
SELECT m.log_offset, m.queue_key, m.queue_offset, m.store_us, m.unique_key, m.properties, m.due_us,
 m.real_queue_key, m.parked_offset, length(m.body), d.scheme, d.stored_us, d.due_us, (
  SELECT number FROM timed_messages t
  WHERE t.due_ms = m.due_us / 1000 AND t.outcome <> 'delivered' AND t.log_offset = m.log_offset)
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset
WHERE m.log_offset >= ? AND m.log_offset < ?{condition} ORDER BY m.log_offset"""
_KEYS = (
    "SELECT key FROM queues"
    " WHERE topic = ? OR substr(topic, 1, 7) = '%RETRY%' OR substr(topic, 1, 5) = '%DLQ%'"
)
_OF_ALL = _RECORDS.format(condition="")
_OF_TOPIC = _RECORDS.format(condition=f" AND (m.queue_key IN ({_KEYS}) OR m.real_queue_key IN ({_KEYS}))")
_CANCELLED = "SELECT parked_offset FROM interventions WHERE kind = 'cancelled' AND parked_offset IN ({marks})"


class _Record(NamedTuple):
    """A row of ``messages`` without its body, and of ``deliveries`` if it was delayed.

    ``cancelled_number`` is that of a message outside of the store that this record says to be cancelled.
    """

    log_offset: int
    queue_key: int
    queue_offset: int
    store_us: int
    unique_key: str
    properties: str
    due_us: int | None
    real_queue_key: int | None
    parked_offset: int | None
    size: int
    scheme: str | None
    delayed_stored_us: int | None
    delayed_due_us: int | None
    cancelled_number: int | None


class SentMessages:
    """The messages of one topic, or of all, that are like this; :meth:`follow` reads what is new.

    ``forgotten`` counts those beyond ``MAX_KEPT``, and ``forgotten_places`` where they were delivered.
    """

    def __init__(
        self,
        store: Store,
        topics: Topics,
        schemes: SchemeSet,
        topic: str | None,
        like: MessageMatcher,
        max_message_bytes: int,
    ) -> None:
        self.forgotten = self.forgotten_places = 0
        self._database = store.database
        self._writer = store.writer
        self._topics = topics
        self._schemes = schemes
        self._topic = topic
        self._like = like
        self._max_message_bytes = max_message_bytes
        self._read_to: int | None = None
        self._kept_outside = -1
        self._last_number = -1
        self._found: dict[Identity, SentMessage] = {}
        self._by_record: dict[int, SentMessage] = {}  # also by each place
        self._by_key: dict[str, SentMessage] = {}  # the newest with this unique key

    def __iter__(self) -> Iterator[SentMessage]:
        """In any order."""
        return iter(self._found.values())

    def in_order(self) -> list[SentMessage]:
        """As they were sent. At one instant, those outside of the store come first."""
        return sorted(self, key=lambda sent: sent.sent_us)

    def __len__(self) -> int:
        return len(self._found)

    async def follow(self) -> None:
        """Read what was sent, delivered and given back since the last call. Raises a StoreError."""
        kept, end = self._writer.kept_outside, self._writer.next_log_offset
        # First what waits outside: what is delivered meanwhile is then found twice rather than not at all.
        if kept != self._kept_outside:
            await self._follow_outside()
            self._kept_outside = kept
        if self._read_to is None:
            rows = await self._database.rows(_START)
            self._read_to = rows[0][0] if rows else end
        while self._read_to < end:
            until = min(self._read_to + _STEP, end)
            if self._topic is None:
                rows = await self._database.rows(_OF_ALL, (self._read_to, until))
            else:
                rows = await self._database.rows(_OF_TOPIC, (self._read_to, until, self._topic, self._topic))
            await self._add([_Record._make(row) for row in rows])
            self._read_to = until

    async def _follow_outside(self) -> None:
        if self._topic is not None and self._topics.find(self._topic) is None:
            return
        after = self._last_number - _OVERLAP if self._last_number >= 0 else -1
        while page := await self._schemes.outside(after, _STEP, topic=self._topic):
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
        if self._like.needs_body and self._body_differs(message):
            return
        self._keep(
            SentMessage(
                key,
                queue,
                message.store_us,
                message.log_offset,
                due_us=message.due_us,
                is_outside=True,
            ),
        )

    async def _add(self, records: Sequence[_Record]) -> None:
        new: list[tuple[_Record, SentMessage]] = []
        made: dict[int, SentMessage] = {}  # by record, also those that are not like this
        for record in records:
            queue = self._topics.queue(record.queue_key)
            if (found := self._beginning(record, queue)) is not None:
                made[record.log_offset] = found
                new.append((record, found))
        wanted = await self._like_this(new)
        for record in records:
            if record.log_offset in wanted:
                self._keep(made[record.log_offset])
            self._add_place(record)

    def _beginning(self, record: _Record, queue: Queue) -> SentMessage | None:
        """The message, if this is its first record in the store."""
        own = (record.unique_key, -1 - record.log_offset)
        if queue.topic in (SCHEDULE_TOPIC, TIMER_TOPIC) and record.real_queue_key is not None:
            real = self._topics.queue(record.real_queue_key)
            if not self._is_wanted(real, record.log_offset):
                return None
            level: int | None = queue.queue_id + 1
            if record.cancelled_number is not None:
                own, level = (record.unique_key, record.cancelled_number), None
                if own in self._found:
                    return None
            return SentMessage(
                own, real, record.store_us, record.log_offset, due_us=record.due_us, level=level
            )
        if record.real_queue_key is not None or not self._is_wanted(queue, record.log_offset):
            return None
        if record.parked_offset is None:
            return SentMessage(own, queue, record.store_us, record.log_offset)
        outside = (record.unique_key, record.parked_offset)
        if record.scheme == LevelQueues.name or outside in self._found:
            return None
        sent_us = record.store_us if record.delayed_stored_us is None else record.delayed_stored_us
        return SentMessage(outside, queue, sent_us, record.log_offset, due_us=record.delayed_due_us)

    async def _like_this(self, new: Sequence[tuple[_Record, SentMessage]]) -> set[int]:
        """Of new messages, the records of those that are like this."""
        alike: list[_Record] = []
        for record, sent in new:
            properties = decode_properties(record.properties)
            is_delayed = sent.due_us is not None
            if not self._differs(record.unique_key, properties, is_delayed=is_delayed, level=sent.level):
                alike.append(record)
        if not self._like.needs_body:
            return {record.log_offset for record in alike}
        found: set[int] = set()
        for some in _in_steps(alike):
            messages = await messages_at(self._database, [record.log_offset for record in some])
            found.update(offset for offset, one in messages.items() if not self._body_differs(one))
        return found

    def _add_place(self, record: _Record) -> None:
        """Add what a record says about a message that is known."""
        queue = self._topics.queue(record.queue_key)
        sent: SentMessage | None
        if record.cancelled_number is not None:
            sent = self._found.get((record.unique_key, record.cancelled_number))
            if sent is not None:
                sent.record, sent.is_outside, sent.is_cancelled = record.log_offset, False, True
            return
        if queue.topic == SCHEDULE_TOPIC:
            real = self._topics.queue(record.real_queue_key or 0)
            if real.topic.startswith(RETRY_PREFIX):
                self._add_again(record, real, is_visible=False)
            return
        if is_hidden_topic(queue.topic):
            return
        if record.parked_offset is None:
            sent = self._by_record.get(record.log_offset)
        elif record.scheme == LevelQueues.name:
            sent = self._by_record.get(record.parked_offset)
        else:
            sent = self._found.get((record.unique_key, record.parked_offset))
        if sent is not None and sent.queue.topic == queue.topic:
            sent.places.append(QueuePlace(queue, record.queue_offset, record.log_offset, record.store_us))
            if sent.is_outside:
                sent.record, sent.is_outside = record.log_offset, False
            self._by_record[record.log_offset] = sent
        elif queue.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            self._add_again(record, queue, is_visible=True)

    def _add_again(self, record: _Record, queue: Queue, *, is_visible: bool) -> None:
        """Add a retry or a dead letter: what a group made of a message of this topic."""
        properties = decode_properties(record.properties)
        origin = log_offset_of(properties.get(ORIGIN_MESSAGE_ID, ""))
        sent = self._by_record.get(origin) if origin is not None else None
        if sent is None or sent.unique_key != record.unique_key:
            sent = self._by_key.get(record.unique_key)
        if sent is None or sent.queue.topic != properties.get(RETRY_TOPIC):
            return
        is_dead = queue.topic.startswith(DLQ_PREFIX)
        group = queue.topic.removeprefix(DLQ_PREFIX if is_dead else RETRY_PREFIX)
        place = QueuePlace(queue, record.queue_offset, record.log_offset, record.store_us)
        sent.again[group] = Again(place if is_visible else None, record.due_us or 0, is_dead)

    def _is_wanted(self, queue: Queue, log_offset: int | None = None) -> bool:
        if log_offset is not None and log_offset < queue.emptied_at:
            return False  # a record of what was delayed: the level queues keep it
        topic = queue.topic
        if self._topic is not None:
            return topic == self._topic
        return not is_system_topic(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))

    def _differs(
        self, unique_key: str, properties: dict[str, str], *, is_delayed: bool, level: int | None
    ) -> bool:
        return any(self._like.differences(unique_key, properties, delayed=is_delayed, level=level))

    def _body_differs(self, message: StoredMessage) -> bool:
        return any(self._like.body_differences(body_of(message, self._max_message_bytes).content))

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
        self.forgotten_places += len(oldest.places)
        for record in (oldest.record, *(place.log_offset for place in oldest.places)):
            self._by_record.pop(record, None)
        if self._by_key.get(oldest.unique_key) is oldest:
            del self._by_key[oldest.unique_key]

    async def note_cancelled(self, some: Iterable[SentMessage]) -> None:
        """Find out which of these were cancelled while they waited in a level queue."""
        waiting = {
            sent.record: sent
            for sent in some
            if sent.due_us is not None and not (sent.places or sent.is_outside)
        }
        offsets = iter(waiting)
        while batch := list(islice(offsets, 500)):
            sql = _CANCELLED.format(marks=",".join("?" * len(batch)))
            for (offset,) in await self._database.rows(sql, batch):
                waiting[offset].is_cancelled = True

    async def contents(self, some: Sequence[SentMessage]) -> dict[int, StoredMessage]:
        """The records of these, by :attr:`SentMessage.record`, without those that are gone."""
        found = await messages_at(self._database, [sent.record for sent in some if not sent.is_outside])
        for sent in some:
            if sent.is_outside and (waiting := await self._schemes.numbered(sent.record)):
                found[sent.record] = waiting
        return found


def _in_steps(records: Sequence[_Record]) -> Iterator[list[_Record]]:
    """The records in lists whose bodies are not too large together."""
    some: list[_Record] = []
    size = 0
    for record in records:
        if some and (size + record.size > _STEP_BYTES or len(some) == _STEP):
            yield some
            some, size = [], 0
        some.append(record)
        size += record.size
    if some:
        yield some
