"""Static topics: a fixed number of logical queues, each mapped to a queue of one broker after another.

Each broker has a mapping, which lists the mapping items of its logical queues, oldest first. An item names a
queue of a broker and the logical offset of that queue's first message. The broker of the last item is the
leader of the logical queue, and takes its messages. The queues of the other items keep the older messages,
which consumers also get from the leader. The logical offset of the last item is undecided while a tool moves
the logical queue: it depends on where the queue before it ends.

Source: TopicQueueMappingManager, TopicQueueMappingUtils and LogicQueueMappingItem, 5.5.0
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from mocketmq.errors import RefusedError

UNDECIDED: Final = -1


class MappingItem(msgspec.Struct, frozen=True, array_like=True):
    """A broker's queue with messages of a logical queue.

    ``start`` is the logical offset of the queue's first message, or ``UNDECIDED``. Each item has a higher
    ``generation`` than the item before.
    """

    generation: int
    queue_id: int
    broker: str
    start: int

    @property
    def is_decided(self) -> bool:
        """Whether the logical offsets of the queue's messages are known."""
        return self.start >= 0

    def logical_offset(self, offset: int) -> int:
        """The logical offset of an offset in the queue, or ``UNDECIDED``."""
        return self.start + offset if self.is_decided else UNDECIDED


MappingItems = Sequence[MappingItem]


class QueueMapping(msgspec.Struct, frozen=True):
    """The mapping items of the logical queues that a broker has or had, by the number of the logical queue.

    ``queues`` is the number of all logical queues of the topic. Tools increase ``epoch`` with each change.
    """

    broker: str
    queues: int
    epoch: int
    hosted: dict[int, tuple[MappingItem, ...]]
    scope: str = "__global__"

    @property
    def led(self) -> Mapping[int, int]:
        """The id of the broker's queue for each logical queue that the broker leads."""
        return {
            number: items[-1].queue_id
            for number, items in self.hosted.items()
            if items[-1].broker == self.broker
        }

    def replacing(self, old: "QueueMapping | None", *, is_forced: bool) -> "QueueMapping":
        """Return this mapping, and the old items of logical queues that it omits.

        Raises RefusedError, in RocketMQ's words, if it contradicts the old mapping and is not forced.
        """
        for items in self.hosted.values():
            _check_order(items)
        if old is None:
            return self
        is_same_epoch = self.epoch == old.epoch
        if not is_forced:
            if self.epoch < old.epoch:
                raise RefusedError(f"Can't accept data with small epoch {self.epoch} < {old.epoch}")
            if self.scope != old.scope:
                raise RefusedError(f"Can't accept data with unmatched scope {self.scope} != {old.scope}")
            if is_same_epoch and not old.hosted.keys() <= self.hosted.keys():
                raise RefusedError("Cannot accept equal epoch with null data")
            for number in old.hosted.keys() & self.hosted.keys():
                _check_change(old.hosted[number], self.hosted[number], is_same_epoch=is_same_epoch)
        return msgspec.structs.replace(self, hosted={**old.hosted, **self.hosted})


def at_brokers(
    mappings: Sequence[QueueMapping | None], names: Sequence[str]
) -> tuple[QueueMapping | None, ...]:
    """The mappings by position, with the present names of the brokers, which a restart may change."""
    renamed = {mapping.broker: name for mapping, name in zip(mappings, names, strict=True) if mapping}
    return tuple(mapping and _renamed(mapping, renamed) for mapping in mappings)


def _renamed(mapping: QueueMapping, names: Mapping[str, str]) -> QueueMapping:
    def rename(item: MappingItem) -> MappingItem:
        return msgspec.structs.replace(item, broker=names.get(item.broker, item.broker))

    hosted = {number: tuple(map(rename, items)) for number, items in mapping.hosted.items()}
    return msgspec.structs.replace(mapping, broker=names[mapping.broker], hosted=hosted)


def item_at(items: MappingItems, offset: int) -> MappingItem:
    """The decided item that has this logical offset; the first item if the offset is too small."""
    return next((each for each in reversed(items) if each.start <= offset), items[0])


def _check_order(items: MappingItems) -> None:
    for before, after in pairwise(items):
        if not before.is_decided:
            raise RefusedError("The non-latest item has negative logic offset")
        if before.generation >= after.generation:
            raise RefusedError("The gen does not increase monotonically")
        if after.is_decided and before.start >= after.start:
            raise RefusedError("The base logic offset does not increase monotonically")


def _check_change(old: MappingItems, new: MappingItems, *, is_same_epoch: bool) -> None:
    """Raise RefusedError if the items of a logical queue may not change in this way."""
    known = {each.generation: each for each in old}
    for each in new:
        before = known.get(each.generation, each)
        if (before.is_decided and before != each) or (before.broker, before.queue_id) != (
            each.broker,
            each.queue_id,
        ):
            raise RefusedError(
                f"mapping item {each.generation} is {each}, but was {before}; allowed: setting its logic"
                " offset, and adding items. Set force to replace it"
            )
    if is_same_epoch and new[-1].generation != old[-1].generation:
        raise RefusedError("The new leader is different but epoch equal")
