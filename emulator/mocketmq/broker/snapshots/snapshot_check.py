"""Checks that a broker can load the database of a snapshot, before a restore replaces what it has.

The functions that load a store trust it, because the broker alone writes it. The file of a snapshot may
have been changed by hand, digest included.
"""

import sqlite3
from typing import Final

import msgspec

from mocketmq.broker.registry.groups import GroupConfig
from mocketmq.broker.registry.topic import TopicConfig
from mocketmq.errors import SnapshotDamagedError
from mocketmq.faults.rule import FaultRule

_REFERENCES: Final = (
    ("messages", "queue_key", "queues", "key"),
    ("messages", "real_queue_key", "queues", "key"),
    ("progress", "queue_key", "queues", "key"),
    ("receipts", "queue_key", "queues", "key"),
    ("held_deliveries", "queue_key", "queues", "key"),
    ("held_deliveries", "record_offset", "messages", "log_offset"),
)
"""Columns whose values must be in another table's column, unless they are null."""
_INTEGERS: Final = {
    "queues": "key queue_id min_offset next_offset emptied_at",
    "topics": "read_queues write_queues perm",
    "groups": "max_retries retry_queues",
    "messages": "log_offset queue_key queue_offset store_us",
    "progress": "queue_key next_offset",
    "receipts": "log_offset queue_key queue_offset times visible_us",
    "delay_offsets": "level next_offset",
    "counters": "value",
    "kept_records": "due_ms number key_hash",
}
_OPEN_RECEIPTS: Final = (
    "SELECT 1 FROM receipts WHERE settled_us IS NULL AND group_name NOT IN (SELECT name FROM groups) LIMIT 1"
)
_JSON: Final = (
    ("topics", "config", TopicConfig),
    ("groups", "config", GroupConfig),
    ("faults", "rule", FaultRule),
)


def check_rows(connection: sqlite3.Connection, name: str) -> None:
    """Raise SnapshotDamagedError if the broker could not load this database."""
    for problem in (*connection.execute("PRAGMA quick_check(1)").fetchone(),):
        if problem != "ok":
            raise _damaged(name, str(problem))
    for table, columns in _INTEGERS.items():
        wrong = " OR ".join(f"typeof({column}) <> 'integer'" for column in columns.split())
        if connection.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
            raise _damaged(name, f"a row of {table} has a text in place of a number")
    for table, column, other, key in _REFERENCES:
        missing = f"SELECT 1 FROM {table} WHERE {column} NOT IN (SELECT {key} FROM {other}) LIMIT 1"
        if connection.execute(missing).fetchone():
            raise _damaged(name, f"a row of {table} refers to one of {other} that is missing")
    if connection.execute(_OPEN_RECEIPTS).fetchone():
        raise _damaged(name, "a row of receipts refers to one of groups that is missing")
    for table, column, kind in _JSON:
        for (text,) in connection.execute(f"SELECT {column} FROM {table}"):
            try:
                msgspec.json.decode(text, type=kind)
            except (msgspec.MsgspecError, TypeError) as error:
                raise _damaged(name, f"{column} of a row of {table}: {error}") from None


def _damaged(name: str, reason: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(f"snapshot {name} is damaged: {reason}")
