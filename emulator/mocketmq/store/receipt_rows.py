"""The table ``receipts``: a row for each message that a group was given, open until ``settled_us`` is set."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mocketmq.store.database import Database
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch

_SAVE = (
    "INSERT INTO receipts (group_name, log_offset, queue_key, queue_offset, times, first_taken_us,"
    " last_taken_us, visible_us, pop_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " times = excluded.times, first_taken_us = excluded.first_taken_us,"
    " last_taken_us = excluded.last_taken_us, visible_us = excluded.visible_us, pop_ms = excluded.pop_ms,"
    " settled_us = NULL, outcome = NULL"  # acknowledged once, but the group went back to before it
)
_SET_VISIBLE = (
    "UPDATE receipts SET visible_us = ?, times = ?, pop_ms = ? WHERE group_name = ? AND log_offset = ?"
)
_SETTLE = "UPDATE receipts SET settled_us = ?, outcome = ? WHERE group_name = ? AND log_offset = ?"
_SETTLE_IF_OPEN = f"{_SETTLE} AND settled_us IS NULL"
_DELETE_OF_GROUP = "DELETE FROM receipts WHERE group_name = ?"
_DELETE_OF_QUEUE = "DELETE FROM receipts WHERE queue_key = ?"
_DELETE = "DELETE FROM receipts WHERE group_name = ? AND log_offset = ?"
DELETE_RECEIPTS = (  # by the primary key: there may be very many
    "DELETE FROM receipts WHERE group_name IN (SELECT name FROM groups) AND log_offset = ?"
)
_OPEN = """
SELECT group_name, receipts.queue_key, receipts.queue_offset, receipts.log_offset, times, first_taken_us,
 visible_us, pop_ms, properties, reconsume_times, parked_offset
FROM receipts JOIN messages USING (log_offset) WHERE settled_us IS NULL
ORDER BY group_name, receipts.log_offset"""
_OPEN_IN = """
SELECT log_offset, unique_key FROM receipts JOIN messages USING (log_offset)
WHERE group_name IN ({marks}) AND settled_us IS NULL AND {condition} ORDER BY log_offset"""
_OF_MESSAGES = """
SELECT group_name, log_offset, times, first_taken_us, last_taken_us, visible_us, settled_us, outcome
FROM groups JOIN receipts ON group_name = name WHERE log_offset IN ({marks})
ORDER BY log_offset, group_name"""


class ReceiptRow(NamedTuple):
    """A message that a group is given. Instants in emulated microseconds."""

    group_name: str
    log_offset: int
    queue_key: int
    queue_offset: int
    times: int
    first_taken_us: int | None
    last_taken_us: int | None
    visible_us: int
    pop_ms: int | None


class OpenTake(NamedTuple):
    """A receipt that is not settled, with the needed fields of its message."""

    group_name: str
    queue_key: int
    queue_offset: int
    log_offset: int
    times: int
    first_taken_us: int | None
    visible_us: int
    pop_ms: int | None
    properties: str
    reconsume_times: int
    parked_offset: int | None


def save_receipt(batch: Batch, row: ReceiptRow) -> None:
    """Add the row, or open it again."""
    batch.execute(_SAVE, row)


def save_visible(
    batch: Batch, group_name: str, log_offset: int, visible_us: int, times: int, pop_ms: int
) -> None:
    """Set the end of the invisible time."""
    batch.execute(_SET_VISIBLE, (visible_us, times, pop_ms or None, group_name, log_offset))


def save_outcome(
    batch: Batch, group_name: str, log_offset: int, outcome: str, *, if_open: bool = False
) -> None:
    """Settle the message now; with ``if_open``, only if it has no outcome yet."""
    sql = _SETTLE_IF_OPEN if if_open else _SETTLE
    batch.execute(sql, (batch.now_us, outcome, group_name, log_offset))


def delete_takes_of_group(batch: Batch, group_name: str) -> None:
    """Delete all rows of the group, which retention would never remove."""
    batch.execute(_DELETE_OF_GROUP, (group_name,))


def delete_receipts_of_queue(batch: Batch, queue: Queue) -> None:
    """Delete all rows of the queue."""
    batch.execute(_DELETE_OF_QUEUE, (queue.key,))


def delete_receipts(batch: Batch, log_offset: int, group_names: Sequence[str] | None = None) -> None:
    """Delete the rows of a message in these groups; in all by default."""
    if group_names is None:
        batch.execute(DELETE_RECEIPTS, (log_offset,))
    else:
        for name in group_names:
            batch.execute(_DELETE, (name, log_offset))


async def open_receipts(database: Database) -> list[OpenTake]:
    """All that are open, by group and then oldest first."""
    return [OpenTake._make(row) for row in await database.rows(_OPEN)]


async def open_with_key(database: Database, group_names: Sequence[str], unique_key: str) -> list[int]:
    """The log offsets of messages with this unique key that these groups hold, oldest first."""
    rows = await _open_in(database, group_names, "unique_key = ?", unique_key)
    return [log_offset for log_offset, _ in rows]


async def open_with_property(
    database: Database, group_names: Sequence[str], name: str
) -> list[tuple[int, str]]:
    """Log offsets and unique keys of messages with this text in their properties that the groups hold."""
    return await _open_in(database, group_names, "instr(properties, ?)", name)


async def _open_in(
    database: Database, group_names: Sequence[str], condition: str, value: str
) -> list[tuple[int, str]]:
    sql = _OPEN_IN.format(marks=",".join("?" * len(group_names)), condition=condition)
    return [(row[0], row[1]) for row in await database.rows(sql, (*group_names, value))]


async def receipts_of_messages(database: Database, log_offsets: Sequence[int]) -> list[Any]:
    """What every group that exists did with these messages, open or settled."""
    marks = ",".join("?" * len(log_offsets))
    return list(await database.rows(_OF_MESSAGES.format(marks=marks), log_offsets))
