"""Names and values from which gRPC sequences are generated."""

from collections.abc import Sequence
from typing import Any

NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER = 1, 2, 3
ONE, FOUR, ORDER, BATCH = "One~", "Four~", "Order~", "Batch~"
TOPICS: dict[str, tuple[int, str, str]] = {
    ONE: (1, "MIXED", "6"),
    FOUR: (4, "MIXED", "6"),
    ORDER: (4, "FIFO", "6"),
    "Plain~": (1, "NORMAL", "6"),
    BATCH: (1, "NORMAL", "6"),
    "Lapse~": (1, "NORMAL", "6"),
    "Late~": (1, "DELAY", "6"),
    "Half~": (1, "TRANSACTION", "6"),
    "WriteOnly~": (2, "MIXED", "2"),
    "ReadOnly~": (2, "MIXED", "4"),
}
"""Topics with their queues, types and permissions."""
GROUPS: dict[str, tuple[dict[str, Any], Sequence[str] | None]] = {
    "All~": ({}, None),
    "A~": ({"filter_expression": {"type": 1, "expression": "A || C"}}, ("A", "C")),
    "Sql~": ({"filter_expression": {"type": 2, "expression": "TAGS IN ('B', 'C')"}}, ("B", "C")),
}
"""Groups with their filters, and the tags that each filter accepts."""
IN_ORDER = "InOrder~"
UNDERTAKER = "Undertaker~"
"""A group that receives the dead letters of others."""
NOT_MADE = "NotMade~"
"""A group that nobody creates."""
MOST = 24
"""Maximum number of messages of a topic, because a receive returns at most 32."""
ODD_SENDS: Sequence[dict[str, Any]] = (
    {"topic": ""},
    {"topic": " "},
    {"topic": "a b"},
    {"topic": "ü"},
    {"topic": "t" * 128},
    {"topic": "TBW102"},
    {"topic": "SCHEDULE_TOPIC_XXXX"},
    {"topic": "rmq_sys_wheel_timer"},
    {"topic": "nowhere~"},
    {"topic": "ReadOnly~"},
    {"topic": "%DLQ%nobody~"},
    {"size": -1},
    {"size": (4 << 20) + 1},
    {"properties": {"KEYS": "k"}},
    {"properties": {"TIMER_DELIVER_MS": "5"}},
    {"properties": {"TRACE_CONTEXT": "t"}},
    {"properties": {"__SHARDINGKEY": "s"}},
    {"topic": "Plain~", "properties": {"__SHARDINGKEY": "s"}},
    {"properties": {"a\nb": "x"}},
    {"properties": {"a": "x\x00"}},
    {"properties": {"a": "x\x85"}},
    {"properties": {"": "x"}},
    {"properties": {"a": ""}},
    {"properties": {f"p{n}": "x" for n in range(128)}},
    {"properties": {f"p{n}": "x" for n in range(129)}},
    {"properties": {"p": "x" * 16_383}},
    {"properties": {"p": "x" * 16_384}},
    {"tag": " "},
    {"tag": "A|B"},
    {"tag": "A\tB"},
    {"keys": [""]},
    {"keys": [" "]},
    {"keys": ["a\x7f"]},
    {"message_id": ""},
    {"message_id": " "},
    {"message_group": " "},
    {"message_group": "g" * 63},
    {"message_group": "g" * 64},
    {"message_group": "ü" * 32},
    {"message_group": "a\x01"},
    {"delay_s": 90_000},
    {"message_type": TRANSACTION, "orphaned_transaction_recovery_duration": {"seconds": 3_601}},
    {"message_type": TRANSACTION, "delay_s": 90_000},
)
ODD_RECEIVES: Sequence[dict[str, Any]] = (
    {"topic": ""},
    {"topic": "a b"},
    {"topic": "TBW102"},
    {"topic": "WriteOnly~"},
    {"group": ""},
    {"group": "a b"},
    {"group": "g" * 256},
    {"group": "CID_RMQ_SYS_x"},
    {"group": "Off~"},
    {"invisible_s": 9.0},
    {"invisible_s": 0},
    {"invisible_s": 43_201},
    {"filter_expression": {"type": 2, "expression": ""}},
    {"filter_expression": {"type": 2, "expression": "a >"}},
    {"filter_expression": {"type": 1, "expression": "||"}},
)
ODD_DURATIONS_MS = (-1_000, 43_201_000)
ODD_HANDLES = ("x", "", " ", "0 0 60000 0 0 broker-a 0 0 0", "a b c d e f g h i")
UNSERVED = ("PullMessage", "UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription", "Nothing")
