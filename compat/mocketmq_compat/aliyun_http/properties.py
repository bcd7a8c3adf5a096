"""Message properties in this protocol: the string ``key:value|key:value|`` (docs/protocol/aliyun.md §1.6).

The sharding key selects the queue, so that messages with equal keys are consumed in order.
"""

from collections.abc import Mapping
from typing import Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.properties import HALF_DUE_US, KEYS, LITE_TOPIC, PRIORITY, START_DELIVER_TIME, java_hash

SHARDING_KEY: Final = "__SHARDINGKEY"
CHECK_IMMUNITY: Final = "__TransCheckT"
"""Makes a message a half message; its value is the seconds until the first check-back."""

_LAST: Final = (KEYS, START_DELIVER_TIME, SHARDING_KEY, CHECK_IMMUNITY)
"""Properties with a meaning for the service, written after the user's own."""

_ROCKETMQ: Final = frozenset(
    {
        *("1ST_POP_TIME", "BORN_TIMESTAMP", "BUYER_ID", "CHECK_IMMUNITY_TIME_IN_SECONDS", "CLUSTER"),
        *("CONSUME_START_TIME", "CORRECTION_FLAG", "DELAY", "DLQ_ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_TOPIC"),
        *("DUP_INFO", "EXTEND_UNIQ_INFO", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET", "INSTANCE_ID"),
        *("MAX_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "ORIGIN_MESSAGE_ID"),
        *("PGROUP", "POP_CK", "POP_CK_OFFSET", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "RETRY_TOPIC"),
        *("TAGS", "TIMER_DELAY_LEVEL", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"),
        *("TIMER_DEL_UNIQKEY", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_ROLL_TIMES"),
        *("TRACE_ON", "TRANSACTION_CHECK_TIMES", "TRANSFER_FLAG", "TRAN_MSG", "TRAN_PREPARED_QUEUE_OFFSET"),
        *("UNIQ_KEY", "WAIT", "__BORNHOST", "__transactionId__", HALF_DUE_US, LITE_TOPIC, PRIORITY),
    }
)
"""Names reserved for brokers and other clients (docs/protocol/remoting.md §4)."""


def parse(text: str) -> dict[str, str]:
    """Parse the properties of a message to send.

    Raises InvalidArgumentError for a pair that is not ``key:value``, with neither part empty or containing
    ``:`` or ``|``, for a repeated key, and for RocketMQ's reserved names.
    """
    properties: dict[str, str] = {}
    for pair in filter(None, text.split("|")):
        key, _, value = pair.partition(":")
        if not key or not value or ":" in value:
            raise InvalidArgumentError(
                "a pair in Properties", pair, "key:value, where neither is empty or contains : or |"
            )
        if key in properties:
            raise InvalidArgumentError("a key in Properties", key, "each key once")
        if key in _ROCKETMQ:
            raise InvalidArgumentError("a key in Properties", key, "a name that RocketMQ does not reserve")
        properties[key] = value
    return properties


def render(properties: Mapping[str, str]) -> str:
    """Write the properties for a consumer: the user's, then the service's, each pair ended by ``|`` (X-5).

    Omits RocketMQ's reserved properties, and properties that this string cannot represent.
    """
    own = [key for key in properties if key not in _ROCKETMQ and key not in _LAST]
    return "".join(
        f"{key}:{properties[key]}|"
        for key in (*own, *_LAST)
        if key in properties and _fits(key) and _fits(properties[key])
    )


def _fits(part: str) -> bool:
    return part != "" and ":" not in part and "|" not in part


def sharded_queue_id(sharding_key: str, queues: int) -> int:
    """Choose the key's queue by the absolute value of Java's hash, like Aliyun's clients.

    The smallest integer has no absolute value in Java; it means the first queue.
    """
    code = java_hash(sharding_key)
    return 0 if code == -(1 << 31) else abs(code) % queues
