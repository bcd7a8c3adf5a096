"""The table ``receipts``: a row for each message that a group received, open until ``settled_us`` is set.

A message that is acknowledged after its first take costs one row and one update. From the second take on, or
once a client changes the invisible time, ``attempts`` lists the newest ``MOST_ATTEMPTS`` entries. An entry is
``t`` (taken), ``c`` (invisible time changed) or ``e`` (extended), then the instant and the end of the
invisible time, each as 20 digits of microseconds.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

MOST_ATTEMPTS: Final = 50
_ENTRY: Final = 41  # characters
_FIRST = (
    "iif(attempts = '' AND receipts.times > 0 AND receipts.last_taken_us NOT NULL,"
    " printf('t%020d%020d', receipts.last_taken_us, receipts.visible_us), '')"
)
_APPEND = f"attempts = substr(attempts || {_FIRST} || {{}}, -{MOST_ATTEMPTS * _ENTRY})"
_TAKEN = (
    "iif(excluded.last_taken_us IS NULL, '',"
    " printf('t%020d%020d', excluded.last_taken_us, excluded.visible_us))"
)
_SAVE = (
    "INSERT INTO receipts (group_name, log_offset, queue_key, queue_offset, times, first_taken_us,"
    " last_taken_us, visible_us, pop_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    f" {_APPEND.format(_TAKEN)}, times = excluded.times, first_taken_us = excluded.first_taken_us,"
    " last_taken_us = excluded.last_taken_us, visible_us = excluded.visible_us, pop_ms = excluded.pop_ms,"
    " settled_us = NULL, outcome = NULL"  # a settled row is opened again after the group's offset is reset
)
_SET_VISIBLE = (
    "UPDATE receipts SET visible_us = ?, times = ?, pop_ms = ? WHERE group_name = ? AND log_offset = ?"
)
_CHANGE = _SET_VISIBLE.replace("SET ", f"SET {_APPEND.format('?')}, ")
_TAKE_BACK = _SET_VISIBLE.replace(
    "SET ", f"SET attempts = substr(attempts, 1, max(length(attempts) - {_ENTRY}, 0)), "
)
_SETTLE = "UPDATE receipts SET settled_us = ?, outcome = ? WHERE group_name = ? AND log_offset = ?"
_SETTLE_IF_OPEN = f"{_SETTLE} AND settled_us IS NULL"
_SAVE_SETTLED = (
    "INSERT INTO receipts (group_name, log_offset, queue_key, queue_offset, times, first_taken_us,"
    " last_taken_us, visible_us, pop_ms, settled_us, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DELETE_OF_GROUP = "DELETE FROM receipts WHERE group_name = ?"
_DELETE_OF_QUEUE = "DELETE FROM receipts WHERE queue_key = ?"
_DELETE = "DELETE FROM receipts WHERE group_name = ? AND log_offset = ?"
DELETE_RECEIPTS = (  # names all groups to use the primary key, because the table may be very large
    "DELETE FROM receipts WHERE group_name IN (SELECT name FROM groups) AND log_offset = ?"
)
_RECEIPTS = """
SELECT group_name, receipts.queue_key, receipts.queue_offset, receipts.log_offset, times, first_taken_us,
 visible_us, pop_ms, properties, reconsume_times, parked_offset, attempts
FROM receipts JOIN messages USING (log_offset) WHERE {} ORDER BY group_name, receipts.log_offset"""
_OPEN = _RECEIPTS.format("settled_us IS NULL")
_ACKED_SINCE = _RECEIPTS.format("settled_us > ? AND outcome = 'acked'")
_REOPEN = "UPDATE receipts SET settled_us = NULL, outcome = NULL WHERE group_name = ? AND log_offset = ?"
_OPEN_IN = """
SELECT log_offset, unique_key FROM receipts JOIN messages USING (log_offset)
WHERE group_name IN ({marks}) AND settled_us IS NULL AND {condition} ORDER BY log_offset"""
_OF_MESSAGES = """
SELECT group_name, log_offset, times, first_taken_us, last_taken_us, visible_us, settled_us, outcome,
 attempts
FROM groups JOIN receipts ON group_name = name WHERE log_offset IN ({marks})
ORDER BY log_offset, group_name"""


class ReceiptRow(NamedTuple):
    """A message that a group received. Instants in emulated microseconds."""

    group_name: str
    log_offset: int
    queue_key: int
    queue_offset: int
    times: int
    first_taken_us: int | None
    last_taken_us: int | None
    visible_us: int
    pop_ms: int | None


class OpenReceipt(NamedTuple):
    """An unsettled receipt, with the fields of its message that the broker needs when it starts."""

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
    attempts: str


def save_receipt(batch: Batch, row: ReceiptRow) -> None:
    """Add the row, or reopen an existing one."""
    batch.execute(_SAVE, row)


def save_settled(batch: Batch, row: ReceiptRow, settled_us: int, outcome: str) -> None:
    """Add a row that is already settled."""
    batch.execute(_SAVE_SETTLED, (*row, settled_us, outcome))


def save_visible(
    batch: Batch, group_name: str, log_offset: int, visible_us: int, times: int, pop_ms: int
) -> None:
    """Set the end of the invisible time."""
    batch.execute(_SET_VISIBLE, (visible_us, times, pop_ms or None, group_name, log_offset))


def save_change(
    batch: Batch,
    group_name: str,
    log_offset: int,
    visible_us: int,
    times: int,
    pop_ms: int,
    *,
    is_postponed: bool,
) -> None:
    """Store and list in ``attempts`` that a client has changed or extended the invisible time."""
    entry = f"{'c' if is_postponed else 'e'}{batch.now_us:020d}{visible_us:020d}"
    batch.execute(_CHANGE, (entry, visible_us, times, pop_ms or None, group_name, log_offset))


def save_take_back(
    batch: Batch, group_name: str, log_offset: int, visible_us: int, times: int, pop_ms: int
) -> None:
    """Undo the last take."""
    batch.execute(_TAKE_BACK, (visible_us, times, pop_ms or None, group_name, log_offset))


class Attempt(NamedTuple):
    """A take of a message, or a change of its invisible time (``is_change``).

    ``is_postponed`` means that the consumer did not ask for an extension, so it may have failed.
    """

    is_change: bool
    at_us: int
    visible_us: int
    is_postponed: bool = False


def parse_attempts(text: str) -> list[Attempt]:
    """The entries of ``attempts``, oldest first."""
    entries = (text[start : start + _ENTRY] for start in range(0, len(text), _ENTRY))
    # A transaction groups rows by statement, so entries from one transaction may be out of order.
    return sorted(
        (Attempt(entry[0] != "t", int(entry[1:21]), int(entry[21:]), entry[0] == "c") for entry in entries),
        key=lambda attempt: attempt.at_us,
    )


def save_outcome(
    batch: Batch, group_name: str, log_offset: int, outcome: str, *, if_open: bool = False
) -> None:
    """Settle the message now; with ``if_open``, only if it has no outcome yet."""
    sql = _SETTLE_IF_OPEN if if_open else _SETTLE
    batch.execute(sql, (batch.now_us, outcome, group_name, log_offset))


def delete_receipts_of_group(batch: Batch, group_name: str) -> None:
    """Delete all rows of the group, because retention would never remove them."""
    batch.sweep(_DELETE_OF_GROUP, (group_name,))


def delete_receipts_of_queue(batch: Batch, queue: Queue) -> None:
    """Delete all rows of the queue."""
    batch.sweep(_DELETE_OF_QUEUE, (queue.key,))


def delete_receipts(batch: Batch, log_offset: int, group_names: Sequence[str] | None = None) -> None:
    """Delete the rows of a message in these groups, by default in all groups."""
    if group_names is None:
        batch.execute(DELETE_RECEIPTS, (log_offset,))
    else:
        for name in group_names:
            batch.execute(_DELETE, (name, log_offset))


async def open_receipts(database: Database) -> list[OpenReceipt]:
    """All open receipts, by group and then oldest first."""
    return [OpenReceipt._make(row) for row in await database.rows(_OPEN)]


async def receipts_acked_since(database: Database, instant_us: int) -> list[OpenReceipt]:
    """The receipts that were acknowledged after the instant, in the form of open receipts."""
    return [OpenReceipt._make(row) for row in await database.rows(_ACKED_SINCE, (instant_us,))]


def reopen_receipt(batch: Batch, group_name: str, log_offset: int) -> None:
    """Undo the settlement of the message."""
    batch.execute(_REOPEN, (group_name, log_offset))


async def open_with_key(database: Database, group_names: Sequence[str], unique_key: str) -> list[int]:
    """The log offsets of messages with this unique key that are open in these groups, oldest first."""
    rows = await _open_in(database, group_names, "unique_key = ?", unique_key)
    return [log_offset for log_offset, _ in rows]


async def open_with_property(
    database: Database, group_names: Sequence[str], name: str
) -> list[tuple[int, str]]:
    """Log offsets and unique keys of messages open in these groups with this text in their properties."""
    return await _open_in(database, group_names, "instr(properties, ?)", name)


async def _open_in(
    database: Database, group_names: Sequence[str], condition: str, value: str
) -> list[tuple[int, str]]:
    sql = _OPEN_IN.format(marks=",".join("?" * len(group_names)), condition=condition)
    return [(row[0], row[1]) for row in await database.rows(sql, (*group_names, value))]


async def receipts_of_messages(database: Database, log_offsets: Sequence[int]) -> list[Any]:
    """The receipts of these messages in every existing group, open or settled; ``attempts`` comes last."""
    marks = ",".join("?" * len(log_offsets))
    return list(await database.rows(_OF_MESSAGES.format(marks=marks), log_offsets))
