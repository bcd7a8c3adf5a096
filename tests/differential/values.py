"""Names and values from which sequences are generated."""

from collections.abc import Sequence
from typing import Any

from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX
from mocketmq.message.properties import MAX_PROPERTIES_BYTES
from tests.doors.remoting.producing import joined

LEVELS = "1s 2s 1s 3s"
"""Level delays of both brokers."""

TOPICS = ("T0~", "T1~", "T2~")
REGISTERED = (
    *("TBW102", "SCHEDULE_TOPIC_XXXX", "DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"),
    *("SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest"),
)
"""Topics that RocketMQ registers when it starts."""
GROUPS = ("G0~", "G1~")
CLIENTS = ("one", "two")
TAGS = ("A", "B", "Aa", "BB", "tag with space", "null", "ü")  # Aa and BB have the same hash in Java
SUBSCRIPTIONS: Sequence[dict[str, Any]] = (
    {"expression": "*"},
    {"expression": "A", "tagsSet": ["A"], "codeSet": [65]},
    {"expression": "A || B", "tagsSet": ["A", "B"], "codeSet": [65, 66]},
    {"expression": "BB", "tagsSet": ["BB"], "codeSet": [2112]},
)
FILTERS = (
    *(
        "a > 5",
        "a = 5",
        "a = '5'",
        "a <> 5",
        "a >= 5 AND b IS NOT NULL",
        "a IS NULL",
        "NOT a = 5",
        "NOT (a = 5)",
    ),
    *("a BETWEEN 1 AND 7", "a NOT BETWEEN 6 AND 20", "a > 4.5", "a > -1", "a > b", "a = 5 OR b = 'hello'"),
    *("TAGS = 'A'", "TAGS IN ('A', 'B')", "TAGS NOT IN ('A')", "b IN ('hello')", "b > 'a'", "'hello' = b"),
    *(
        "TRUE",
        "FALSE",
        "1 = 1",
        "a",
        "b = TRUE",
        "KEYS IS NOT NULL",
        "A = 5",
        "a > 99999999999999999999",
        "a > 9223372036854775807",
    ),
    *(
        "a >",
        "",
        "a == 5",
        "a = 5 ; b = 1",
        "b LIKE 'h%'",
        "b CONTAINS 'ell'",
        "(a = 5",
        "a = 5 -- why",
        "a=5/**/",
    ),
)
PROPERTIES = (
    *(("a", number) for number in ("5", "10", "4.5", "-1", "x", "05")),
    *(("b", text) for text in ("hello", "true", "5")),
    ("Größe", "10 μm"),
    ("n", "0" * 300),
    ("x y", " z "),
    ("REAL_TOPIC", "elsewhere"),
    ("REAL_QID", "77"),
    ("RETRY_TOPIC", "T9~"),
    ("ORIGIN_MESSAGE_ID", "abc"),
    ("CLUSTER", "OtherCluster"),
    ("MSG_REGION", "r"),
    ("TRACE_ON", "false"),
    ("INSTANCE_ID", "i"),
    ("CORRELATION_ID", "c"),
    ("MAX_RECONSUME_TIMES", "3"),
    ("PGROUP", "G0~"),
    ("TRAN_MSG", "false"),
    ("_", ""),
    ("a=b", "c;d|e"),
    ("POP_CK", "1 2 3"),
    ("TIMER_OUT_MS", "5"),
    ("BUYER_ID", "7"),
)
"""Message properties other than keys, tags and delays."""
PLANS: Sequence[list[str]] = (
    ["commit"],
    ["roll back"],
    ["do not know", "commit"],
    ["do not know", "roll back"],
    ["silent", "commit"],
    ["wrong group", "commit"],
    ["do not know", "do not know"],
    ["silent", "silent"],
    ["leave"],
    [],
)
"""A producer's answers to the check-backs of a half message. After the last, the broker gives up."""
BORN_LATE_MS = 4_102_444_800_000
"""Born time in the future, because upstream checks such half messages back at once."""
ODD_SENDS: Sequence[dict[str, Any]] = (
    {"queue_id": 100},
    {"queue_id": 16},
    {"topic": "SCHEDULE_TOPIC_XXXX"},
    {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"},
    {"topic": "RMQ_SYS_TRANS_OP_HALF_TOPIC"},
    {"topic": "OFFSET_MOVED_EVENT"},
    {"topic": "SELF_TEST_TOPIC"},
    {"topic": "a b"},
    {"topic": " "},
    {"topic": ""},
    {"topic": "t" * 128},
    {"topic": "ü"},
    {"topic": "nowhere~", "default_topic": "nothing"},
    {"topic": "nowhere~", "default_topic": "T0~"},
    {"default_topic": "nothing"},
    {"body": ""},
    {"body": f"999:{(4 << 20) + 1}"},
    {"properties": joined({"big": "x" * (MAX_PROPERTIES_BYTES + 1)})},
    {"properties": joined({"big": "x" * (MAX_PROPERTIES_BYTES - 4)})},
    {"properties": joined({"DELAY": "abc"})},
    {"properties": joined({"DELAY": "1.0"})},
    {"properties": joined({"DELAY": " 1"})},
    {"properties": joined({"DELAY": "2147483648"})},
    {"properties": "\x02".join(("DELAY\x011", "DELAY\x010"))},
    {"properties": "no pair"},
    {"properties": "a\x01b\x01c"},
    {"properties": joined({"TIMER_DELIVER_MS": "1000"})},
    {"properties": joined({"__STARTDELIVERTIME": "1000"})},
    {"sys_flag": 4},
    {"sys_flag": 12},
    {"born_timestamp": -1},
    {"born_timestamp": 2**62},
    {"reconsume_times": -1},
    {"reconsume_times": 5},
    {"producer_group": None},
    {"topic": None},
    {"default_topic": None},
    {"queue_id": None},
    {"queue_id": "x"},
    {"flag": "1.5"},
    {"sys_flag": str(2**31)},
    {"unit_mode": "maybe"},
    {"properties": ""},
    {"producer_group": ""},
    {"producer_group": "a b"},
    {"default_topic_queue_nums": 0, "topic": "none~"},
    {"default_topic_queue_nums": -1, "topic": "none~"},
    {"default_topic_queue_nums": 100, "topic": "many~"},
    {"topic": RETRY_PREFIX},
    {"topic": DLQ_PREFIX + "G0~"},
)
"""Changes to a send that may make the broker refuse it."""
