"""Call the scheme of second directories by the name of its setting, ``directories``.

Revision 0012.
"""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Rewrite the name where the ledger and held deliveries have it."""
    for table in ("deliveries", "held_deliveries"):
        op.execute(f"UPDATE {table} SET scheme = 'directories' WHERE scheme = 'second-directories'")
