"""Names of properties that are not user properties in JSON."""

from typing import Final

from mocketmq.message.properties import (
    CHECK_IMMUNITY,
    CHECK_TIMES,
    DELAY,
    KEYS,
    LITE_TOPIC,
    PRIORITY,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    UNIQ_KEY,
)

OWN_FIELDS: Final = {
    DELAY: "delay_level",
    KEYS: "keys",
    LITE_TOPIC: "lite_topic",
    PRIORITY: "priority",
    TAGS: "tag",
    UNIQ_KEY: "message_id",
}
"""Properties that have their own field, by name."""
RESERVED: Final = frozenset(
    {
        *OWN_FIELDS,
        # Set by brokers and client libraries.
        *("CONSUME_START_TIME", "CORRECTION_FLAG", "MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET"),
        *("MQ2_FLAG", "ORIGIN_MESSAGE_ID", "PGROUP", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME"),
        *("RETRY_TOPIC", TIMER_OUT_MS, "TRANSFER_FLAG", "WAIT"),
        # Would have no effect over HTTP.
        *(TIMER_DEL_UNIQKEY, CHECK_IMMUNITY, CHECK_TIMES, "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET"),
    }
)
"""Names that are forbidden for user properties."""
