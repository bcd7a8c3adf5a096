"""Convert between the broker's pending messages and the files that store them."""

from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import key_hash, offset_message_id
from mocketmq.message.names import MAX_QUEUE_NUMBER, check_topic_name, is_forbidden_topic
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
    """Make the entry of the message's file."""
    return Entry((parked.due_us or 0) // US_PER_MS, parked.log_offset, key_hash(parked.unique_key))


def content_of(parked: StoredMessage, queue: Queue) -> bytes:
    """Encode the content of the message's file."""
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
    """Encode the file's properties for the store. Raises DamagedFileError if the message is undeliverable."""
    header = file.header
    try:
        check_topic_name(header.topic)
        offset_message_id(header.store_host, header.number)
        # Allow twice the limit, because a broker adds properties to accepted messages, such as on retries.
        properties = encode_properties(header.properties, 2 * MAX_PROPERTIES_BYTES)
    except (EmulatorError, ValueError) as error:
        raise DamagedFileError("header", str(error)) from None
    if is_forbidden_topic(header.topic):
        raise DamagedFileError("header", f"messages cannot be sent to the topic {header.topic}")
    if not 0 <= header.queue_id <= MAX_QUEUE_NUMBER:
        raise DamagedFileError("header", f"queue_id is {header.queue_id}; allowed: 0 to {MAX_QUEUE_NUMBER}")
    if not file.body:
        raise DamagedFileError("header", "the body is empty; allowed: at least one byte")
    return properties


def message_in(entry: Entry, content: bytes) -> DelayedFile:
    """Decode a record. Raises DamagedFileError if it is undeliverable or belongs to another entry."""
    file = decode(content)
    check_deliverable(file)
    if file.header.entry != entry:
        raise DamagedFileError("name", f"its header belongs to record {file.header.entry.name}")
    return file


def draft_in(file: DelayedFile, properties: str) -> Draft:
    """Make the message to store from a checked file."""
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
