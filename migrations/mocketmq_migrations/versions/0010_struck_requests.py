"""Store the topic and group of a request hit by a fault, and the end of an outage.

Revision 0010.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns."""
    op.add_column("fault_hits", sa.Column("topic", sa.Text()))
    op.add_column("fault_hits", sa.Column("group_name", sa.Text()))
    op.add_column("fault_hits", sa.Column("to_us", sa.BigInteger()))
