"""Names of the cluster, of system topics and groups, and the rules for all other topics and groups.

Clients compare the names of cluster and brokers, so all responses must use the same names.
Source: TopicValidator.java of RocketMQ 4.9.8; docs/protocol/remoting.md §7.2.
"""

import re
from collections.abc import Mapping
from typing import Final

from mocketmq.errors import InvalidArgumentError

CLUSTER: Final = "DefaultCluster"
BROKER: Final = "broker-a"
MAX_BROKERS: Final = 8
"""Largest number of brokers in a cluster."""
MAX_NAME_SERVERS: Final = 8
"""Largest number of name servers in a cluster."""
REGION: Final = "DefaultRegion"
"""The region of every broker outside Aliyun; clients name trace topics after it."""

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""The topic shown for pending messages with an absolute due time."""
TEMPLATE_TOPIC: Final = "TBW102"
"""The topic that clients give as the template for topics created on first use."""
REPLY_TOPIC: Final = f"{CLUSTER}_REPLY_TOPIC"
"""The topic of replies; clients form its name from the property ``CLUSTER`` of the request message."""
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
HALF_PREFIX: Final = "%HALF%"
"""Prefix of the topic that holds another topic's half messages; no client sends to it or consumes it."""
HALF_GROUP: Final = "CID_RMQ_SYS_HALF"
"""The group with which producers pop half messages."""
CHECKED_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
"""The topic of half messages whose producers are checked back."""
CHECKED_HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The group that takes half messages whose producers are checked back."""
UNDECIDED_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""The topic of half messages abandoned after the last check-back."""

MAX_QUEUES: Final = 1_024
"""Maximum number of queues of a topic on a broker."""
MAX_QUEUE_NUMBER: Final = MAX_BROKERS * MAX_QUEUES - 1
"""Largest number of a queue when the queues of all brokers are numbered together (``broker_share.py``)."""
MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 255
MAX_GROUP_TOPIC_LENGTH: Final = MAX_GROUP_LENGTH + len(RETRY_PREFIX)
"""Maximum length of the names of retry and dead-letter topics."""
NAME_PATTERN: Final = "^[%|a-zA-Z0-9_-]+$"
GROUP_NAMES: Final = f"1 to {MAX_GROUP_LENGTH} characters of a-z, A-Z, 0-9, %, |, _ and -"
TOPIC_NAMES: Final = (
    f"1 to {MAX_TOPIC_LENGTH} characters of a-z, A-Z, 0-9, %, |, _ and -;"
    f" up to {MAX_GROUP_LENGTH} more after {RETRY_PREFIX} or {DLQ_PREFIX}"
)

_SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
_OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        CHECKED_HALF_TOPIC,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        UNDECIDED_TOPIC,
        _SELF_TEST_TOPIC,
        _OFFSET_MOVED_TOPIC,
    }
)
"""Topics to which clients cannot send (TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET)."""

TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
_EXPECTED_TOPICS: Final[Mapping[str, int]] = {
    REPLY_TOPIC: 1,
    TRACE_TOPIC: 1,
    _SELF_TEST_TOPIC: 1,
    _OFFSET_MOVED_TOPIC: 1,
    "BenchmarkTest": 1_024,
}
"""System topics that RocketMQ creates at its start, with their queue counts (TopicConfigManager, 4.9.8)."""
SYSTEM_TOPICS: Final = FORBIDDEN_TOPICS.union(
    _EXPECTED_TOPICS, (TEMPLATE_TOPIC, CLUSTER, BROKER, "CHECKPOINT_TOPIC")
)
_SYSTEM_GROUPS: Final = {
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
}

_NAME: Final = re.compile(NAME_PATTERN)


def retry_topic(group: str) -> str:
    """The topic from which a group receives its retries."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of a group's dead letters."""
    return DLQ_PREFIX + group


def half_topic(topic: str) -> str:
    """The topic that holds the half messages of a topic."""
    return HALF_PREFIX + topic


def is_hidden_topic(name: str) -> bool:
    """Whether the topic holds messages that are not visible yet. No client may consume such a topic."""
    return name in (SCHEDULE_TOPIC, TIMER_TOPIC, CHECKED_HALF_TOPIC) or name.startswith(HALF_PREFIX)


def is_forbidden_topic(name: str) -> bool:
    """Whether clients are forbidden to send to the topic."""
    return name in FORBIDDEN_TOPICS or name.startswith(HALF_PREFIX)


def is_system_topic(name: str) -> bool:
    """Whether only the broker creates the topic: a RocketMQ system topic, or a topic of half messages."""
    return name in SYSTEM_TOPICS or name.startswith(("rmq_sys_", HALF_PREFIX))


def is_trace_topic(name: str) -> bool:
    """Whether clients send trace messages to the topic (docs/protocol/remoting.md §12.1)."""
    return name == TRACE_TOPIC or name.startswith("rmq_sys_TRACE_DATA_")


def expected_queues(name: str) -> int:
    """The number of queues of a system topic that clients expect to exist; 0 for any other topic."""
    return 1 if is_trace_topic(name) else _EXPECTED_TOPICS.get(name, 0)


def is_system_group(name: str) -> bool:
    """Whether the group is one of RocketMQ's system groups, which always exist (isSysConsumerGroup)."""
    return name in _SYSTEM_GROUPS or name.startswith("CID_RMQ_SYS_")


def check_topic_name(topic: str) -> None:
    """Raise InvalidArgumentError, in RocketMQ's words, unless its TopicValidator accepts the name."""
    name = topic.removeprefix(HALF_PREFIX)
    limit = MAX_GROUP_TOPIC_LENGTH if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_LENGTH
    if not name.strip():
        reason = "The specified topic is blank."
    elif not _NAME.fullmatch(name):
        reason = f"The specified topic contains illegal characters, allowing only {NAME_PATTERN}"
    elif len(name) > limit:
        reason = "The specified topic is longer than topic max length."
    else:
        return
    raise InvalidArgumentError("topic", topic, TOPIC_NAMES, reason)


def check_group_name(group: str) -> None:
    """Raise InvalidArgumentError unless the name is 1 to 255 characters of ``[%|a-zA-Z0-9_-]``."""
    if not _NAME.fullmatch(group) or len(group) > MAX_GROUP_LENGTH:
        raise InvalidArgumentError("group", group, GROUP_NAMES)
