"""Store the deliveries that injected faults hold, and name the faults in the ledger.

Revision 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("deliveries", sa.Column("fault", sa.Text(), nullable=True))
    op.create_table(
        "held_deliveries",
        sa.Column("held", sa.Integer(), nullable=False),
        sa.Column("release_us", sa.BigInteger(), nullable=True),
        sa.Column("fault", sa.Text(), nullable=False),
        sa.Column("is_repeat", sa.Integer(), nullable=False),
        sa.Column("record_offset", sa.BigInteger(), nullable=False),
        sa.Column("parked_offset", sa.BigInteger(), nullable=False),
        sa.Column("queue_key", sa.Integer(), nullable=False),
        sa.Column("scheme", sa.Text(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=True),
        sa.Column("stored_us", sa.BigInteger(), nullable=False),
        sa.Column("due_us", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("held"),
    )
    op.create_index("held_deliveries_by_release", "held_deliveries", ["release_us"])
    op.create_index("held_deliveries_by_record", "held_deliveries", ["record_offset"])
