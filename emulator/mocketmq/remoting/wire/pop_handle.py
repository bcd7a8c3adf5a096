"""Read and write the receipt handles of popped messages (ExtraInfoUtil.java, 5.3.3).

The answer to a pop says where in its queue each message is. From that, clients make a handle for each
message, keep it as the property POP_CK, and send it back to ack the message or change its invisible time.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.identity import BROKER
from mocketmq.message.names import RETRY_PREFIX

IN_ORDER: Final = 999
"""Takes the place of upstream's revive queue id in handles of messages that are popped in order, …"""
NOT_IN_ORDER: Final = 0
"""… and of all others."""

_PARTS: Final = "eight numbers and names, as in the property POP_CK"


class PoppedQueue(NamedTuple):
    """A queue as handles name it: ``kind`` is 0 in the topic itself, 1 in the group's retry topic."""

    kind: str
    queue_id: int


class ExtraInfo(NamedTuple):
    """A receipt handle. ``start_offset`` is that of the first message of the same queue in the answer."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    queue: PoppedQueue
    queue_offset: int

    def text(self) -> str:
        """The handle as clients write it."""
        first, pop_ms, invisible_ms, revive, (kind, queue_id), offset = self
        return f"{first} {pop_ms} {invisible_ms} {revive} {kind} {BROKER} {queue_id} {offset}"


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
    """``startOffsetInfo``: the offset of the first message of each queue."""
    return ";".join(f"{kind} {queue_id} {some[0]}" for (kind, queue_id), some in offsets.items())


def message_offsets(offsets: Mapping[PoppedQueue, list[int]]) -> str:
    """``msgOffsetInfo``: the offsets of each queue's messages, in the order of the answer."""
    return ";".join(
        f"{kind} {queue_id} {','.join(map(str, some))}" for (kind, queue_id), some in offsets.items()
    )


def order_counts(counts: Iterable[tuple[PoppedQueue, int, int]]) -> str:
    """``orderCountInfo``: how often messages, by queue and offset, were consumed before.

    Clients older than 5.1 read the count of the queue, which is the lowest of its messages.
    """
    parts, least = [], dict[PoppedQueue, int]()
    for queue, offset, count in counts:
        kind, queue_id = queue
        least[queue] = min(count, least.get(queue, count))
        if count:
            parts.append(f"{kind} qo{queue_id}%{offset} {count}")
    return ";".join([*parts, *(f"{kind} {queue_id} {count}" for (kind, queue_id), count in least.items())])
