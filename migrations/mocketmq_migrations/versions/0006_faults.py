"""Store fault rules, and the requests that injected faults have hit.

Revision 0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "faults",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("made_us", sa.BigInteger(), nullable=False),
        sa.Column("matched", sa.Integer(), nullable=False),
        sa.Column("fired", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "fault_hits",
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.Column("do", sa.Text(), nullable=False),
        sa.Column("door", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("unique_key", sa.Text(), nullable=True),
    )
    op.create_index("fault_hits_by_key", "fault_hits", ["unique_key"])
