"""Store the name of the lite topic to which a queue belongs.

Revision 0017.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column, which is null for the queues of older stores."""
    op.add_column("queues", sa.Column("lite_topic", sa.Text))
