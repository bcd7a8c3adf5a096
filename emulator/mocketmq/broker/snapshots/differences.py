"""Describes what happened between two snapshots: to messages, offsets, the clock, topics and groups."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

import msgspec

from mocketmq.broker.snapshots.snapshot_file import SnapshotState
from mocketmq.duration import format_duration
from mocketmq.instant import format_instant
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_group, is_system_topic

MAX_DIFFERENCES: Final = 1_000
"""Largest number of differences that are listed."""


class StateDifference(NamedTuple):
    """One thing that is different in the later snapshot, as a sentence and as data."""

    kind: str
    text: str
    topic: str | None = None
    group: str | None = None
    messages: int | None = None


class _Header(msgspec.Struct):
    topic: str


# Records that only one snapshot has. Also compares unique keys, because log offsets repeat after a restore.
_RECORDS: Final = """
SELECT m.kind, q.topic, r.topic, count(*) FROM {0}.messages m JOIN {0}.queues q ON q.key = m.queue_key
LEFT JOIN {0}.queues r ON r.key = m.real_queue_key
WHERE NOT EXISTS (SELECT 1 FROM {1}.messages o
 WHERE o.log_offset = m.log_offset AND o.unique_key = m.unique_key)
GROUP BY 1, 2, 3 ORDER BY 2, 3, 1"""
_KEPT: Final = """
SELECT content FROM {0}.kept_records k WHERE NOT EXISTS
 (SELECT 1 FROM {1}.kept_records o WHERE o.due_ms = k.due_ms AND o.number = k.number
  AND o.key_hash = k.key_hash)"""
_DELIVERED_SINCE: Final = """
SELECT topic, count(*) FROM b.deliveries d WHERE scheme <> 'levels' AND NOT EXISTS
 (SELECT 1 FROM a.deliveries o WHERE o.delivered_offset = d.delivered_offset AND o.unique_key = d.unique_key)
AND parked_offset NOT IN (SELECT number FROM a.kept_records) GROUP BY 1"""
_OFFSETS: Final = """
SELECT p.group_name, q.topic, q.queue_id, min(p.next_offset, coalesce(
 (SELECT min(r.queue_offset) FROM {0}.receipts r WHERE r.group_name = p.group_name
  AND r.queue_key = p.queue_key AND r.settled_us IS NULL), p.next_offset))
FROM {0}.progress p JOIN {0}.queues q ON q.key = p.queue_key"""
_IN_FLIGHT: Final = """
SELECT r.group_name, q.topic, count(*) FROM {0}.receipts r JOIN {0}.queues q ON q.key = r.queue_key
WHERE r.settled_us IS NULL AND r.times > 0 GROUP BY 1, 2"""

_VERBS: Final = {
    "sent": "sent to",
    "parked": "sent to",
    "prepared": "prepared as half messages for",
    "committed": "committed to",
    "abandoned": "abandoned as half messages of",
    "retried": "given back, to be delivered again in",
    "delivered": "delivered to",
    "cancelled": "cancelled in",
    "held": "held in",
}


def differences(before: SnapshotState, after: SnapshotState) -> list[StateDifference]:
    """What happened between the two snapshots; empty if nothing did. At most ``MAX_DIFFERENCES``."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, state in (("a", before), ("b", after)):
            connection.execute(f"ATTACH ':memory:' AS {name}")
            connection.deserialize(state.content, name=name)
        found = [
            *_clock(before, after),
            *_names(connection, "topics", "topic"),
            *_messages(connection),
            *_pending(before, after),
            *_names(connection, "groups", "group"),
            *_progress(connection),
            *_names(connection, "faults", "fault"),
        ]
    return found[:MAX_DIFFERENCES]


def _clock(before: SnapshotState, after: SnapshotState) -> Iterator[StateDifference]:
    from_us, to_us = before.manifest.now_us, after.manifest.now_us
    if from_us != to_us:
        way = "forward" if to_us > from_us else "back"
        text = f"the clock went {way} by {format_duration(abs(to_us - from_us))}, to {format_instant(to_us)}"
        yield StateDifference("clock", text)


def _names(connection: sqlite3.Connection, table: str, what: str) -> Iterator[StateDifference]:
    """Topics, groups or faults that are only in one of the snapshots."""
    names = [
        {name for (name,) in connection.execute(f"SELECT name FROM {side}.{table}") if not _is_internal(name)}
        for side in ("a", "b")
    ]
    for verb, some in (("added", names[1] - names[0]), ("removed", names[0] - names[1])):
        for name in sorted(some):
            place = {what: name} if what in ("topic", "group") else {}
            yield StateDifference(f"{what} {verb}", f"the {what} {name} was {verb}", **place)


def _is_internal(name: str) -> bool:
    return is_system_topic(name) or is_system_group(name) or name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _messages(connection: sqlite3.Connection) -> Iterator[StateDifference]:
    counts: Counter[tuple[str, str]] = Counter()
    dead: Counter[str] = Counter()
    for kind, topic, real_topic, count in connection.execute(_RECORDS.format("b", "a")):
        if kind == "dead":
            dead[topic.removeprefix(DLQ_PREFIX)] += count
        else:
            counts["sent" if kind == "parked" else kind, real_topic or topic] += count
    for (content,) in connection.execute(_KEPT.format("b", "a")):
        if (topic := _topic_of(content)) is not None:
            counts["sent", topic] += 1
    for topic, count in connection.execute(_DELIVERED_SINCE):
        counts["sent", topic] += count
    for (kind, topic), count in sorted(
        counts.items(), key=lambda one: (one[0][1], [*_VERBS].index(one[0][0]))
    ):
        group = topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None
        yield StateDifference(kind, f"{_many(count)} {_VERBS[kind]} {topic}", topic, group, count)
    for group, count in sorted(dead.items()):
        text = f"{_many(count)} added to the dead letters of the group {group}"
        yield StateDifference("dead", text, DLQ_PREFIX + group, group, count)
    gone: Counter[str] = Counter()
    for kind, topic, real_topic, count in connection.execute(_RECORDS.format("a", "b")):
        if kind in ("sent", "parked", "committed", "delivered", "dead", "retried"):
            gone[real_topic or topic] += count
    for topic, count in sorted(gone.items()):
        yield StateDifference(
            "removed", f"{_many(count)} of {topic} removed, with their copies", topic, None, count
        )


def _topic_of(content: bytes) -> str | None:
    """The topic of a message that a delay scheme keeps, None if damaged: the header is the second line."""
    try:
        return msgspec.json.decode(content.split(b"\n", 2)[1], type=_Header).topic
    except (IndexError, msgspec.MsgspecError):
        return None


def _many(count: int) -> str:
    return "1 message was" if count == 1 else f"{count} messages were"


def _pending(before: SnapshotState, after: SnapshotState) -> Iterator[StateDifference]:
    count, was = after.manifest.pending, before.manifest.pending
    if count != was:
        yield StateDifference("pending", f"pending messages: {count} (was {was})", messages=count)


def _progress(connection: sqlite3.Connection) -> Iterator[StateDifference]:
    offsets: list[dict[tuple[str, str, int], int]] = [
        {
            (group, topic, queue): offset
            for group, topic, queue, offset in connection.execute(_OFFSETS.format(side))
        }
        for side in ("a", "b")
    ]
    moved: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for (group, topic, queue), offset in sorted(offsets[1].items()):
        was = offsets[0].get((group, topic, queue), 0)
        if was != offset and not is_system_group(group):
            moved.setdefault((group, topic), []).append((queue, was, offset))
    for (group, topic), queues in moved.items():
        count = sum(offset - was for _, was, offset in queues)
        steps = ", ".join(f"queue {queue} from {was} to {offset}" for queue, was, offset in queues)
        yield StateDifference("offset", f"the group {group} moved in {topic}: {steps}", topic, group, count)
    flights = [
        {(group, topic): count for group, topic, count in connection.execute(_IN_FLIGHT.format(side))}
        for side in ("a", "b")
    ]
    for group, topic in sorted(flights[0].keys() | flights[1].keys()):
        count, was = flights[1].get((group, topic), 0), flights[0].get((group, topic), 0)
        if count != was and not is_system_group(group):
            text = f"the group {group} has {count} of {topic} in flight, {was} before"
            yield StateDifference("in flight", text, topic, group, count)
