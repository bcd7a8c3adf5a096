"""Keep each attempt of a consumer after the first, and each change of the invisible time.

Revision 0014.
"""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add an empty list to each receipt. SQLite changes only the schema, not the rows."""
    op.execute("ALTER TABLE receipts ADD COLUMN attempts TEXT NOT NULL DEFAULT ''")
