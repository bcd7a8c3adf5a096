"""Checks that a broker can load the database of a snapshot, before a restore replaces its state.

The functions that load a store trust it, because the broker alone writes it. The file of a snapshot may
have been changed by hand, digest included.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from itertools import count
from typing import Final

import msgspec

from mocketmq.broker.registry.groups import MAX_RETRY_QUEUES, GroupConfig
from mocketmq.broker.registry.topic_config import TopicConfig
from mocketmq.clock import LATEST_US, US_PER_MS
from mocketmq.errors import EmulatorError, SnapshotDamagedError
from mocketmq.faults.injector import FaultInjector
from mocketmq.faults.rule import FaultRule
from mocketmq.message.names import MAX_QUEUES
from mocketmq.store.receipt_rows import parse_attempts
from mocketmq.store.snapshot_rows import empty_snapshot

_STEPS: Final = 1_000_000
"""Instructions of SQLite between two calls of the handler that counts them."""
_MAX_STEPS: Final = 100_000_000
"""Maximum number of instructions of a query of a snapshot, ..."""
_STEPS_PER_BYTE: Final = 20
"""... and how many more for each byte of the snapshot."""
_LARGEST: Final = 1 << 62

_REFERENCES: Final = (
    ("messages", "queue_key", "queues", "key"),
    ("messages", "real_queue_key", "queues", "key"),
    ("progress", "queue_key", "queues", "key"),
    ("receipts", "queue_key", "queues", "key"),
    ("held_deliveries", "queue_key", "queues", "key"),
    ("held_deliveries", "record_offset", "messages", "log_offset"),
)
"""Columns whose values must be in another table's column, unless they are null."""
_RANGES: Final = {
    ("topics", "read_queues"): (0, MAX_QUEUES),
    ("topics", "write_queues"): (0, MAX_QUEUES),
    ("topics", "perm"): (0, 7),
    ("groups", "max_retries"): (-1, _LARGEST),
    ("groups", "retry_queues"): (0, MAX_RETRY_QUEUES),
    ("queues", "min_offset"): (0, _LARGEST),
    ("queues", "next_offset"): (0, _LARGEST),
    ("messages", "log_offset"): (0, _LARGEST),
    ("messages", "queue_offset"): (0, _LARGEST),
    ("messages", "store_us"): (0, LATEST_US),
    ("counters", "value"): (0, _LARGEST),
    ("kept_records", "due_ms"): (0, LATEST_US // US_PER_MS),
    ("kept_records", "number"): (0, _LARGEST),
}
"""The smallest and the largest value of a column that a broker can load."""
_OPEN_RECEIPTS: Final = (
    "SELECT 1 FROM receipts WHERE settled_us IS NULL AND group_name NOT IN (SELECT name FROM groups) LIMIT 1"
)
_OBJECTS: Final = "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
_CODE: Final = (
    "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'"
    " UNION ALL SELECT 'generated column', m.name || '.' || x.name"
    " FROM sqlite_master m, pragma_table_xinfo(m.name) x WHERE m.type = 'table' AND x.hidden <> 0"
)


class _Column(msgspec.Struct, frozen=True):
    """A column of a table. ``kind`` is the type that SQLite's ``typeof`` returns for its values."""

    name: str
    kind: str
    is_required: bool


class _Schema(msgspec.Struct, frozen=True):
    objects: frozenset[tuple[str, str]]
    tables: dict[str, list[_Column]]


@contextmanager
def opened_content(content: bytes) -> Iterator[sqlite3.Connection]:
    """Open the database of a snapshot, given as the bytes of its file. Endless queries are interrupted."""
    limit = (_MAX_STEPS + _STEPS_PER_BYTE * len(content)) // _STEPS
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(content)
        connection.set_progress_handler(partial(_is_over, count(), limit), _STEPS)
        yield connection


def _is_over(steps: Iterator[int], limit: int) -> bool:
    return next(steps) >= limit


def check_is_data(connection: sqlite3.Connection, name: str) -> None:
    """Raise SnapshotDamagedError if the database has views, triggers or similar, which run as code."""
    for kind, what in connection.execute(_CODE).fetchmany(1):
        raise _damaged(name, f"its database differs in the {kind} {what}")


def check_schema(connection: sqlite3.Connection, name: str) -> None:
    """Raise SnapshotDamagedError unless the database has exactly a snapshot's tables and indexes."""
    found, wanted = _schema_of(connection), _wanted_schema()
    for kind, what in sorted(found.objects ^ wanted.objects):
        raise _damaged(name, f"its database differs in the {kind} {what}")
    for table, columns in wanted.tables.items():
        if found.tables[table] != columns:
            raise _damaged(name, f"its database differs in the columns of the table {table}")


@cache
def _wanted_schema() -> _Schema:
    with opened_content(empty_snapshot()) as connection:
        return _schema_of(connection)


def _schema_of(connection: sqlite3.Connection) -> _Schema:
    objects = frozenset(connection.execute(_OBJECTS))
    return _Schema(
        objects, {table: _columns_of(connection, table) for kind, table in objects if kind == "table"}
    )


def _columns_of(connection: sqlite3.Connection, table: str) -> list[_Column]:
    rows = connection.execute('SELECT name, type, "notnull" FROM pragma_table_xinfo(?)', (table,))
    return [_Column(name, _kind_of(declared), bool(required)) for name, declared, required in rows]


def _kind_of(declared: str) -> str:
    """What ``typeof`` returns for values of a declared type, by SQLite's rules of affinity."""
    if "INT" in declared.upper():
        return "integer"
    return "blob" if declared.upper() == "BLOB" else "text"


def check_rows(connection: sqlite3.Connection, name: str) -> None:
    """Raise SnapshotDamagedError if the broker could not load these rows. The schema is checked before."""
    for problem in (*connection.execute("PRAGMA quick_check(1)").fetchone(),):
        if problem != "ok":
            raise _damaged(name, str(problem))
    for table, columns in _wanted_schema().tables.items():
        _check_types(connection, name, table, columns)
    for (table, column), (least, most) in _RANGES.items():
        outside = f"SELECT {column} FROM {table} WHERE {column} NOT BETWEEN {least} AND {most} LIMIT 1"
        for (value,) in connection.execute(outside):
            raise _damaged(name, f"{column} of a row of {table} is {value}; allowed: {least} to {most}")
    for table, column, other, key in _REFERENCES:
        missing = f"SELECT 1 FROM {table} WHERE {column} NOT IN (SELECT {key} FROM {other}) LIMIT 1"
        if connection.execute(missing).fetchone():
            raise _damaged(name, f"a row of {table} refers to a missing row of {other}")
    if connection.execute(_OPEN_RECEIPTS).fetchone():
        raise _damaged(name, "a row of receipts refers to a missing row of groups")
    _check_texts(connection, name)


def _check_types(connection: sqlite3.Connection, name: str, table: str, columns: list[_Column]) -> None:
    wrong = {column: _wrong_type(column) for column in columns}
    if connection.execute(f"SELECT 1 FROM {table} WHERE {' OR '.join(wrong.values())} LIMIT 1").fetchone():
        for column, condition in wrong.items():
            if connection.execute(f"SELECT 1 FROM {table} WHERE {condition} LIMIT 1").fetchone():
                kind = "an integer" if column.kind == "integer" else f"a {column.kind}"
                raise _damaged(name, f"{column.name} of a row of {table} is not {kind}")
    texts = ", ".join(column.name for column in columns if column.kind == "text")
    if texts:
        for _ in connection.execute(f"SELECT {texts} FROM {table}"):
            pass  # sqlite3 raises an error for a text that is not UTF-8


def _wrong_type(column: _Column) -> str:
    """The condition that is true for a value of another type."""
    return (
        f"typeof({column.name}) NOT IN ('{column.kind}', '{column.kind if column.is_required else 'null'}')"
    )


def _check_texts(connection: sqlite3.Connection, name: str) -> None:
    """Check the columns whose text has a structure of its own."""
    for table, column, kind in (("topics", "config", TopicConfig), ("groups", "config", GroupConfig)):
        for (text,) in connection.execute(f"SELECT {column} FROM {table}"):
            try:
                msgspec.json.decode(text, type=kind)
            except msgspec.MsgspecError as error:
                raise _damaged(name, f"{column} of a row of {table}: {error}") from None
    for fault, rule, made_us in connection.execute("SELECT name, rule, made_us FROM faults"):
        try:
            FaultInjector(msgspec.json.decode(rule, type=FaultRule), fault, made_us)
        except (msgspec.MsgspecError, EmulatorError) as error:
            raise _damaged(name, f"rule of a row of faults: {error}") from None
    for (attempts,) in connection.execute("SELECT attempts FROM receipts WHERE attempts <> ''"):
        try:
            parse_attempts(attempts)
        except (ValueError, IndexError):
            raise _damaged(name, f"attempts of a row of receipts cannot be read: {attempts[:80]!r}") from None


def _damaged(name: str, reason: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(f"snapshot {name} is damaged: {reason}")
