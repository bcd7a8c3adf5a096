"""Receipt handles, by which consumers settle the messages that they have received.

The format is ``<log offset>-<times taken>-<check of the group>-<check of the topic>``, in hex. The broker
can therefore recognize a handle of an earlier delivery, or of another group or topic, without storing
handles. The handle of a popped message ends with ``-<pop_ms>``, which changes with the invisible time.

After a snapshot is restored, log offsets repeat, and consumers may still have handles of deliveries that the
restore has undone. Handles issued afterwards therefore contain ``Receipts.epoch``, the number of restores, in
the upper bits of the times taken.
"""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import Receipt, State
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import ReceiptError, ReceiptSpentError, shorten
from mocketmq.store.queue import Queue


class PopHandle(NamedTuple):
    """The handle of a popped message: queue, offset, and the time of the pop (``Receipt.pop_ms``).

    ``queue_id`` is the queue's id on its broker.
    """

    queue: Queue
    queue_offset: int
    pop_ms: int
    queue_id: int


Handle = TypeVar("Handle", str, PopHandle)

_TIMES_BITS: Final = 32


def next_pop_ms(receipts: Iterable[Receipt]) -> int:
    """Return the ``pop_ms`` of the next pop: the wall clock, but above the ``pop_ms`` of all ``receipts``."""
    return max(wall_us() // US_PER_MS, 1 + max((receipt.pop_ms for receipt in receipts), default=0))


def handle_of(group: ConsumingGroup, receipt: Receipt) -> str:
    """Return the handle of the receipt's latest delivery."""
    times = (receipt.epoch or 0) << _TIMES_BITS | receipt.times
    parts = (receipt.log_offset, times, _check(group.name), _check(receipt.topic), receipt.pop_ms)
    return "-".join(f"{part:x}" for part in (parts if receipt.pop_ms else parts[:4]))


def renewed(handle: Handle, pop_ms: int) -> Handle:
    """Return the handle of the same delivery after its ``pop_ms`` has changed."""
    if isinstance(handle, PopHandle):
        return handle._replace(pop_ms=pop_ms)
    return "-".join((*handle.split("-")[:4], f"{pop_ms:x}"))


def check_handle(handle: str, group_name: str, topic_name: str) -> None:
    """Raise ReceiptError unless the handle was given to this group for a message of this topic."""
    _, _, for_group, for_topic, _ = _parts(handle)
    if (for_group, for_topic) != (_check(group_name), _check(topic_name)):
        raise ReceiptError(
            f"receipt {shorten(handle)} was not issued to group {group_name} for topic {topic_name}"
        )


def find_receipt(group: ConsumingGroup, handle: str | PopHandle, now_us: int) -> Receipt:
    """Return a handle's receipt. Raises ReceiptSpentError if it has expired, otherwise ReceiptError."""
    if isinstance(handle, PopHandle):
        return _find_popped(group, handle, now_us)
    log_offset, times, for_group, for_topic, pop_ms = _parts(handle)
    epoch, times = divmod(times, 1 << _TIMES_BITS)
    name = f"receipt {shorten(handle)}"
    if for_group != _check(group.name):
        raise ReceiptError(f"{name} was not issued to group {group.name}")
    receipt = group.receipts.get(log_offset)
    if receipt is None or receipt.is_settled:
        raise ReceiptSpentError(f"{name} is spent: its message was settled or removed")
    if receipt.epoch not in (None, epoch):
        raise ReceiptSpentError(f"{name} is spent: a snapshot was restored since, which undid the delivery")
    if for_topic != _check(receipt.topic) or times > receipt.times:
        raise ReceiptError(f"{name} was not issued by this broker")
    if times < receipt.times or receipt.state is not State.HELD or receipt.visible_us <= now_us:
        is_known = times == receipt.times and receipt.state is not State.RESERVED
        when = f"at {receipt.visible_us // US_PER_MS} ms" if is_known else "and was taken again"
        raise ReceiptSpentError(f"{name} has expired: the message became visible again {when}")
    if pop_ms != receipt.pop_ms:
        raise ReceiptSpentError(f"{name} is spent: changing the invisible time issued a new receipt")
    return receipt


def log_offset_in(handle: str) -> int:
    """The log offset of the message with this handle. Raises ReceiptError."""
    return _parts(handle)[0]


def _find_popped(group: ConsumingGroup, handle: PopHandle, now_us: int) -> Receipt:
    queue, queue_offset, pop_ms, queue_id = handle
    name = f"the message popped from {queue.topic}, queue {queue_id}, offset {queue_offset}"
    group_queue = group.queues.get(queue)
    receipt = group_queue.open.get(queue_offset) if group_queue else None
    if receipt is None or receipt.is_settled:
        raise ReceiptSpentError(f"{name} was already settled, or was not issued to group {group.name}")
    if receipt.pop_ms != pop_ms:
        raise ReceiptSpentError(f"{name} at {pop_ms} was received again, or its invisible time was changed")
    if receipt.state is not State.HELD or receipt.visible_us <= now_us:
        raise ReceiptSpentError(f"{name} at {pop_ms} has become visible again")
    return receipt


def _parts(handle: str) -> tuple[int, int, int, int, int]:
    with suppress(ValueError):  # not `except`, from which the ReceiptError would take a traceback
        log_offset, times, for_group, for_topic, *pop = (int(part, 16) for part in handle.split("-"))
        [pop_ms] = pop or [0]
        return log_offset, times, for_group, for_topic, pop_ms
    raise ReceiptError(f"receipt {shorten(handle)} was not issued by this broker")


def _check(name: str) -> int:
    return zlib.crc32(name.encode())
