"""The texts by which clients name what they popped (sheet 2.11; ExtraInfoUtil of 5.3.3).

An answer says where in its queue each message stands. Clients make a handle of that for every message, keep
it as the property POP_CK, and send it back with what they want of the message.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.remoting.wire.identity import BROKER

IN_ORDER: Final = 999
"""What stands for the queue of upstream that checks on popped messages, when they are popped in order."""
NOT_IN_ORDER: Final = 0

_PARTS: Final = "eight numbers and names, as in the property POP_CK"


class PoppedQueue(NamedTuple):
    """A queue as a popping client names it: ``kind`` is 0 for the topic's own, 1 for one with its retries."""

    kind: str
    queue_id: int


class ExtraInfo(NamedTuple):
    """A client's handle. The offsets are of the first message of its queue in the answer, and its own."""

    start_offset: int
    pop_ms: int
    invisible_ms: int
    revive_queue_id: int
    queue: PoppedQueue
    queue_offset: int

    def text(self) -> str:
        """As clients write it."""
        first, pop_ms, invisible_ms, revive, (kind, queue_id), offset = self
        return f"{first} {pop_ms} {invisible_ms} {revive} {kind} {BROKER} {queue_id} {offset}"


def popped_queue(topic: str, queue_id: int) -> PoppedQueue:
    """How a queue is named in handles."""
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
    """``startOffsetInfo``: where each queue's messages begin."""
    return ";".join(f"{kind} {queue_id} {some[0]}" for (kind, queue_id), some in offsets.items())


def message_offsets(offsets: Mapping[PoppedQueue, list[int]]) -> str:
    """``msgOffsetInfo``: each queue's messages, in the order in which they are in the answer."""
    return ";".join(
        f"{kind} {queue_id} {','.join(map(str, some))}" for (kind, queue_id), some in offsets.items()
    )


def order_counts(counts: Iterable[tuple[PoppedQueue, int, int]]) -> str:
    """``orderCountInfo``: how often messages, by place and offset, were consumed before.

    Clients older than 5.1 read what is said of a queue, which is the least of its messages.
    """
    parts, least = [], dict[PoppedQueue, int]()
    for queue, offset, count in counts:
        kind, queue_id = queue
        least[queue] = min(count, least.get(queue, count))
        if count:
            parts.append(f"{kind} qo{queue_id}%{offset} {count}")
    return ";".join([*parts, *(f"{kind} {queue_id} {count}" for (kind, queue_id), count in least.items())])
