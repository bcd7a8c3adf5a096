"""Store the kind of each record of ``messages``.

Until now the kind followed from the record's topic and its null columns.

Revision 0013.
"""

from typing import Final

from alembic import op

revision = "0013"
down_revision = "0012"

_KINDS: Final = {
    "retried": "topic = 'SCHEDULE_TOPIC_XXXX' AND real_topic LIKE '\\%RETRY\\%%' ESCAPE '\\'",
    "parked": "topic = 'SCHEDULE_TOPIC_XXXX'",
    "held": "topic = 'rmq_sys_wheel_timer'",
    "prepared": "topic = 'RMQ_SYS_TRANS_HALF_TOPIC' OR topic LIKE '\\%HALF\\%%' ESCAPE '\\'",
    "abandoned": "topic = 'TRANS_CHECK_MAX_TIME_TOPIC'",
    "dead": "topic LIKE '\\%DLQ\\%%' ESCAPE '\\'",
    "delivered": "parked_offset IS NOT NULL",
    "committed": "prepared_offset IS NOT NULL",
}
"""SQL condition of each kind. The first condition that holds decides; if none holds, the kind is ``sent``."""


def upgrade() -> None:
    """Add the column, which is ``sent`` in every row, and change the rows of all other kinds."""
    op.execute("ALTER TABLE messages ADD COLUMN kind TEXT NOT NULL DEFAULT 'sent'")
    cases = " ".join(f"WHEN {condition} THEN '{kind}'" for kind, condition in _KINDS.items())
    op.execute(f"""
        UPDATE messages SET kind = found FROM (
            SELECT m.log_offset AS place, CASE {cases} END AS found
            FROM (SELECT m.*, q.topic, real.topic AS real_topic FROM messages m
                  JOIN queues q ON q.key = m.queue_key
                  LEFT JOIN queues real ON real.key = m.real_queue_key) m
        ) WHERE log_offset = place AND found IS NOT NULL""")
    op.execute(
        "UPDATE messages SET kind = 'cancelled' WHERE log_offset IN"
        " (SELECT log_offset FROM timed_messages WHERE outcome = 'cancelled')"
    )
