"""The three forms of a message: as a producer sends it, as a draft ready to be stored, and as stored."""

from typing import Final, Literal, NamedTuple

from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, UNIQ_KEY, encode_properties, tag_hash

MULTI_TAGS_FLAG: Final = 0x2
"""Bit of sysFlag for topics whose messages may have several tags. The broker ignores the bit."""
TRANSACTION_FLAGS: Final = 0x4 | 0x8
"""Bits of sysFlag (docs/protocol/remoting.md §3.2): prepared is 4, committed is 8, rolled back is both."""
COMMITTED_FLAG: Final = 0x8


RecordKind = Literal[
    "sent",
    "prepared",
    "committed",
    "parked",
    "held",
    "retried",
    "delivered",
    "cancelled",
    "dead",
    "abandoned",
]
"""Kind of a record of the store. docs/messages.md explains each kind."""


class Template:
    """The topic whose settings an auto-created topic copies, and the maximum number of its queues.

    Source: docs/protocol/remoting.md §7.3.
    """

    __slots__ = ("queues", "topic")

    def __init__(self, topic: str, queues: int) -> None:
        self.topic = topic
        self.queues = queues


class Message:
    """A message as a producer sends it, independent of the protocol.

    Without ``queue_id``, the broker picks a queue. Without ``born_us``, the store time is used.
    ``max_reconsume_times`` belongs to a retry sent by a client; None stands for the group's. Without
    ``template``, a topic created on first use has the usual settings. ``door`` is the front door that
    accepted the message, as named in fault rules. ``delay_us`` is a delay beyond RocketMQ's timers, already
    checked by the door.
    """

    __slots__ = (
        *("body", "born_host", "born_us", "delay_us", "door", "flag", "max_reconsume_times", "properties"),
        *("queue_id", "reconsume_times", "sys_flag", "template", "topic"),
    )

    def __init__(
        self,
        topic: str,
        body: bytes,
        properties: dict[str, str] | None = None,
        queue_id: int | None = None,
        flag: int = 0,
        sys_flag: int = 0,
        born_us: int | None = None,
        born_host: str = "127.0.0.1:0",
        reconsume_times: int = 0,
        max_reconsume_times: int | None = None,
        template: Template | None = None,
        door: str | None = None,
        delay_us: int | None = None,
    ) -> None:
        self.topic = topic
        self.body = body
        self.properties: dict[str, str] = {} if properties is None else properties
        self.queue_id = queue_id
        self.flag = flag
        self.sys_flag = sys_flag
        self.born_us = born_us
        self.born_host = born_host
        self.reconsume_times = reconsume_times
        self.max_reconsume_times = max_reconsume_times
        self.template = template
        self.door = door
        self.delay_us = delay_us


class Draft:
    """A message ready to be appended; the writer adds offsets and store time.

    ``prepared_offset`` is the log offset of a committed message's half message. ``door`` is the front door
    that accepted the message; None if it is unknown. ``stored_us`` is the store time of a seeded message;
    None stands for now.
    """

    __slots__ = (
        *("body", "born_host", "born_us", "door", "flag", "prepared_offset", "properties", "reconsume_times"),
        *("stored_us", "sys_flag", "tag_hash", "unique_key"),
    )

    def __init__(
        self,
        body: bytes,
        properties: str,
        tag_hash: int,
        unique_key: str,
        born_us: int | None,
        born_host: str,
        flag: int,
        sys_flag: int,
        reconsume_times: int,
        prepared_offset: int | None = None,
        door: str | None = None,
        stored_us: int | None = None,
    ) -> None:
        self.body = body
        self.properties = properties
        self.tag_hash = tag_hash
        self.unique_key = unique_key
        self.born_us = born_us
        self.born_host = born_host
        self.flag = flag
        self.sys_flag = sys_flag
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.door = door
        self.stored_us = stored_us


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
    due_us: int | None  # the due time of a parked message
    real_queue_key: int | None  # the queue where a parked or half message becomes visible
    parked_offset: int | None  # log offset of a delivered message's parked record
    prepared_offset: int | None = None  # log offset of a committed message's half message
    door: str | None = None  # the front door that accepted it; None: unknown
    kind: RecordKind = "sent"


def draft(message: Message, now_us: int, limit: int = MAX_PROPERTIES_BYTES) -> Draft:
    """Make a draft of the message, with a unique key if it has none.

    Raises IllegalMessageError for properties that cannot be stored, or that take more than ``limit`` bytes.
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
