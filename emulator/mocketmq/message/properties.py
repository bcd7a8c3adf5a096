"""Properties of messages: their names, and the string in which they are stored and sent.

Sources: MessageConst.java and MessageDecoder.java of RocketMQ 4.9.8; docs/protocol/remoting.md §3.4, §4.
"""

from functools import lru_cache
from typing import Final

from mocketmq.codec import write_properties
from mocketmq.errors import IllegalMessageError, StoreDamagedError, shorten

CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CLUSTER: Final = "CLUSTER"
DELAY: Final = "DELAY"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
KEYS: Final = "KEYS"
LITE_TOPIC: Final = "__LITE_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
PGROUP: Final = "PGROUP"
POP_CK: Final = "POP_CK"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
REAL_QID: Final = "REAL_QID"
REAL_TOPIC: Final = "REAL_TOPIC"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
RETRY_TOPIC: Final = "RETRY_TOPIC"
SHARDING_KEY: Final = "__SHARDINGKEY"
TAGS: Final = "TAGS"
HALF_DUE_US: Final = "HALF_DUE_US"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
TRAN_MSG: Final = "TRAN_MSG"
UNIQ_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"

START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
"""Aliyun's absolute due time, in milliseconds of the client's wall clock."""
TIMERS: Final = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""Due times of Apache RocketMQ 5.x, in order of precedence (docs/protocol/remoting.md §5.6)."""
MAX_TIMER_DELAY_MS: Final = 259_200_000
"""Maximum delay of a timer, three days (timerMaxDelaySec of RocketMQ 5.x)."""
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
        *("MQ2_FLAG", ORIGIN_MESSAGE_ID, PGROUP, REAL_QID, REAL_TOPIC, "RECONSUME_TIME"),
        *(RETRY_TOPIC, TIMER_OUT_MS, "TRANSFER_FLAG", "WAIT"),
        # These properties would have no effect over HTTP.
        *(TIMER_DEL_UNIQKEY, CHECK_IMMUNITY, CHECK_TIMES, TRAN_MSG, "TRAN_PREPARED_QUEUE_OFFSET"),
    }
)
"""Properties that are not user properties in JSON, and that a JSON client may not set."""
MAX_PROPERTIES_BYTES: Final = 32_767
_KEY_VALUE: Final = "\x01"
_NEXT: Final = "\x02"


@lru_cache(maxsize=4_096)
def java_hash(text: str) -> int:
    """Compute Java's ``String.hashCode``: signed 32 bits over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def tag_hash(properties: dict[str, str]) -> int:
    """Compute the consume-queue tag code: the hash of the tag, 0 without a tag."""
    tag = properties.get(TAGS)
    return java_hash(tag) if tag else 0


def encode_properties(properties: dict[str, str], limit: int = MAX_PROPERTIES_BYTES) -> str:
    """Encode properties as the string ``key 01 value 02 …``.

    Raises IllegalMessageError for properties that RocketMQ's decoder would silently drop, because a name or
    value is empty or contains a separator, and for more than ``limit`` bytes.
    """
    written = write_properties(properties, limit)
    if written is not None:
        return written
    text = _NEXT.join((*map(_KEY_VALUE.join, properties.items()), ""))
    count = len(properties)
    if text.count(_KEY_VALUE) != count or text.count(_NEXT) != count:
        raise IllegalMessageError(
            "properties", "a property contains U+0001 or U+0002, which separate properties from each other"
        )
    if "" in properties or "" in properties.values():
        raise IllegalMessageError("properties", "a property has an empty name or value; neither may be empty")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise IllegalMessageError(
            "properties", "a property is not valid Unicode (a lone surrogate)"
        ) from None
    if size > limit:
        raise IllegalMessageError("properties", f"the properties take {size} bytes; allowed: at most {limit}")
    return text


def decode_properties(text: str) -> dict[str, str]:
    """Decode the properties of a stored message. Raises StoreDamagedError."""
    try:
        return dict(part.split(_KEY_VALUE, 1) for part in text.split(_NEXT) if part)
    except ValueError:
        raise StoreDamagedError(
            f"the properties of a stored message are damaged: they are {shorten(text)}; restore the data"
            " directory from a copy, or start the broker with another --data"
        ) from None


def mark_parked(properties: dict[str, str], topic: str, queue_id: int) -> None:
    """Add the real topic and queue to a parked message's properties."""
    properties[REAL_TOPIC] = topic
    properties[REAL_QID] = str(queue_id)
