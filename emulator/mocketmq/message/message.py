"""Messages: as a producer sends them, ready to be stored, and stored."""

from typing import NamedTuple

import msgspec

from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, UNIQ_KEY, encode_properties, tag_hash

MULTI_TAGS_FLAG = 0x2
"""Bit of sysFlag: messages of the topic may have several tags. Nothing here acts on it."""
TRANSACTION_FLAGS = 0x4 | 0x8
"""Bits of sysFlag (docs/protocol/remoting.md §3.2): prepared 4, committed 8, rolled back both."""
COMMITTED_FLAG = 0x8


class Template(NamedTuple):
    """The topic whose settings an auto-created topic copies, and the most queues that it gets.

    Source: docs/protocol/remoting.md §7.3.
    """

    topic: str
    queues: int


class Message(msgspec.Struct):
    """A message as a producer sends it, by whichever protocol."""

    topic: str
    body: bytes
    properties: dict[str, str] = {}
    queue_id: int | None = None  # None: the broker picks one
    flag: int = 0
    sys_flag: int = 0
    born_us: int | None = None  # None: the store time is taken
    born_host: str = "127.0.0.1:0"
    reconsume_times: int = 0
    max_reconsume_times: int | None = None  # of a retry that a client sends; None: the group's
    template: Template | None = None  # None: topics created on first use follow the settings
    door: str | None = None  # the front door that accepted it, by the name that fault rules use


class Draft(NamedTuple):
    """A message ready to be appended; the writer adds offsets and store time."""

    body: bytes
    properties: str
    tag_hash: int
    unique_key: str
    born_us: int | None
    born_host: str
    flag: int
    sys_flag: int
    reconsume_times: int
    prepared_offset: int | None = None  # of a committed message: log offset of its half message
    door: str | None = None  # None: stored by a version that did not record it


class StoredMessage(NamedTuple):
    """One row of the table ``messages``, in the order of its columns."""

    log_offset: int
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
    due_us: int | None  # of a parked message: when it is delivered
    real_queue_key: int | None  # of a parked or half message: the queue it goes to
    parked_offset: int | None  # of a delivered message: log offset of the parked one
    prepared_offset: int | None = None  # of a committed message: log offset of its half message
    door: str | None = None  # by which it was sent; None: unknown


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
        None,
        message.door,
    )


def draft_of(stored: StoredMessage) -> Draft:
    """Turn a stored message back into a draft, to store a copy of it."""
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
        stored.door,
    )
