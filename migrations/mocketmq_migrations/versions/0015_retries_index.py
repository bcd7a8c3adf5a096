"""Index retried records, so that counting the pending ones skips all other pending messages.

Revision 0015.
"""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the index, which has only retried records."""
    op.execute("CREATE INDEX messages_retried ON messages (queue_key, queue_offset) WHERE kind = 'retried'")
