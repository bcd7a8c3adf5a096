"""Record the settled messages of second directories.

Revision 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "timed_messages",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("key_hash", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("commit_offset", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("number", "key_hash"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "timed_messages_early",
        "timed_messages",
        ["due_ms"],
        unique=False,
        sqlite_where=sa.text("outcome <> 'delivered'"),
    )
