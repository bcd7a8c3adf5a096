"""Add the users of RocketMQ 5 with their policies.

Revision 0016.
"""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the table, which is empty: no earlier broker had users."""
    op.execute(
        """
CREATE TABLE users (
    name TEXT NOT NULL PRIMARY KEY,
    password TEXT NOT NULL,
    type TEXT NOT NULL,
    status TEXT NOT NULL,
    policies TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID
"""
    )
