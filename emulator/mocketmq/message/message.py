"""Messages: as a producer sends them, as they are stored, and what lies between."""

from dataclasses import dataclass, field
from typing import NamedTuple

from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, UNIQ_KEY, encode_properties, tag_hash

MULTI_TAGS_FLAG = 0x2
"""Of sysFlag: the topic's messages may have several tags; nothing here acts on it (sheet 3.2)."""
TRANSACTION_FLAGS = 0x4 | 0x8
"""Of sysFlag: prepared 4, committed 8, rolled back both (sheet 3.2)."""
COMMITTED_FLAG = 0x8


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
