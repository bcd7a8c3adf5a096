"""Rename columns and tables to RocketMQ's terms.

In RocketMQ's protocol ``commitOffset`` is a consumer's offset, so a message's place in the log becomes
``log_offset``. A group's take of a message becomes a receipt, as in receipt handle.

Revision 0011.
"""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Rename columns, a counter and a table. SQLite rewrites only the schema, not the rows."""
    for table in ("messages", "takes", "timed_messages", "message_keys"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN commit_offset TO log_offset")
    op.execute("UPDATE counters SET name = 'next_log_offset' WHERE name = 'next_commit_offset'")
    op.execute("ALTER TABLE topics RENAME COLUMN particulars TO config")
    op.execute("ALTER TABLE takes RENAME TO receipts")
    op.execute("DROP INDEX takes_open")
    op.execute("CREATE INDEX receipts_open ON receipts (group_name) WHERE settled_us IS NULL")
