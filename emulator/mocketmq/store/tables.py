"""The schema, in SQLAlchemy Core; Alembic's newest revision makes exactly these tables.

A change of the schema is a migration: see ``mocketmq_migrations``.

Instants are integer microseconds since the epoch (``_us``) of the emulator's clock, unless the name
says ``wall``. Tables of the hot path are indexed only in order of arrival.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from mocketmq.failpoint import pass_point

HEAD_REVISION = "0005"
"""The Alembic revision of these tables. Compared at start by plain SQL: Alembic takes long to import."""
_VERSION: Final = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"

metadata = MetaData()

topics = Table(
    "topics",
    metadata,
    Column("name", Text, primary_key=True),
    Column("read_queues", Integer, nullable=False),
    Column("write_queues", Integer, nullable=False),
    Column("perm", Integer, nullable=False),  # bits: 4 read, 2 write, 1 inherit
    Column("particulars", Text, nullable=False, server_default="{}"),  # JSON
    sqlite_with_rowid=False,
)

queues = Table(
    "queues",
    metadata,
    # Those of a deleted topic stay: messages may refer to them, and a new topic of the same name goes on with
    # their offsets.
    Column("key", Integer, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("queue_id", Integer, nullable=False),
    # Offsets below min_offset were removed. next_offset is a lower bound, for a queue whose newest messages
    # were removed; otherwise the next offset follows from the messages.
    Column("min_offset", BigInteger, nullable=False),
    Column("next_offset", BigInteger, nullable=False),
    Index("queues_by_topic", "topic", "queue_id", unique=True),
)

messages = Table(
    "messages",
    metadata,
    Column("commit_offset", Integer, primary_key=True, autoincrement=False),
    Column("queue_key", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("store_us", BigInteger, nullable=False),
    Column("born_us", BigInteger, nullable=False),
    Column("born_host", Text, nullable=False),
    Column("store_host", Text, nullable=False),
    Column("flag", Integer, nullable=False),
    Column("sys_flag", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("properties", Text, nullable=False),
    Column("tag_hash", Integer, nullable=False),
    Column("reconsume_times", Integer, nullable=False),
    Column("unique_key", Text, nullable=False),
    Column("due_us", BigInteger),
    Column("real_queue_key", Integer),
    Column("parked_offset", BigInteger),
    Column("prepared_offset", BigInteger),
    Index("messages_by_queue", "queue_key", "queue_offset", unique=True),
)

delay_offsets = Table(
    "delay_offsets",
    metadata,
    Column("level", Integer, primary_key=True),
    Column("next_offset", BigInteger, nullable=False),  # next entry of the level queue to deliver
)

interventions = Table(
    "interventions",
    metadata,
    Column("parked_offset", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),  # cancelled, forced
    Column("at_us", BigInteger, nullable=False),
)

timed_messages = Table(
    "timed_messages",
    metadata,
    # Messages of timed schemes that are done with, by identity. Never removed: it tells a file that is copied
    # back from a backup years later.
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("key_hash", Integer, primary_key=True, autoincrement=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("outcome", Text, nullable=False),  # delivered, forced, cancelled, cleared
    Column("commit_offset", BigInteger, nullable=False),  # of the record that it became; -1: none
    Index("timed_messages_early", "due_ms", sqlite_where=text("outcome <> 'delivered'")),
    sqlite_with_rowid=False,
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("delivered_offset", Integer, primary_key=True, autoincrement=False),
    Column("run", Integer, nullable=False),
    Column("parked_offset", BigInteger, nullable=False),
    Column("unique_key", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("scheme", Text, nullable=False),
    Column("level", Integer),
    Column("attempt", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("forced", Integer, nullable=False),
    Column("born_us", BigInteger, nullable=False),
    Column("stored_us", BigInteger, nullable=False),
    Column("due_us", BigInteger, nullable=False),
    Column("picked_us", BigInteger, nullable=False),
    Column("delivered_us", BigInteger, nullable=False),
    Column("pulled_us", BigInteger),
    Column("pulled_by", Text),
    Column("acked_us", BigInteger),
)

groups = Table(
    "groups",
    metadata,
    Column("name", Text, primary_key=True),
    Column("max_retries", Integer, nullable=False),
    Column("retry_queues", Integer, nullable=False),
    Column("config", Text, nullable=False, server_default="{}"),  # JSON
    sqlite_with_rowid=False,
)

progress = Table(
    "progress",
    metadata,
    Column("group_name", Text, primary_key=True),
    Column("queue_key", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),  # all below were taken or skipped
    sqlite_with_rowid=False,
)

takes = Table(
    "takes",
    metadata,
    Column("group_name", Text, primary_key=True),
    Column("commit_offset", Integer, primary_key=True, autoincrement=False),
    Column("queue_key", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("times", Integer, nullable=False),  # how often it was taken by receipt
    Column("first_taken_us", BigInteger),
    Column("last_taken_us", BigInteger),
    Column("visible_us", BigInteger, nullable=False),  # open: when it can be taken again
    Column("settled_us", BigInteger),
    # acked, retried, dead, passed; of half messages: committed, rolled back, abandoned
    Column("outcome", Text),
    Column("pop_ms", BigInteger),  # wall time that names the take to a client that popped it
    Index("takes_open", "group_name", sqlite_where=text("settled_us IS NULL")),
    sqlite_with_rowid=False,
)

request_modes = Table(
    "request_modes",
    metadata,
    Column("topic", Text, primary_key=True),
    Column("group_name", Text, primary_key=True),
    Column("mode", Text, nullable=False),  # PULL, POP
    Column("share_queues", Integer, nullable=False),  # POP: queues of how many further members, 0 for all
    sqlite_with_rowid=False,
)

kv_configs = Table(
    "kv_configs",
    metadata,
    Column("namespace", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)

message_keys = Table(
    "message_keys",
    metadata,
    Column("key_hash", BigInteger, primary_key=True, autoincrement=False),
    Column("commit_offset", BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)

runs = Table(
    "runs",
    metadata,
    Column("run", Integer, primary_key=True),
    Column("started_wall_us", BigInteger, nullable=False),
    Column("started_us", BigInteger, nullable=False),
    Column("version", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("clock", Text, nullable=False),
    Column("levels", Text, nullable=False),
    Column("durability", Text, nullable=False),
)

clock_moves = Table(
    "clock_moves",
    metadata,
    Column("move", Integer, primary_key=True),
    Column("run", Integer, nullable=False),
    Column("wall_us", BigInteger, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("to_us", BigInteger, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("name", Text, primary_key=True),  # next_commit_offset, keys_indexed_to
    Column("value", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)


def make_schema(connection: Connection) -> None:
    """Create all tables in an empty database, in one transaction; Alembic would lengthen a start by half."""
    connection.rollback()
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # Python's sqlite3 opens none for DDL by itself
    metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(_VERSION)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (HEAD_REVISION,))
    pass_point("migrate.upgraded")
    connection.commit()
