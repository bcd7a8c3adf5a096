"""Store when a reset emptied a queue, and the log offset at which a fault hit.

Revision 0008.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the columns."""
    op.add_column(
        "queues", sa.Column("emptied_at", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column(
        "fault_hits", sa.Column("next_offset", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
