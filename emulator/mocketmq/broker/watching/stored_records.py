"""Short descriptions of stored records, for lists: the newest records, and the results of a search."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from mocketmq.broker.life import Lives
from mocketmq.broker.message_records import RECORDS, RecordRow
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import LATEST_US, steady_us
from mocketmq.message.body import preview
from mocketmq.message.message import RecordKind, StoredMessage
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from mocketmq.message.properties import KEYS, LITE_TOPIC, TAGS, decode_properties
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

SummaryKind = RecordKind | Literal["forced", "lost"]
"""Kind of a record. A delivery by hand is ``forced``, and a cancelled parked record is ``cancelled``."""

SCANNED: Final = 20_000
"""Maximum number of log offsets that one search covers."""
FIRST_NUMBER: Final = (1 << 63) - 1
"""Upper bound of the numbers of messages outside of the store."""
_OUTSIDE: Final = 1_000
"""Number of messages outside of the store after which a search ends."""
_OUTSIDE_US: Final = 500_000
"""Maximum real time for which a search goes through messages outside of the store."""
_FOUND = f"{RECORDS} WHERE m.log_offset >= ? AND m.log_offset < ?{{}} ORDER BY m.log_offset DESC LIMIT ?"
_STORED = "SELECT store_us FROM messages WHERE log_offset >= ? ORDER BY log_offset LIMIT 1"
_PROPERTY = " AND instr(char(2) || m.properties, char(2) || ? || char(1) || ? || char(2)) > 0"
_KEY = " AND instr(m.properties, ?) > 0"
_TEXT = (
    " AND (instr(m.body, CAST(? AS BLOB)) > 0 OR instr(m.properties, ?) > 0 OR instr(m.unique_key, ?) > 0)"
)
OF_TOPIC = " AND coalesce(m.real_queue_key, m.queue_key) IN (SELECT key FROM queues WHERE topic = ?)"


class RecordSummary(NamedTuple):
    """A record in one line. ``topic`` is its target topic. ``group`` is the group that gave it back.

    ``level`` is the level of a parked or delivered record. ``lateness_us`` is set for deliveries that were
    not forced. ``preview`` is the beginning of the body, shortened.
    """

    log_offset: int
    kind: SummaryKind
    message_id: str
    topic: str
    queue_id: int
    lite_topic: str | None
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
    """Search conditions, all of which must hold. ``text`` must occur in body, properties or unique key."""

    topic: str | None = None
    tag: str | None = None
    key: str | None = None
    text: str | None = None


class FoundRecords(NamedTuple):
    """A page of records, newest first. The next page begins below ``next_before``; None at the end."""

    records: list[RecordSummary]
    next_before: int | None


class StoredRecords:
    """Describes records in one line each. Keeps no state; each call reads the store."""

    def __init__(self, store: Store, topics: Topics, schemes: SchemeSet, lives: Lives) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = topics
        self._schemes = schemes
        self._lives = lives

    async def between(self, start: int, end: int, limit: int) -> list[RecordSummary]:
        """The newest records with log offsets from ``start`` to ``end - 1``, newest first."""
        rows = await self._database.rows(_FOUND.format(""), (start, end, limit))
        return list(self._described(map(RecordRow._make, rows)))

    async def waiting_outside(self, after: int, limit: int) -> list[RecordSummary]:
        """Pending messages outside of the store numbered above ``after``, in order of arrival."""
        found = await self._schemes.outside(after, limit)
        return list(self._described(map(self._lives.waiting, found)))

    async def search(
        self, wanted: RecordSearch, *, after: int = -1, before: int | None = None, limit: int = 100
    ) -> FoundRecords:
        """Records with log offsets above ``after`` and below ``before``, newest first.

        Searches at most :data:`SCANNED` offsets. Without ``after``, a page also has the messages outside of
        the store that arrived between its last record and the previous page. Bodies compressed by a client
        are not searched.
        """
        conditions, parameters = conditions_of(wanted)
        sql = _FOUND.format(conditions)
        end = self._writer.next_log_offset if before is None else min(before, self._writer.next_log_offset)
        start = min(max(after + 1, end - SCANNED, 0), end)
        found = await self._database.rows(sql, (start, end, *parameters, limit + 1))
        rows = [RecordRow._make(row) for row in found]
        next_before = start if max(after + 1, 0) < start < end else None
        if len(rows) > limit:
            rows = rows[:limit]
            next_before = rows[-1].log_offset
        records = [one for one in self._described(rows) if wanted.key is None or wanted.key in one.keys]
        if after < 0:
            records[:0] = await self._outside(wanted, next_before, before)
            records.sort(key=lambda one: one.store_us, reverse=True)
        return FoundRecords(records, next_before)

    async def _outside(
        self, wanted: RecordSearch, after: int | None, before: int | None
    ) -> list[RecordSummary]:
        """The newest messages outside of the store that arrived between the records at two log offsets."""
        begin_us, end_us = await self.store_us(after, 0), await self.store_us(before, LATEST_US)
        end_of_search_us = steady_us() + _OUTSIDE_US

        def fitting(messages: Sequence[StoredMessage]) -> list[RecordRow]:
            return [
                self._lives.waiting(one)
                for one in messages
                if begin_us <= one.store_us < end_us and self.fits(one, wanted)
            ]

        # Committed half messages are numbered by the log offset of the half, so they come last.
        halves_end = self._writer.next_log_offset
        halves, _ = await self._schemes.newest_outside(halves_end, _OUTSIDE)
        found = fitting(halves)
        number: int | None = FIRST_NUMBER
        while number is not None and len(found) < _OUTSIDE and steady_us() < end_of_search_us:
            messages, number = await self._schemes.newest_outside(number, _OUTSIDE)
            others = [one for one in messages if one.log_offset >= halves_end]
            found += fitting(others)
            if len(others) < len(messages) or (others and others[-1].store_us < begin_us):
                break
        return list(self._described(found))

    async def store_us(self, log_offset: int | None, default_us: int) -> int:
        """The store time of the first record at this offset or above, otherwise ``default_us``."""
        found = await self._database.rows(_STORED, (log_offset,)) if log_offset is not None else []
        store_us: int = found[0][0] if found else default_us
        return store_us

    def fits(self, message: StoredMessage, wanted: RecordSearch) -> bool:
        """Whether a pending message outside of the store matches the search."""
        properties = decode_properties(message.properties)
        return (
            wanted.topic in (None, self._topics.queue(message.real_queue_key or 0).topic)
            and (wanted.tag is None or properties.get(TAGS) == wanted.tag)
            and (wanted.key is None or wanted.key in properties.get(KEYS, "").split())
            and (
                wanted.text is None
                or wanted.text.encode() in message.body
                or wanted.text in message.properties
                or wanted.text in message.unique_key
            )
        )

    def _described(self, rows: Iterable[RecordRow]) -> Iterator[RecordSummary]:
        for row in rows:
            goal = self._lives.goal(row)
            if row.kind != "abandoned" and not is_system_topic(goal.topic):
                yield self.describe(row, goal)

    def describe(self, row: RecordRow, goal: Queue) -> RecordSummary:
        """Describe the record in one line. ``goal`` is the queue in which consumers find it."""
        kind: SummaryKind = "forced" if row.forced else row.kind
        if row.intervention == "cancelled":
            kind = "cancelled"
        elif row.intervention == "lost":
            kind = "lost"
        prefix = next((one for one in (RETRY_PREFIX, DLQ_PREFIX) if goal.topic.startswith(one)), None)
        lateness_us = None
        if row.delivery_due_us is not None and not row.forced:
            lateness_us = row.store_us - row.delivery_due_us
        properties = decode_properties(row.properties)
        return RecordSummary(
            row.log_offset,
            kind,
            row.unique_key,
            goal.topic,
            goal.queue_id,
            properties.get(LITE_TOPIC),
            goal.topic.removeprefix(prefix) if prefix else None,
            properties.get(TAGS),
            tuple(properties.get(KEYS, "").split()),
            row.store_us,
            row.delivery_due_us if row.due_us is None else row.due_us,
            self._lives.level(row),
            lateness_us,
            row.size,
            preview(row.head, row.sys_flag),
        )


def conditions_of(wanted: RecordSearch, of_topic: str = OF_TOPIC) -> tuple[str, list[object]]:
    """Return the search in SQL, and its parameters. ``of_topic`` is the condition for the topic."""
    conditions = ""
    parameters: list[object] = []
    if wanted.topic is not None:
        conditions += of_topic
        parameters += [wanted.topic] * of_topic.count("?")
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
