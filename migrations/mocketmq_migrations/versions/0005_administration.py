"""Store the configuration of topics and groups, and the name server's KV configuration.

Revision 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns and the table."""
    op.add_column("topics", sa.Column("particulars", sa.Text(), nullable=False, server_default="{}"))
    op.add_column("groups", sa.Column("config", sa.Text(), nullable=False, server_default="{}"))
    op.create_table(
        "kv_configs",
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key"),
        sqlite_with_rowid=False,
    )
