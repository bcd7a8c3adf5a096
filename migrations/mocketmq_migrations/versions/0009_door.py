"""Store the protocol over which each message was sent.

Revision 0009.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column."""
    op.add_column("messages", sa.Column("door", sa.Text(), nullable=True))
