"""Record the pop time of messages, and which groups pop.

Revision 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("takes", sa.Column("pop_ms", sa.BigInteger(), nullable=True))
    op.create_table(
        "request_modes",
        sa.Column("topic", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("share_queues", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("topic", "group_name"),
        sqlite_with_rowid=False,
    )
