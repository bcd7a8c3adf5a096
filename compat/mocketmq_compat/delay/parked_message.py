"""Translate between a message that waits, as the broker shows it, and its file."""

from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import key_hash, offset_message_id
from mocketmq.message.names import MAX_QUEUES, check_topic_name, is_forbidden_topic
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, decode_properties, encode_properties, tag_hash
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.delayed_file import (
    DamagedFileError,
    DelayedFile,
    Entry,
    FileHeader,
    decode,
    encode,
)


def entry_of(parked: StoredMessage) -> Entry:
    """The entry of the message's file."""
    return Entry((parked.due_us or 0) // US_PER_MS, parked.log_offset, key_hash(parked.unique_key))


def content_of(parked: StoredMessage, queue: Queue) -> bytes:
    """The content of the message's file."""
    header = FileHeader(
        number=parked.log_offset,
        due_us=parked.due_us or 0,
        stored_us=parked.store_us,
        topic=queue.topic,
        queue_id=queue.queue_id,
        unique_key=parked.unique_key,
        born_us=parked.born_us,
        born_host=parked.born_host,
        store_host=parked.store_host,
        flag=parked.flag,
        sys_flag=parked.sys_flag,
        reconsume_times=parked.reconsume_times,
        size=len(parked.body),
        properties=decode_properties(parked.properties),
        door=parked.door,
    )
    return encode(header, parked.body)


def check_deliverable(file: DelayedFile) -> str:
    """The properties of a file as they are stored. Raises DamagedFileError when it cannot be delivered."""
    header = file.header
    try:
        check_topic_name(header.topic)
        offset_message_id(header.store_host, header.number)
        # Twice the limit: a broker adds to properties that it accepted, as for retries.
        properties = encode_properties(header.properties, 2 * MAX_PROPERTIES_BYTES)
    except (EmulatorError, ValueError) as error:
        raise DamagedFileError("header", str(error)) from None
    if is_forbidden_topic(header.topic):
        raise DamagedFileError("header", f"no message may go to the topic {header.topic}")
    if header.queue_id not in range(MAX_QUEUES) or not file.body:
        raise DamagedFileError("header", f"queue {header.queue_id} or the empty body cannot be")
    return properties


def message_in(entry: Entry, content: bytes) -> DelayedFile:
    """The message of a record. Raises DamagedFileError when it would not be delivered as this entry."""
    file = decode(content)
    check_deliverable(file)
    if file.header.entry != entry:
        raise DamagedFileError("name", f"by its header, the record is {file.header.entry.name}")
    return file


def draft_in(file: DelayedFile, properties: str) -> Draft:
    """The message of a file that was checked, as it is to be stored."""
    header = file.header
    return Draft(
        file.body,
        properties,
        tag_hash(header.properties),
        header.unique_key,
        header.born_us,
        header.born_host,
        header.flag,
        header.sys_flag,
        header.reconsume_times,
        door=header.door,
    )
