"""Names of topics and groups: which are the system's, and what others may be called.

Source: TopicValidator.java of RocketMQ 4.9.8; docs/protocol/remoting.md §7.2.
"""

import re

from mocketmq.errors import InvalidArgumentError

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
"""Where messages with an absolute due time are parked, to those who look (sheet 5.6)."""
TEMPLATE_TOPIC = "TBW102"
"""Like which clients want topics to be made on first use (sheet 7.3)."""
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
"""Of replies; clients make its name of the property ``CLUSTER`` of what they reply to (sheet 2.7)."""
RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
HALF_PREFIX = "%HALF%"
"""Of the topic that holds another topic's half messages, which no client sends to or consumes."""
HALF_GROUP = "CID_RMQ_SYS_HALF"
"""The group in whose name the broker takes half messages, and hands them to producers to decide."""
CHECKED_HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
"""Of half messages of all topics, about which the broker asks their producers."""
CHECKED_HALF_GROUP = "CID_RMQ_SYS_TRANS"
"""The group in whose name the broker takes those."""
UNDECIDED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages end that were asked about in vain."""

MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 255
MAX_GROUP_TOPIC_LENGTH = MAX_GROUP_LENGTH + len(RETRY_PREFIX)
"""Of the topics that are named after a group, for its retries and dead letters."""
NAME_PATTERN = "^[%|a-zA-Z0-9_-]+$"
GROUP_NAMES = f"1 to {MAX_GROUP_LENGTH} characters of a-z, A-Z, 0-9, %, |, _ and -"
TOPIC_NAMES = (
    f"1 to {MAX_TOPIC_LENGTH} characters of a-z, A-Z, 0-9, %, |, _ and -;"
    f" up to {MAX_GROUP_LENGTH} more after {RETRY_PREFIX} or {DLQ_PREFIX}"
)

FORBIDDEN_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        CHECKED_HALF_TOPIC,
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        UNDECIDED_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
"""Topics to which no client may send (TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET)."""

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SYSTEM_TOPICS = FORBIDDEN_TOPICS | {
    *(TEMPLATE_TOPIC, REPLY_TOPIC, "BenchmarkTest", TRACE_TOPIC, "CHECKPOINT_TOPIC"),
}
_SYSTEM_GROUPS = {
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
}

_NAME = re.compile(NAME_PATTERN)


def retry_topic(group: str) -> str:
    """The topic from which a group receives its retries."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic in which a group's given-up messages end."""
    return DLQ_PREFIX + group


def half_topic(topic: str) -> str:
    """The topic that holds the half messages of a topic."""
    return HALF_PREFIX + topic


def is_hidden_topic(name: str) -> bool:
    """Topics of what is not visible yet, which no client consumes."""
    return name in (SCHEDULE_TOPIC, TIMER_TOPIC, CHECKED_HALF_TOPIC) or name.startswith(HALF_PREFIX)


def is_forbidden_topic(name: str) -> bool:
    """Topics to which no client may send."""
    return name in FORBIDDEN_TOPICS or name.startswith(HALF_PREFIX)


def is_system_topic(name: str) -> bool:
    """Topics that only the broker makes: upstream's (sheet 7.2), and those of half messages."""
    return name in SYSTEM_TOPICS or name.startswith(("rmq_sys_", HALF_PREFIX))


def is_trace_topic(name: str) -> bool:
    """Topics to which clients report what they do (sheet 12.1)."""
    return name == TRACE_TOPIC or name.startswith("rmq_sys_TRACE_DATA_")


def is_expected_topic(name: str) -> bool:
    """System topics that clients expect to be there: for replies, and for what they trace."""
    return name == REPLY_TOPIC or is_trace_topic(name)


def is_system_group(name: str) -> bool:
    """Upstream's system groups, which can always be used (MixAll.isSysConsumerGroup, sheet 7.2)."""
    return name in _SYSTEM_GROUPS or name.startswith("CID_RMQ_SYS_")


def check_topic_name(topic: str) -> None:
    """Raise InvalidArgumentError in upstream's words unless its TopicValidator takes the name (sheet 7.2)."""
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
