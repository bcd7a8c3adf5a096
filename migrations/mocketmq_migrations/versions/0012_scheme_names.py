"""Rename the scheme of second directories to the name of its setting, ``directories``.

Revision 0012.
"""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Rewrite the name in the ledger and in held deliveries."""
    for table in ("deliveries", "held_deliveries"):
        op.execute(f"UPDATE {table} SET scheme = 'directories' WHERE scheme = 'second-directories'")
