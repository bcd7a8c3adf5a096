"""The first schema.

Revision 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "clock_moves",
        sa.Column("move", sa.Integer(), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("wall_us", sa.BigInteger(), nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("to_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("move"),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "delay_offsets",
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("level"),
    )
    op.create_table(
        "deliveries",
        sa.Column("delivered_offset", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("parked_offset", sa.BigInteger(), nullable=False),
        sa.Column("unique_key", sa.Text(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("queue_offset", sa.BigInteger(), nullable=False),
        sa.Column("scheme", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("forced", sa.Integer(), nullable=False),
        sa.Column("born_us", sa.BigInteger(), nullable=False),
        sa.Column("stored_us", sa.BigInteger(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.Column("picked_us", sa.BigInteger(), nullable=False),
        sa.Column("delivered_us", sa.BigInteger(), nullable=False),
        sa.Column("pulled_us", sa.BigInteger(), nullable=True),
        sa.Column("pulled_by", sa.Text(), nullable=True),
        sa.Column("acked_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("delivered_offset"),
    )
    op.create_table(
        "groups",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("retry_queues", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "interventions",
        sa.Column("parked_offset", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("parked_offset"),
    )
    op.create_table(
        "message_keys",
        sa.Column("key_hash", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("commit_offset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("key_hash", "commit_offset"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        sa.Column("commit_offset", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("queue_key", sa.Integer(), nullable=False),
        sa.Column("queue_offset", sa.BigInteger(), nullable=False),
        sa.Column("store_us", sa.BigInteger(), nullable=False),
        sa.Column("born_us", sa.BigInteger(), nullable=False),
        sa.Column("born_host", sa.Text(), nullable=False),
        sa.Column("store_host", sa.Text(), nullable=False),
        sa.Column("flag", sa.Integer(), nullable=False),
        sa.Column("sys_flag", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("properties", sa.Text(), nullable=False),
        sa.Column("tag_hash", sa.Integer(), nullable=False),
        sa.Column("reconsume_times", sa.Integer(), nullable=False),
        sa.Column("unique_key", sa.Text(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=True),
        sa.Column("real_queue_key", sa.Integer(), nullable=True),
        sa.Column("parked_offset", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("commit_offset"),
    )
    op.create_index("messages_by_queue", "messages", ["queue_key", "queue_offset"], unique=True)
    op.create_table(
        "progress",
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("queue_key", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("group_name", "queue_key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "queues",
        sa.Column("key", sa.Integer(), nullable=False),
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("min_offset", sa.BigInteger(), nullable=False),
        sa.Column("next_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_index("queues_by_topic", "queues", ["topic", "queue_id"], unique=True)
    op.create_table(
        "runs",
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("started_wall_us", sa.BigInteger(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("clock", sa.Text(), nullable=False),
        sa.Column("levels", sa.Text(), nullable=False),
        sa.Column("durability", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run"),
    )
    op.create_table(
        "takes",
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("commit_offset", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("queue_key", sa.Integer(), nullable=False),
        sa.Column("queue_offset", sa.BigInteger(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("first_taken_us", sa.BigInteger(), nullable=True),
        sa.Column("last_taken_us", sa.BigInteger(), nullable=True),
        sa.Column("visible_us", sa.BigInteger(), nullable=False),
        sa.Column("settled_us", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("group_name", "commit_offset"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "takes_open", "takes", ["group_name"], unique=False, sqlite_where=sa.text("settled_us IS NULL")
    )
    op.create_table(
        "topics",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("read_queues", sa.Integer(), nullable=False),
        sa.Column("write_queues", sa.Integer(), nullable=False),
        sa.Column("perm", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
