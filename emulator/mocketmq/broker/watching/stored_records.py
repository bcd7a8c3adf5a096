"""Short descriptions of stored records, for lists: the newest of them, and those that a search finds."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.verification.like import shown_body
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
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.store import Store

RecordKind = Literal[
    "sent", "committed", "parked", "retried", "delivered", "forced", "cancelled", "prepared", "dead"
]

SCANNED: Final = 20_000
"""Log offsets that one search looks through."""
_OUTSIDE: Final = 1_000
"""Messages outside of the store that a search looks through."""
_SHOWN: Final = 120
"""Bytes of a body that are read."""

_COLUMNS = f"""
SELECT m.log_offset, m.queue_key, m.queue_offset, m.store_us, m.unique_key, m.properties, m.due_us,
 m.real_queue_key, m.parked_offset, m.prepared_offset, substr(m.body, 1, {_SHOWN}), length(m.body),
 m.sys_flag, d.level, d.due_us, d.delivered_us, d.forced, i.kind
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset
LEFT JOIN interventions i ON i.parked_offset = m.log_offset
WHERE m.log_offset >= ? AND m.log_offset < ?{{wanted}} ORDER BY m.log_offset DESC LIMIT ?"""
_PROPERTY = " AND instr(char(2) || m.properties, char(2) || ? || char(1) || ? || char(2)) > 0"
_KEY = " AND instr(m.properties, ?) > 0"
_TEXT = (
    " AND (instr(m.body, CAST(? AS BLOB)) > 0 OR instr(m.properties, ?) > 0 OR instr(m.unique_key, ?) > 0)"
)
_TOPIC = " AND coalesce(m.real_queue_key, m.queue_key) IN (SELECT key FROM queues WHERE topic = ?)"


class RecordSummary(NamedTuple):
    """A record in a line. ``topic`` is where it goes; ``group`` the one that gave it back.

    ``level`` is that of a parked or delivered record. ``lateness_us`` is that of a delivery by itself.
    ``preview`` is the beginning of the body, shortened.
    """

    log_offset: int
    kind: RecordKind
    message_id: str
    topic: str
    queue_id: int
    group: str | None
    tag: str | None
    keys: tuple[str, ...]
    store_us: int
    due_us: int | None
    level: int | None
    lateness_us: int | None
    size: int
    preview: str


class RecordSearch(NamedTuple):
    """Which records. All that is given has to hold; ``text`` is in body, properties or unique key."""

    topic: str | None = None
    tag: str | None = None
    key: str | None = None
    text: str | None = None


class FoundRecords(NamedTuple):
    """Records, newest first, and where to go on: below this log offset; None at the end."""

    records: list[RecordSummary]
    next_before: int | None


class _Row(NamedTuple):
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
    size: int
    sys_flag: int
    level: int | None = None
    delivered_due_us: int | None = None
    delivered_us: int | None = None
    forced: int | None = None
    intervention: str | None = None


class StoredRecords:
    """Describes records in lines. Nothing is kept; each call reads the store."""

    def __init__(self, store: Store, topics: Topics, schemes: SchemeSet) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = topics
        self._schemes = schemes

    async def between(self, start: int, end: int, limit: int) -> list[RecordSummary]:
        """The newest records with log offsets from ``start`` to ``end - 1``, newest first."""
        rows = await self._database.rows(_COLUMNS.format(wanted=""), (start, end, limit))
        return list(self._described(map(_Row._make, rows)))

    async def waiting_outside(self, after: int, limit: int) -> list[RecordSummary]:
        """Messages that wait outside of the store, numbered above ``after``, in order of arrival."""
        found = await self._schemes.outside(after, limit)
        return list(self._described(map(_of_waiting, found)))

    async def search(
        self, wanted: RecordSearch, *, after: int = -1, before: int | None = None, limit: int = 100
    ) -> FoundRecords:
        """Records with log offsets above ``after`` and below ``before``, newest first.

        Looks through :data:`SCANNED` offsets at most. Without ``before``, messages that wait outside of the
        store come first. Bodies that a client compressed are not looked into.
        """
        conditions, parameters = _conditions(wanted)
        sql = _COLUMNS.format(wanted=conditions)
        end = self._writer.next_log_offset if before is None else min(before, self._writer.next_log_offset)
        start = min(max(after + 1, end - SCANNED, 0), end)
        rows = [
            _Row._make(row) for row in await self._database.rows(sql, (start, end, *parameters, limit + 1))
        ]
        next_before = start if max(after + 1, 0) < start < end else None
        if len(rows) > limit:
            rows = rows[:limit]
            next_before = rows[-1].log_offset
        records = [one for one in self._described(rows) if wanted.key is None or wanted.key in one.keys]
        if before is None and after < 0:
            records[:0] = await self._outside(wanted)
        return FoundRecords(records, next_before)

    async def _outside(self, wanted: RecordSearch) -> list[RecordSummary]:
        if wanted.topic is not None and self._topics.find(wanted.topic) is None:
            return []
        waiting = await self._schemes.outside(-1, _OUTSIDE, topic=wanted.topic)
        fitting = [one for one in reversed(waiting) if _fits(one, wanted)]
        return list(self._described(map(_of_waiting, fitting)))

    def _described(self, rows: Iterator[_Row] | Sequence[_Row]) -> Iterator[RecordSummary]:
        for row in rows:
            if (kind := self._kind(row)) is not None:
                yield self._describe(row, kind)

    def _kind(self, row: _Row) -> RecordKind | None:
        topic = self._topics.queue(row.queue_key).topic
        if topic in (SCHEDULE_TOPIC, TIMER_TOPIC) and row.real_queue_key is not None:
            if row.intervention == "cancelled":
                return "cancelled"
            is_retry = self._topics.queue(row.real_queue_key).topic.startswith(RETRY_PREFIX)
            return "retried" if is_retry else "parked"
        if topic == CHECKED_HALF_TOPIC or topic.startswith(HALF_PREFIX):
            return "prepared"
        if topic.startswith(DLQ_PREFIX):
            return "dead"
        if is_system_topic(topic):
            return None
        if row.parked_offset is None:
            return "sent" if row.prepared_offset is None else "committed"
        return "forced" if row.forced else "delivered"

    def _describe(self, row: _Row, kind: RecordKind) -> RecordSummary:
        queue = self._topics.queue(row.queue_key)
        goal = queue if row.real_queue_key is None else self._topics.queue(row.real_queue_key)
        level = queue.queue_id + 1 if queue.topic == SCHEDULE_TOPIC else row.level
        prefix = next((one for one in (RETRY_PREFIX, DLQ_PREFIX) if goal.topic.startswith(one)), None)
        lateness_us = None
        if kind == "delivered" and row.delivered_us is not None and row.delivered_due_us is not None:
            lateness_us = row.delivered_us - row.delivered_due_us
        properties = decode_properties(row.properties)
        return RecordSummary(
            row.log_offset,
            kind,
            row.unique_key,
            goal.topic,
            goal.queue_id,
            goal.topic.removeprefix(prefix) if prefix else None,
            properties.get(TAGS),
            tuple(properties.get(KEYS, "").split()),
            row.store_us,
            row.delivered_due_us if row.due_us is None else row.due_us,
            level,
            lateness_us,
            row.size,
            "(compressed)" if is_compressed(row.sys_flag) else shown_body(row.body),
        )


def _conditions(wanted: RecordSearch) -> tuple[str, list[object]]:
    conditions = ""
    parameters: list[object] = []
    if wanted.topic is not None:
        conditions += _TOPIC
        parameters.append(wanted.topic)
    if wanted.tag is not None:
        conditions += _PROPERTY
        parameters += [TAGS, wanted.tag]
    if wanted.key is not None:
        conditions += _KEY
        parameters.append(wanted.key)
    if wanted.text is not None:
        conditions += _TEXT
        parameters += [wanted.text] * 3
    return conditions, parameters


def _fits(message: StoredMessage, wanted: RecordSearch) -> bool:
    properties = decode_properties(message.properties)
    return (
        (wanted.tag is None or properties.get(TAGS) == wanted.tag)
        and (wanted.key is None or wanted.key in properties.get(KEYS, "").split())
        and (
            wanted.text is None
            or wanted.text.encode() in message.body
            or wanted.text in message.properties
            or wanted.text in message.unique_key
        )
    )


def _of_waiting(message: StoredMessage) -> _Row:
    return _Row(
        *message[:4],
        unique_key=message.unique_key,
        properties=message.properties,
        due_us=message.due_us,
        real_queue_key=message.real_queue_key,
        parked_offset=None,
        prepared_offset=None,
        body=message.body[:_SHOWN],
        size=len(message.body),
        sys_flag=message.sys_flag,
    )
