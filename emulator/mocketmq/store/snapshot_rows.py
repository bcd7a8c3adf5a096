"""Copies the rows of the store into a snapshot's database and back, each in one transaction of the writer.

The snapshot's database has the store's schema, and a table for the messages that delay schemes keep outside
of the store. During the copy it is attached as ``snapshot`` (``Database.attached``), so SQLite
copies whole tables.

A snapshot contains neither users nor the name server's configurations: a reset keeps them, too, and the file
of a snapshot is shared more freely than passwords.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from typing import Final

from mocketmq.clock import wall_us
from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.store import Store
from mocketmq.store.tables import SCHEMA

KEPT_RECORDS: Final = """
CREATE TABLE kept_records (
    scheme TEXT NOT NULL,
    due_ms BIGINT NOT NULL,
    number INTEGER NOT NULL,
    key_hash INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (due_ms, number, key_hash)
) WITHOUT ROWID;
"""

_TABLES: Final = (
    "topics",
    "queues",
    "delay_offsets",
    "interventions",
    "deliveries",
    "groups",
    "progress",
    "receipts",
    "request_modes",
    "message_keys",
    "clock_moves",
    "faults",
    "fault_hits",
    "held_deliveries",
    "counters",
)
"""Tables that a restore replaces entirely, unlike ``messages``, ``timed_messages`` and ``runs``."""

_SAVE_MESSAGES: Final = "INSERT INTO snapshot.messages SELECT * FROM main.messages"
# Into an empty table of the same schema, SQLite copies the rows without decoding them.
_REPLACE_MESSAGES: Final = (
    "DELETE FROM main.messages",
    "INSERT INTO main.messages SELECT * FROM snapshot.messages",
)
_COUNTS: Final = (
    "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM messages WHERE log_offset >= ?)"
)
_MOSTLY: Final = 0.75
"""If the store still has this share of the snapshot's messages, writing only the rest is quicker."""
# Below a log offset, store and snapshot have the same messages, except that either may lack some.
_EXCHANGE_MESSAGES: Final = (
    "DELETE FROM main.messages WHERE log_offset >= ?",
    "DELETE FROM main.messages WHERE log_offset NOT IN (SELECT log_offset FROM snapshot.messages)",
    "INSERT INTO main.messages SELECT * FROM snapshot.messages"
    " WHERE log_offset NOT IN (SELECT log_offset FROM main.messages)",
)

_SAVE_SETTLED: Final = (
    "INSERT INTO snapshot.timed_messages SELECT * FROM main.timed_messages WHERE outcome <> 'cleared'"
)
_SAVE_RUNS: Final = "INSERT INTO snapshot.runs SELECT * FROM main.runs"
_SAVE_DELAY_OFFSET: Final = "INSERT OR REPLACE INTO snapshot.delay_offsets VALUES (?, ?)"
_SAVE_NEXT_OFFSET: Final = "INSERT OR REPLACE INTO snapshot.counters VALUES ('next_log_offset', ?)"

# Identities are never deleted, because the file of a delayed message may be copied back from a backup. The
# only exceptions are messages that are pending in the snapshot.
_FORGET_OUTCOMES: Final = (
    "UPDATE main.timed_messages SET outcome = 'cleared', log_offset = -1 WHERE outcome <> 'cleared'"
)
_UNSETTLE: Final = (
    "DELETE FROM main.timed_messages WHERE (number, key_hash) IN"
    " (SELECT number, key_hash FROM snapshot.kept_records)"
)
_RESTORE_SETTLED: Final = "INSERT OR REPLACE INTO main.timed_messages SELECT * FROM snapshot.timed_messages"
_OF_THIS_RUN: Final = (
    "UPDATE main.deliveries SET run = ?1 WHERE run <> ?1",
    "UPDATE main.clock_moves SET run = ?1 WHERE run <> ?1",
)
_RECORD_MOVE: Final = "INSERT INTO main.clock_moves (run, wall_us, from_us, to_us) VALUES (?, ?, ?, ?)"

# The broker's own topics must exist, with a queue for each delay level that this broker has.
_ADD_TOPIC: Final = "INSERT OR IGNORE INTO snapshot.topics SELECT * FROM main.topics WHERE name = ?"
_WIDEN_TOPIC: Final = (
    "UPDATE snapshot.topics SET read_queues = max(read_queues, ?1), write_queues = max(write_queues, ?1)"
    " WHERE name = ?2"
)
_ADD_QUEUES: Final = """
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
INSERT INTO snapshot.queues
SELECT (SELECT coalesce(max(key), 0) FROM snapshot.queues) + 1 + i, ?2, i, 0, 0, 0, NULL FROM n
WHERE i NOT IN (SELECT queue_id FROM snapshot.queues WHERE topic = ?2)"""


@cache
def empty_snapshot() -> bytes:
    """The file of a snapshot's database without rows."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(SCHEMA + KEPT_RECORDS)
        return connection.serialize()


def save_rows(batch: Batch, delay_offsets: list[tuple[int, int]]) -> None:
    """Copy all rows into the attached, empty snapshot. ``delay_offsets`` are the levels' current offsets."""
    for table in _TABLES:
        batch.sweep(f"INSERT INTO snapshot.{table} SELECT * FROM main.{table}")
    batch.sweep(_SAVE_MESSAGES)
    batch.sweep(_SAVE_SETTLED)
    batch.sweep(_SAVE_RUNS)
    for row in delay_offsets:
        batch.execute(_SAVE_DELAY_OFFSET, row)
    batch.execute(_SAVE_NEXT_OFFSET, (batch.next_log_offset,))


async def shares_most(database: Database, shared_end: int, saved: int) -> bool:
    """Whether the store still has most of a snapshot's ``saved`` messages, and few other messages.

    An estimate: it counts messages below the log offset ``shared_end``, whichever were deleted.
    """
    [(stored, others)] = await database.rows(_COUNTS, (shared_end,))
    return bool(stored - others >= _MOSTLY * saved and others <= saved)


def restore_rows(
    batch: Batch, store: Store, instant_us: int, needed: Iterable[tuple[str, int]], shared_end: int
) -> None:
    """Replace all rows with the rows of the attached snapshot, whose clock showed ``instant_us``.

    ``needed`` has the broker's own topics and their numbers of queues. Messages below the log offset
    ``shared_end`` are equal in both, as far as both have them, and are not written again.

    The restored rows are assigned to this run of the broker, because other stores number their own runs.
    """
    for name, queues in needed:
        batch.execute(_ADD_TOPIC, (name,))
        batch.execute(_WIDEN_TOPIC, (queues, name))
        batch.sweep(_ADD_QUEUES, (queues, name))
    for table in _TABLES:
        batch.sweep(f"DELETE FROM main.{table}")
        batch.sweep(f"INSERT INTO main.{table} SELECT * FROM snapshot.{table}")
    for statement in _EXCHANGE_MESSAGES if shared_end else _REPLACE_MESSAGES:
        batch.sweep(statement, (shared_end,) if "?" in statement else ())
    for statement in (_FORGET_OUTCOMES, _UNSETTLE, _RESTORE_SETTLED):
        batch.sweep(statement)
    for statement in _OF_THIS_RUN:
        batch.sweep(statement, (store.run,))
    batch.execute(_RECORD_MOVE, (store.run, wall_us(), instant_us, instant_us))
