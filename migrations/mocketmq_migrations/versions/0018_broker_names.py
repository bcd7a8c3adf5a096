"""Store the names of each run's brokers, so that the ledger shows which broker had a message.

Revision 0018.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add the column, which is empty for runs of a single broker and of older stores."""
    op.add_column("runs", sa.Column("brokers", sa.Text, nullable=False, server_default=""))
