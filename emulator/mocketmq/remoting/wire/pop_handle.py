"""Reads and writes the receipt handles of popped messages (ExtraInfoUtil.java, 5.3.3).

The response to a pop has the queue and offset of each message, from which clients make the message's handle.
Clients keep the handle as the property POP_CK, and send it to ack the message or change its invisible time.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.names import RETRY_PREFIX

IN_ORDER: Final = 999
"""Value in place of RocketMQ's revive queue id, in handles of messages popped in order."""
NOT_IN_ORDER: Final = 0
"""Value in place of RocketMQ's revive queue id, in handles of all other messages."""

_PARTS: Final = "eight numbers and names, as in the property POP_CK"


class PoppedQueue(NamedTuple):
    """A queue as named in handles. ``kind`` is 0 for the topic itself and 1 for the group's retry topic."""

    kind: str
    queue_id: int


class ExtraInfo(NamedTuple):
    """A receipt handle. ``start_offset`` is the offset of the first message of its queue in the response."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    queue: PoppedQueue
    queue_offset: int

    def text(self, broker: str) -> str:
        """The handle in the form that clients write, with the broker's name."""
        first, pop_ms, invisible_ms, revive, (kind, queue_id), offset = self
        return f"{first} {pop_ms} {invisible_ms} {revive} {kind} {broker} {queue_id} {offset}"


def popped_queue(topic: str, queue_id: int) -> PoppedQueue:
    """The name of a queue in handles."""
    return PoppedQueue("1" if topic.startswith(RETRY_PREFIX) else "0", queue_id)


def parse_extra_info(text: str) -> ExtraInfo:
    """Read a handle. Raises InvalidArgumentError."""
    parts = text.split(" ")
    try:
        first, pop_ms, invisible_ms, revive, kind, _, queue_id, offset = parts
        queue = PoppedQueue(kind, int(queue_id))
        return ExtraInfo(int(first), int(pop_ms), int(invisible_ms), int(revive), queue, int(offset))
    except ValueError:
        raise InvalidArgumentError("extraInfo", text, _PARTS) from None


def start_offsets(offsets: Mapping[PoppedQueue, list[int]]) -> str:
    """Encode ``startOffsetInfo``, which has the offset of the first message of each queue."""
    return ";".join(f"{kind} {queue_id} {some[0]}" for (kind, queue_id), some in offsets.items())


def message_offsets(offsets: Mapping[PoppedQueue, list[int]]) -> str:
    """Encode ``msgOffsetInfo``, which has the offsets of each queue's messages, in ascending order."""
    return ";".join(
        f"{kind} {queue_id} {','.join(map(str, some))}" for (kind, queue_id), some in offsets.items()
    )


def order_counts(counts: Iterable[tuple[PoppedQueue, int, int]]) -> str:
    """Encode ``orderCountInfo``, which has the number of earlier deliveries by queue and offset.

    Clients older than 5.1 read only one number for each queue, which is the lowest number of its messages.
    """
    parts, least = [], dict[PoppedQueue, int]()
    for queue, offset, count in counts:
        kind, queue_id = queue
        least[queue] = min(count, least.get(queue, count))
        if count:
            parts.append(f"{kind} qo{queue_id}%{offset} {count}")
    return ";".join([*parts, *(f"{kind} {queue_id} {count}" for (kind, queue_id), count in least.items())])
