"""Reads stored messages."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeVar

from mocketmq.message.message import StoredMessage
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

T = TypeVar("T")

MAX_AT_ONCE = 500
"""Maximum number of parameters in one IN list."""
MAX_SPANS = 200
"""Maximum number of spans in one query. SQLite allows 500 selects and 32,766 parameters; each tag is one."""
NO_LIMIT = (1 << 63) - 1
"""A ``max_bytes`` above any size."""
IS_RETRY_OF = "instr(char(2) || properties, char(2) || 'RETRY_TOPIC' || char(1) || ? || char(2)) > 0"
"""SQL condition: a record with ``properties`` is a retry of the topic given as the parameter."""
FEW = 256
"""Maximum number of messages that a quick query looks at; see ``Database.rows``."""
FEW_BYTES = 4 << 20
"""Maximum size of the bodies that a quick query reads, in bytes."""
SCAN = 10_000
"""Number of offsets of one queue that are searched at once for messages that pass a filter."""
_RECORD = 91
"""Bytes of a RocketMQ log record besides body, topic, and properties without a separator at the end
(CommitLog.calMsgLength and MessageDecoder.messageProperties2String, 4.9.8)."""
_MOST_UTF8 = 4
"""Maximum number of bytes of a character."""
_LOOK = 200
"""Number of messages whose properties are read before other tasks get a turn."""

# SQLite knows the length of a body without reading the body. To read the columns after the body, SQLite
# reads all pages of the body. Queries for tags or properties are therefore slow even for a few rows.
_SIZES_AT = "SELECT log_offset, length(body) FROM messages WHERE log_offset IN ({})"
_SIZES_IN = (
    "SELECT * FROM (SELECT log_offset, length(body) AS size FROM messages WHERE queue_key = ?"
    " AND queue_offset >= ? AND queue_offset < ?{marks} ORDER BY queue_offset LIMIT ?)"
)
_FIRST_OF = "{sizes} ORDER BY log_offset LIMIT ?"
_PROPERTIES = (
    "SELECT queue_offset, properties FROM messages WHERE queue_key = ? AND queue_offset >= ?"
    " AND queue_offset < ? ORDER BY queue_offset LIMIT ?"
)
_OF_QUEUE = (
    " FROM messages WHERE queue_key = ? AND queue_offset >= ? AND queue_offset < ?{marks}"
    " ORDER BY queue_offset LIMIT ?"
)
_BODY_SIZES = f"SELECT queue_offset, length(body){_OF_QUEUE}"
_TOTAL = f"SELECT coalesce(sum(size), 0) FROM (SELECT length(body) AS size{_OF_QUEUE})"
_RUN = f"SELECT *{_OF_QUEUE}"

_STORE_TIMES = (
    "WITH wanted (key, place) AS (VALUES {}) SELECT queue_key, queue_offset, store_us"
    " FROM wanted CROSS JOIN messages WHERE queue_key = key AND queue_offset = place"
)


class Span(NamedTuple):
    """A range of offsets, ``start`` to ``end - 1``, of a queue, with the wanted tag hashes; empty for all.

    ``retries_of`` selects only retries of this topic; ``run_of_messages`` does not support it.
    """

    queue: Queue
    start: int
    end: int
    hashes: tuple[int, ...] = ()
    retries_of: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether the span may leave out messages between its offsets."""
        return bool(self.hashes or self.retries_of)


async def messages_at(
    database: Database, log_offsets: Sequence[int], *, are_few: bool = False
) -> dict[int, StoredMessage]:
    """Map these log offsets to their messages. Removed messages are omitted.

    For ``are_few`` see :meth:`Database.rows`.
    """
    found: dict[int, StoredMessage] = {}
    for first in range(0, len(log_offsets), MAX_AT_ONCE):
        some = log_offsets[first : first + MAX_AT_ONCE]
        marks = ",".join("?" * len(some))
        sql = f"SELECT * FROM messages WHERE log_offset IN ({marks})"
        for row in await database.rows(sql, some, are_few=are_few):
            found[row[0]] = tuple.__new__(StoredMessage, row)
    return found


async def first_messages(
    database: Database, sizes: Iterable[tuple[int, int]], max_bytes: int
) -> list[StoredMessage]:
    """Return the messages with these log offsets and body sizes, in this order.

    The list ends when the bodies reach ``max_bytes`` in total. Removed messages are omitted.
    """
    some = until_bytes(sizes, max_bytes, lambda pair: pair[1])
    found = await messages_at(database, [log_offset for log_offset, _ in some])
    return [found[log_offset] for log_offset, _ in some if log_offset in found]


def until_bytes(entries: Iterable[T], max_bytes: int, size_of: Callable[[T], int]) -> list[T]:
    """Return the first entries, until their total size reaches ``max_bytes``."""
    found: list[T] = []
    size = 0
    for entry in entries:
        found.append(entry)
        size += size_of(entry)
        if size >= max_bytes:
            break
    return found


async def fitting_messages_at(
    database: Database, log_offsets: Sequence[int], max_bytes: int, *, or_first: bool
) -> tuple[dict[int, StoredMessage], int]:
    """Like ``messages_at``, for as many of the first offsets as fit. Also returns how many fit.

    The bodies have at most ``max_bytes`` in total; with ``or_first`` the first body may be larger. Other
    bodies are not read.
    """
    some = log_offsets[:MAX_AT_ONCE]
    are_few = max_bytes <= FEW_BYTES and len(some) <= FEW
    sql = _SIZES_AT.format(",".join("?" * len(some)))
    sizes = dict(await database.rows(sql, some, are_few=are_few))
    count = size = 0
    for log_offset in some:
        size += sizes.get(log_offset, 0)
        if size > max_bytes and (count or not or_first):
            break
        count += 1
    return await messages_at(database, some[:count], are_few=are_few), count


async def fitting_messages_in(
    database: Database, spans: Collection[Span], limit: int, max_bytes: int, *, or_first: bool
) -> tuple[list[StoredMessage], bool]:
    """Return the first ``limit`` messages of the spans by log offset, and whether the spans have no more.

    ``max_bytes`` and ``or_first`` have the same meaning as in ``fitting_messages_at``.
    """
    waiting, sizes = list(spans), []
    are_few = (
        max_bytes <= FEW_BYTES
        and not any(span.is_filtered for span in waiting)
        and sum(min(span.end - span.start, limit) for span in waiting) <= FEW
    )
    for first in range(0, len(waiting), MAX_SPANS):
        selects, parameters = [], []
        for span in waiting[first : first + MAX_SPANS]:
            marks = f" AND tag_hash IN ({','.join('?' * len(span.hashes))})" if span.hashes else ""
            retries = [span.retries_of] if span.retries_of else []
            selects.append(_SIZES_IN.format(marks=marks + f" AND {IS_RETRY_OF}" * len(retries)))
            parameters += [span.queue.key, span.start, span.end, *span.hashes, *retries, limit + 1]
        sql = _FIRST_OF.format(sizes=" UNION ALL ".join(selects))
        sizes += await database.rows(sql, [*parameters, limit + 1], are_few=are_few)
    if len(waiting) > MAX_SPANS:
        sizes.sort()
    fitting: list[int] = []
    room = max_bytes
    for log_offset, size in sizes[:limit]:
        room -= size
        if room < 0 and (fitting or not or_first):
            break
        fitting.append(log_offset)
    found = await messages_at(database, fitting, are_few=are_few)
    if fitting and not found:  # all were removed since their sizes were read
        return await fitting_messages_in(database, spans, limit, max_bytes, or_first=or_first)
    return [found[each] for each in fitting if each in found], len(fitting) == len(sizes)


async def store_times(database: Database, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """Return the store times of the messages at these queue keys and offsets. Removed ones are omitted."""
    found: dict[tuple[int, int], int] = {}
    for first in range(0, len(places), MAX_AT_ONCE // 2):
        some = places[first : first + MAX_AT_ONCE // 2]
        marks = ",".join(["(?,?)"] * len(some))
        rows = await database.rows(_STORE_TIMES.format(marks), [each for place in some for each in place])
        found.update(((key, offset), store_us) for key, offset, store_us in rows)
    return found


async def run_of_messages(
    database: Database, span: Span, limit: int, max_bytes: int
) -> tuple[list[StoredMessage], int]:
    """Up to ``limit`` messages of the span, and the offset up to which the span was searched.

    Counted as records of RocketMQ's log, the messages have at most ``max_bytes`` in total, unless the first
    alone has more.
    """
    queue, start, end, hashes = span[:4]
    marks = f" AND tag_hash IN ({','.join('?' * len(hashes))})" if hashes else ""
    are_few = max_bytes <= FEW_BYTES and not hashes and min(end - start, limit) <= FEW
    values = (queue.key, start, end, *hashes, limit)
    if queue.largest_body is None or limit * queue.largest_body > max_bytes:
        [(total,)] = await database.rows(_TOTAL.format(marks=marks), values, are_few=are_few)
        if total > max_bytes:
            room = max_bytes
            sizes = await database.rows(_BODY_SIZES.format(marks=marks), values, are_few=are_few)
            for number, (queue_offset, size) in enumerate(sizes):
                room -= size
                if room < 0 and number:
                    end = queue_offset
                    break
    values = (queue.key, start, end, *hashes, limit)
    rows = await database.rows(_RUN.format(marks=marks), values, are_few=are_few)
    messages = [tuple.__new__(StoredMessage, row) for row in rows]  # quicker than `_make`
    cut = messages[-1].queue_offset + 1 if len(messages) == limit else end
    total = sum(len(message.body) for message in messages)
    others = sum(len(message.properties) for message in messages) + len(messages) * (
        _RECORD + len(queue.topic)
    )
    if total + _MOST_UTF8 * others > max_bytes:  # otherwise all records fit, and none needs encoding
        room = max_bytes
        for number, message in enumerate(messages):
            room -= _record_bytes(message, queue)
            if room < 0 and number:
                return messages[:number], message.queue_offset
    return messages, cut


def _record_bytes(message: StoredMessage, queue: Queue) -> int:
    properties = message.properties.rstrip("\x02").encode()
    return _RECORD + len(queue.topic.encode()) + len(message.body) + len(properties)


async def from_first(database: Database, span: Span, accepts: Callable[[str], bool]) -> Span:
    """The rest of the span, from the first message whose properties match; empty if none match."""
    start = span.start
    while start < span.end:
        rows = await database.rows(_PROPERTIES, (span.queue.key, start, span.end, _LOOK))
        for queue_offset, properties in rows:
            if accepts(properties):
                return span._replace(start=queue_offset)
        start = rows[-1][0] + 1 if len(rows) == _LOOK else span.end
    return span._replace(start=span.end)
