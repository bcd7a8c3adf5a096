"""Messages, their properties, and the names that RocketMQ gives to both.

Sources: MessageConst, MessageDecoder, MessageClientIDSetter and TopicValidator of RocketMQ 4.9.8; the
reference sheet for remoting, sections 3.3 to 3.5, 4 and 7.2.
"""

import itertools
import os
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from mocketmq.errors import IllegalMessageError, InvalidArgumentError

# Property keys, MessageConst.java.
CHECK_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CLUSTER = "CLUSTER"
DELAY = "DELAY"
FIRST_POP_TIME = "1ST_POP_TIME"
KEYS = "KEYS"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
PGROUP = "PGROUP"
POP_CK = "POP_CK"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
REAL_QID = "REAL_QID"
REAL_TOPIC = "REAL_TOPIC"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
RETRY_TOPIC = "RETRY_TOPIC"
TAGS = "TAGS"
HALF_DUE_US = "HALF_DUE_US"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY"
TIMER_OUT_MS = "TIMER_OUT_MS"
TRAN_MSG = "TRAN_MSG"
UNIQ_KEY = "UNIQ_KEY"
WAIT = "WAIT"

START_DELIVER_TIME = "__STARTDELIVERTIME"
"""Aliyun's absolute due time, in milliseconds of the client's wall clock."""
TIMERS = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""Apache 5.x's due times, of which the first that is there counts (sheet 5.6)."""
MAX_TIMER_DELAY_MS = 259_200_000
"""The longest delay by one of those, three days (timerMaxDelaySec of Apache 5.x)."""

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

MULTI_TAGS_FLAG = 0x2
"""Of sysFlag: the topic's messages may have several tags; nothing here acts on it (sheet 3.2)."""
TRANSACTION_FLAGS = 0x4 | 0x8
"""Of sysFlag: prepared 4, committed 8, rolled back both (sheet 3.2)."""
COMMITTED_FLAG = 0x8

MAX_TOPIC_LENGTH = 127
MAX_GROUP_LENGTH = 255
MAX_PROPERTIES_BYTES = 32_767
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
_OFFSET_ID = re.compile("[0-9A-Fa-f]{16}[0-7][0-9A-Fa-f]{15}")
_KEY_VALUE, _NEXT = "\x01", "\x02"


class Template(NamedTuple):
    """A topic made on first use becomes as ``topic``, with at most ``queues`` queues (sheet 7.3)."""

    topic: str
    queues: int


@dataclass(slots=True)
class Message:
    """What a producer sends, whichever door it came in by."""

    topic: str
    body: bytes
    properties: dict[str, str] = field(default_factory=dict)
    queue_id: int | None = None  # None: the broker picks one
    flag: int = 0
    sys_flag: int = 0
    born_us: int | None = None  # None: the producer gave no time; the store time serves
    born_host: str = "127.0.0.1:0"
    reconsume_times: int = 0
    max_reconsume_times: int | None = None  # of a retry that a client sends; None: its group's
    template: Template | None = None  # None: topics made on first use are as the settings say


class Draft(NamedTuple):
    """A message that was judged and is ready to be appended; what it lacks, the writer gives out."""

    body: bytes
    properties: str
    tag_hash: int
    unique_key: str
    born_us: int | None
    born_host: str
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_offset: int | None = None  # committed messages: commit offset of the half one


class StoredMessage(NamedTuple):
    """One row of the table ``messages``, in the order of its columns."""

    commit_offset: int
    queue_key: int
    queue_offset: int
    store_us: int
    born_us: int
    born_host: str
    store_host: str
    flag: int
    sys_flag: int
    body: bytes
    properties: str
    tag_hash: int
    reconsume_times: int
    unique_key: str
    due_us: int | None  # parked messages: when to deliver
    real_queue_key: int | None  # parked and half messages: where to
    parked_offset: int | None  # delivered messages: commit offset of the parked one
    prepared_offset: int | None = None  # committed messages: commit offset of the half one


@lru_cache(maxsize=4_096)
def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: signed 32 bits over UTF-16 code units."""
    value = 0
    units = text.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def tag_hash(properties: dict[str, str]) -> int:
    """The consume-queue tag code: the hash of the tag, 0 without one."""
    tag = properties.get(TAGS)
    return java_hash(tag) if tag else 0


def encode_properties(properties: dict[str, str], limit: int = MAX_PROPERTIES_BYTES) -> str:
    """The property string ``key 01 value 02 …``.

    Raises IllegalMessageError for what RocketMQ's decoder would drop without a word (empty keys and
    values, separators inside them) and for more than 32,767 bytes.
    """
    text = "".join([f"{key}{_KEY_VALUE}{value}{_NEXT}" for key, value in properties.items()])
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
    """The properties of a stored message."""
    return dict(part.split(_KEY_VALUE, 1) for part in text.split(_NEXT) if part)


def draft(message: Message, now_us: int, limit: int = MAX_PROPERTIES_BYTES) -> Draft:
    """Make the message ready to be stored, with a unique key if it has none.

    Raises IllegalMessageError for properties that cannot be stored, or take more than ``limit`` bytes.
    """
    unique_key = message.properties.get(UNIQ_KEY)
    if not unique_key:
        unique_key = message.properties[UNIQ_KEY] = new_unique_key(now_us)
    return Draft(
        message.body,
        encode_properties(message.properties, limit),
        tag_hash(message.properties),
        unique_key,
        message.born_us,
        message.born_host,
        message.flag,
        message.sys_flag,
        message.reconsume_times,
    )


def draft_of(stored: StoredMessage) -> Draft:
    """A stored message, ready to be stored once more."""
    return Draft(
        stored.body,
        stored.properties,
        stored.tag_hash,
        stored.unique_key,
        stored.born_us,
        stored.born_host,
        stored.flag,
        stored.sys_flag,
        stored.reconsume_times,
        stored.prepared_offset,
    )


_unique_prefix = f"{os.urandom(4).hex()}{os.getpid() & 0xFFFF:04x}".upper()
_unique_counter = itertools.count()


def new_unique_key(now_us: int) -> str:
    """A client message id of RocketMQ's form, 32 upper-case hex digits.

    Host and process stand in front as upstream's do, then milliseconds, then a counter.
    """
    return f"{_unique_prefix}{now_us // 1_000 & 0xFFFFFFFFFFF:011X}{next(_unique_counter) & 0xFFFFFFFFF:09X}"


def offset_message_id(store_host: str, commit_offset: int) -> str:
    """The broker's message id: address, port and commit offset in hex, 32 digits (sheet 3.3)."""
    return f"{_host_digits(store_host)}{commit_offset:016X}"


@cache
def _host_digits(store_host: str) -> str:
    address, _, port = store_host.rpartition(":")
    octets = "".join(f"{int(part):02X}" for part in address.split("."))
    return f"{octets}{int(port):08X}"


def commit_offset_of(message_id: str) -> int | None:
    """The commit offset in an offset message id; None for any other kind of id."""
    return int(message_id[16:], 16) if _OFFSET_ID.fullmatch(message_id) else None


def at_host(message_id: str, store_host: str) -> str:
    """An offset message id for those who reach the broker at ``store_host``; any other id as it is."""
    commit_offset = commit_offset_of(message_id)
    return message_id if commit_offset is None else offset_message_id(store_host, commit_offset)


def mark_parked(properties: dict[str, str], topic: str, queue_id: int) -> None:
    """Note in a message's properties where it goes when it is due."""
    properties[REAL_TOPIC] = topic
    properties[REAL_QID] = str(queue_id)


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
