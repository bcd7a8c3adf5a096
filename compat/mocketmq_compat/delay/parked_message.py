"""A message that waits in a file, as the broker knows it: a stored message numbered by its arrival."""

from mocketmq.broker.registry.topics import MAX_QUEUES
from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import check_topic_name, is_forbidden_topic
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, decode_properties, encode_properties, tag_hash
from mocketmq.store.queues import Queue

from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, Header, encode, key_hash


def parked_message(
    draft: Draft, number: int, now_us: int, store_host: str, due_us: int, parked_queue: Queue, queue: Queue
) -> StoredMessage:
    """The message as it is shown while it waits for its ``queue``; ``number`` is its commit offset."""
    return StoredMessage(
        number,
        parked_queue.key,
        0,
        now_us,
        now_us if draft.born_us is None else draft.born_us,
        draft.born_host,
        store_host,
        draft.flag,
        draft.sys_flag,
        draft.body,
        draft.properties,
        draft.tag_hash,
        draft.reconsume_times,
        draft.unique_key,
        due_us,
        queue.key,
        None,
    )


def entry_of(parked: StoredMessage) -> Entry:
    """The entry of the message's file."""
    return Entry((parked.due_us or 0) // US_PER_MS, parked.commit_offset, key_hash(parked.unique_key))


def content_of(parked: StoredMessage, queue: Queue) -> bytes:
    """What is in the message's file."""
    header = Header(
        number=parked.commit_offset,
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
    )
    return encode(header, parked.body)


def check_deliverable(file: DelayedFile) -> str:
    """The properties of a file as they are stored. Raises DamagedFileError when it cannot be delivered."""
    header = file.header
    try:
        check_topic_name(header.topic)
        offset_message_id(header.store_host, header.number)
        # What a broker adds to accepted properties, as it does for retries, must not stop the message.
        properties = encode_properties(header.properties, 2 * MAX_PROPERTIES_BYTES)
    except (EmulatorError, ValueError) as error:
        raise DamagedFileError("header", str(error)) from None
    if is_forbidden_topic(header.topic):
        raise DamagedFileError("header", f"no message may go to the topic {header.topic}")
    if header.queue_id not in range(MAX_QUEUES) or not file.body:
        raise DamagedFileError("header", f"queue {header.queue_id} or the empty body cannot be")
    return properties


def message_in(file: DelayedFile, properties: str, parked_queue: Queue, queue: Queue) -> StoredMessage:
    """The message of a file that was checked."""
    header = file.header
    draft = Draft(
        file.body,
        properties,
        tag_hash(header.properties),
        header.unique_key,
        header.born_us,
        header.born_host,
        header.flag,
        header.sys_flag,
        header.reconsume_times,
    )
    return parked_message(
        draft, header.number, header.stored_us, header.store_host, header.due_us, parked_queue, queue
    )
