"""Record the half message of each committed message.

Revision 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column."""
    op.add_column("messages", sa.Column("prepared_offset", sa.BigInteger(), nullable=True))
