"""Rename ``commit_offset``, which RocketMQ's protocol uses for what a consumer committed, to ``log_offset``.

Revision 0011.
"""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Rename the columns and the counter. SQLite rewrites the schema alone, not the rows."""
    for table in ("messages", "takes", "timed_messages", "message_keys"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN commit_offset TO log_offset")
    op.execute("UPDATE counters SET name = 'next_log_offset' WHERE name = 'next_commit_offset'")
