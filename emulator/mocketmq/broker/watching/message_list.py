"""Lists messages rather than records: one row for each message, newest first.

A message may have several records: parked, delivered, given back, dead. Its row describes the newest record.
Pending messages outside of the store are merged in by their store time. Both sources are read in steps. A
page that would take too long ends early, and says where the next page begins.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mocketmq.broker.life import Consumption, Lives, MessageState
from mocketmq.broker.message_records import RECORDS, RecordRow
from mocketmq.broker.watching.message_states import NEWEST_KINDS, MessageStates, StateOfMessage
from mocketmq.broker.watching.stored_records import (
    FIRST_NUMBER,
    OF_TOPIC,
    RecordSearch,
    RecordSummary,
    StoredRecords,
    conditions_of,
)
from mocketmq.clock import LATEST_US, steady_us
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from mocketmq.message.properties import RETRY_TOPIC, decode_properties
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.message_keys import MessageKeys, index_hash
from mocketmq.store.messages import IS_RETRY_OF
from mocketmq.store.store import Store

BUDGET_US: Final = 500_000
"""Real time after which a page ends, for each of the two sources."""
_MAX_BYTES: Final = 1 << 20
"""Total size of properties, in bytes, after which a page ends."""
_LONG: Final = 4_096
"""Size of a message's properties, in bytes, above which other tasks get a turn."""
_STEPS: Final = (500, 4_000)
"""Initial and maximum number of log offsets per query. An in-memory broker cannot write during a query."""
_TEXT_STEP: Final = 20
"""Initial number of log offsets per query that reads bodies, each of up to 4 MiB."""
_STEP_US: Final = 20_000
"""Duration of a query below which the next query searches more log offsets."""
_ROWS: Final = 200
"""Maximum number of rows that one query returns."""

_FOUND = (
    f"{RECORDS} WHERE m.log_offset >= ? AND m.log_offset < ?{{}} ORDER BY m.log_offset DESC LIMIT {_ROWS}"
)
_FIRST = "SELECT log_offset FROM messages ORDER BY log_offset LIMIT 1"
_OF_TOPIC = f" AND ({OF_TOPIC.removeprefix(' AND ')} OR {IS_RETRY_OF})"
_REPLACED = """
WITH wanted (hash, place, name) AS (VALUES {})
SELECT place FROM wanted WHERE EXISTS (
 SELECT 1 FROM message_keys k JOIN messages m ON m.log_offset = k.log_offset
 WHERE k.key_hash = hash AND k.log_offset > place AND m.unique_key = name)"""
"""Selects the wanted records whose message has a newer record."""


class MessageSummary(NamedTuple):
    """A row of the list. ``newest`` describes the newest record. ``topic`` is the topic of the send."""

    newest: RecordSummary
    topic: str
    state: StateOfMessage


class Cursor(NamedTuple):
    """The beginning of a page: below this log offset, and outside of the store below this number."""

    log_offset: int
    number: int


class MessagePage(NamedTuple):
    """A page of messages, newest first, and the beginning of the next page; None at the end."""

    messages: list[MessageSummary]
    next_before: Cursor | None


class _Listed(NamedTuple):
    """A message with its place in its source, and the bytes of its properties."""

    place: int
    bytes: int
    message: MessageSummary


class _Source(NamedTuple):
    """A source of messages, newest first, and the place ``end`` down to which it was searched.

    ``floor_us`` is the store time at ``end``, or None if the source was searched completely.
    """

    listed: Sequence[_Listed] = ()
    end: int = 0
    floor_us: int | None = None


@dataclass(eq=False, repr=False)
class MessageList:
    """Lists messages. Keeps no state; each call reads the store."""

    _store: Store
    _schemes: SchemeSet
    _keys: MessageKeys
    _lives: Lives
    _records: StoredRecords
    _states: MessageStates

    async def page(
        self,
        wanted: RecordSearch,
        state: MessageState | Consumption | None = None,
        *,
        after: int = -1,
        before: Cursor | None = None,
        limit: int = 100,
    ) -> MessagePage:
        """Messages whose newest record has a log offset above ``after``, from the cursor ``before`` on.

        With ``after``, messages outside of the store are omitted. Bodies compressed by a client are not
        searched.
        """
        begin = before or Cursor(self._store.writer.next_log_offset, FIRST_NUMBER)
        # In this order, a message delivered between the two reads is found twice rather than not at all.
        waiting = _Source()
        if after < 0 and begin.number and state in (None, "pending"):
            waiting = await self._waiting(wanted, begin.number, limit)
        stored = await self._stored(wanted, state, after + 1, begin.log_offset, limit)
        return _merged(begin, stored, waiting, limit)

    async def _waiting(self, wanted: RecordSearch, before: int, limit: int) -> _Source:
        """Messages outside of the store, except committed half messages, which are read from the store.

        The number of a committed half message is the log offset of the half, so these come last.
        """
        until_us = steady_us() + BUDGET_US
        listed: list[_Listed] = []
        number: int | None = before
        floor_us = LATEST_US
        while number is not None and len(listed) <= limit and (number == before or steady_us() < until_us):
            messages, number = await self._schemes.newest_outside(number, limit + 1)
            for one in messages:
                if one.log_offset < self._store.writer.next_log_offset:
                    return _Source(listed)
                floor_us = one.store_us
                if self._records.fits(one, wanted):
                    row = self._lives.waiting(one)
                    listed.append(self._listed(row, StateOfMessage("pending", None), one.log_offset))
        return _Source(listed) if number is None else _Source(listed, number, floor_us)

    async def _stored(
        self,
        wanted: RecordSearch,
        state: MessageState | Consumption | None,
        start: int,
        before: int,
        limit: int,
    ) -> _Source:
        """Messages whose newest record has a log offset from ``start`` to ``before - 1``."""
        conditions, parameters = conditions_of(wanted, _OF_TOPIC)
        if state is not None:
            conditions += f" AND m.kind IN ({', '.join(map(repr, NEWEST_KINDS[state]))})"
        sql = _FOUND.format(conditions)
        first = await self._store.database.rows(_FIRST)
        start = max(start, first[0][0]) if first else before
        # A search of all states from the newest record down finds the newest record of each message first.
        sees_all = state is None and before >= self._store.writer.next_log_offset
        if not sees_all:
            await self._keys.catch_up()
        seen: set[str] = set()
        listed: list[_Listed] = []
        until_us = steady_us() + BUDGET_US
        top = before
        step, most = _STEPS
        if wanted.text is not None:
            step = min(step, _TEXT_STEP)
        while before > start and len(listed) <= limit and (before == top or steady_us() < until_us):
            began_us = steady_us()
            begin = max(before - step, start)
            found = await self._store.database.rows(sql, (begin, before, *parameters))
            if steady_us() - began_us < _STEP_US:
                step = min(step * 2, most)
            before = found[-1][0] if len(found) == _ROWS else begin
            rows: list[RecordRow] = []
            for row in map(RecordRow._make, found):
                if row.unique_key not in seen:
                    seen.add(row.unique_key)
                    rows.append(row)
            if not sees_all and rows:
                replaced = await self._replaced(rows)
                rows = [row for row in rows if row.log_offset not in replaced]
            listed += await self._listed_with(rows, wanted, state)
        if before <= start:
            return _Source(listed)
        return _Source(listed, before, await self._records.store_us(before, LATEST_US))

    async def _listed_with(
        self, rows: Sequence[RecordRow], wanted: RecordSearch, state: MessageState | Consumption | None
    ) -> list[_Listed]:
        """The messages in ``state`` among those with these newest records."""
        listed: list[_Listed] = []
        for newest, its_state in zip(rows, await self._states.of(rows), strict=True):
            row = newest
            if state not in (None, its_state.state, its_state.consumption):
                continue
            if row.kind == "prepared" and its_state.state == "pending":
                message = await self._schemes.numbered(row.log_offset)
                if message is None:
                    continue  # the message has just been delivered
                row = self._lives.waiting(message)
            if is_system_topic(self._lives.goal(row).topic):
                continue
            one = self._listed(row, its_state, newest.log_offset)
            if wanted.key is None or wanted.key in one.message.newest.keys:
                listed.append(one)
            if one.bytes > _LONG:
                await asyncio.sleep(0)
        return listed

    async def _replaced(self, rows: Sequence[RecordRow]) -> set[int]:
        """The log offsets of the records that are not the newest record of their message."""
        marks = ",".join(["(?, ?, ?)"] * len(rows))
        wanted = [
            value for row in rows for value in (index_hash(row.unique_key), row.log_offset, row.unique_key)
        ]
        return {place for (place,) in await self._store.database.rows(_REPLACED.format(marks), wanted)}

    def _listed(self, row: RecordRow, state: StateOfMessage, place: int) -> _Listed:
        goal = self._lives.goal(row)
        topic = goal.topic
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            topic = decode_properties(row.properties).get(RETRY_TOPIC, topic)
        summary = MessageSummary(self._records.describe(row, goal), topic, state)
        return _Listed(place, len(row.properties), summary)


def _merged(begin: Cursor, stored: _Source, waiting: _Source, limit: int) -> MessagePage:
    """Merge both sources into a page, newest first. Cut each source where the search of the other ended."""
    found: list[MessageSummary] = []
    seen: set[str] = set()
    sources = (stored, waiting)
    taken = [0, 0]
    size = 0
    while len(found) < limit and size < _MAX_BYTES:
        heads = [
            source.listed[count] if count < len(source.listed) else None
            for source, count in zip(sources, taken, strict=True)
        ]
        times = [
            head.message.newest.store_us if head else source.floor_us or 0
            for head, source in zip(heads, sources, strict=True)
        ]
        newest = int(times[1] >= times[0])
        head = heads[newest]
        if head is None:
            break
        taken[newest] += 1
        if head.message.newest.message_id in seen:
            continue  # the message was delivered between the two reads
        seen.add(head.message.newest.message_id)
        found.append(head.message)
        size += head.bytes
    ends = [
        source.end if count == len(source.listed) else source.listed[count - 1].place if count else first
        for source, count, first in zip(sources, taken, begin, strict=True)
    ]
    is_end = all(
        count == len(source.listed) and source.floor_us is None
        for source, count in zip(sources, taken, strict=True)
    )
    return MessagePage(found, None if is_end else Cursor(*ends))
