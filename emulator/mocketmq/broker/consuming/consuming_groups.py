"""The state of each consumer group: committed offsets, and messages in flight.

The registry has the names and configurations of groups. This module has their state, which is created on
first use from the stored offsets of the group, or of a deleted group with the same name.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from mocketmq.broker.consuming.group_queue import (
    GroupQueue,
    cut_progress,
    delete_progress,
    delete_progress_of_group,
    delete_progress_of_queue,
    read_progress,
    save_progress,
)
from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.broker.registry.groups import ALWAYS, MAX_RETRIES, Group, Groups
from mocketmq.broker.registry.topic import Topic
from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import GroupNotFoundError
from mocketmq.message.names import HALF_GROUP
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import delete_receipts_of_group
from mocketmq.store.store import Store

log = logging.getLogger(__name__)


class ConsumingGroup:
    """The state of one group. Hold ``lock`` while selecting messages for one of its consumers."""

    def __init__(self, registered: Group) -> None:
        self.registered = registered
        self.name = registered.name
        self.is_deleted = False
        self.queues: dict[Queue, GroupQueue] = {}
        # Positions of pulling members in queues in which no member has committed an offset yet.
        self.uncommitted: dict[Queue, GroupQueue] = {}
        # Log offsets of pulled, uncommitted delayed messages, by queue and queue offset.
        self.pulled: dict[Queue, dict[int, int]] = {}
        self.receipts: dict[int, Receipt] = {}  # open receipts, by log offset
        self.available: dict[int, Receipt] = {}  # free receipts, by log offset
        self.lock = asyncio.Lock()
        self.filtered_by_pull: set[str] = set()  # topics of pulls that brought their own filter
        self._turns: dict[str, int] = {}  # number of the next receive, modulo 100, by topic of type priority
        self._watching: set[asyncio.Event] = set()

    def in_queue(self, queue: Queue) -> GroupQueue:
        """The group's position in this queue. A new position begins at the oldest message."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = GroupQueue(self, queue, queue.min_offset)
            if (uncommitted := self.uncommitted.pop(queue, None)) is not None:
                found.pulled_offset = uncommitted.pulled_offset
        return found

    def in_uncommitted(self, queue: Queue, offset: int) -> GroupQueue:
        """The position of members in a queue without a committed offset; a new one begins at ``offset``."""
        found = self.uncommitted.get(queue)
        if found is None:
            found = self.uncommitted[queue] = GroupQueue(self, queue, offset)
            found.reported = offset
        return found

    def find_position(self, queue: Queue) -> GroupQueue | None:
        """The group's position in this queue, even if no member has committed an offset."""
        return self.queues.get(queue) or self.uncommitted.get(queue)

    def check_exists(self) -> None:
        """Raise GroupNotFoundError if the group was deleted while its consumer waited."""
        if self.is_deleted:
            raise GroupNotFoundError(f"subscription group not exist, {self.name}")

    def gives_up(self, receipt: Receipt) -> bool:
        """Whether a message becomes a dead letter at the end of its invisible time.

        Half messages never do. Popped messages do not either: :meth:`Pops.pop_within_retries`, or a remoting
        client itself, counts their attempts.
        """
        is_over = receipt.times > 0 and receipt.reconsume_times + receipt.times > self.registered.max_retries
        return is_over and not receipt.pop_ms and self.name != HALF_GROUP

    def turn_by_priority(self, topic: Topic) -> bool:
        """Return whether the group's next receive takes the highest priority first, and count that receive.

        To keep tests reproducible, the first ``priority.factor`` of every hundred receives that find messages
        go by priority. RocketMQ 5.5.0 draws a random number instead, unless ``popConsumerKVServiceEnable`` is
        set (PopMessageProcessor and PopConsumerService).
        """
        turn = self._turns.get(topic.name, 0)
        self._turns[topic.name] = (turn + 1) % ALWAYS
        return turn < self.registered.config.priority_factor

    @contextmanager
    def announcing(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event whenever a receipt is closed, as ordered receivers may then get more messages."""
        self._watching.add(event)
        try:
            yield
        finally:
            self._watching.discard(event)

    def take_closed(self) -> None:
        """Set all events registered with :meth:`announcing`."""
        for event in self._watching:
            event.set()

    def forget(self, queues: Iterable[Queue]) -> None:
        """Close the receipts of these emptied queues, and continue at the ends of the queues."""
        for queue in queues:
            self.filtered_by_pull.discard(queue.topic)
            self.pulled.pop(queue, None)
            self.uncommitted.pop(queue, None)
            group_queue = self.queues.get(queue)
            if group_queue is not None:
                for receipt in list(group_queue.open.values()):
                    receipt.close()
                group_queue.next_offset = queue.next_offset
                group_queue.saved_offset = None


class ConsumingGroups:
    """The state of every group. Look-ups raise the registry's errors."""

    def __init__(self, store: Store, groups: Groups) -> None:
        self._store = store
        self._registered = groups
        self._groups: dict[str, ConsumingGroup] = {}
        # Offsets of deleted groups, and of groups that are not loaded yet or are being created.
        self._offsets: dict[str, dict[Queue, int]] = {}
        self._filtered_by_pull: dict[str, set[str]] = {}  # by deleted group whose offsets are kept

    async def load(self, topics: Topics) -> None:
        """Read the offsets of all groups from the store."""
        for name, queue_key, next_offset in await read_progress(self._store.database):
            queue = topics.find_by_key(queue_key)
            if queue is None:
                log.warning("ignoring an offset of group %s in the missing queue %d", name, queue_key)
                continue
            self._offsets.setdefault(name, {})[queue] = min(next_offset, queue.next_offset)

    async def reload(self, topics: Topics, following: Callable[[str], bool]) -> list[GroupQueue]:
        """Read all offsets again from a restored store, and close all receipts.

        ``following`` says whether a group has connected consumers that keep offsets in memory. These
        consumers continue at the restored offsets: the positions of the group get a notice, and are returned.
        """
        for name, group in [*self._groups.items()]:
            for receipt in [*group.receipts.values()]:
                receipt.close()
            group.pulled.clear()
            if self._registered.find_group(name) is None:
                group.is_deleted = True
                del self._groups[name]
        self._offsets.clear()
        self._filtered_by_pull.clear()
        await self.load(topics)
        moved = []
        queues = {*topics.queues}
        for name, group in self._groups.items():
            offsets, is_followed = self._offsets.pop(name, {}), following(name)
            pulled = group.queues.keys() | group.uncommitted.keys() if is_followed else set()
            group.uncommitted.clear()
            for queue in [*group.queues]:
                if queue not in queues or not (is_followed or queue in offsets):
                    del group.queues[queue]
            for queue in offsets.keys() | (pulled & queues):
                group_queue = group.in_queue(queue)
                group_queue.begin_restored(offsets.get(queue), has_notice=is_followed)
                if is_followed:
                    moved.append(group_queue)
        return moved

    def of(self, registered: Group) -> ConsumingGroup:
        group = self._groups.get(registered.name)
        if group is None:
            group = self._groups[registered.name] = ConsumingGroup(registered)
            group.filtered_by_pull |= self._filtered_by_pull.pop(registered.name, set())
            for queue, offset in self._offsets.pop(registered.name, {}).items():
                group_queue = group.in_queue(queue)
                group_queue.next_offset = group_queue.saved_offset = offset
        return group

    def desert(self, name: str) -> None:
        """Note that the last member has left; the next member pulls what was not acknowledged."""
        if (group := self._groups.get(name)) is not None:
            for group_queue in (*group.queues.values(), *group.uncommitted.values()):
                group_queue.is_deserted = True

    def __iter__(self) -> Iterator[ConsumingGroup]:
        return map(self.of, self._registered)

    def find_group(self, name: str) -> ConsumingGroup | None:
        registered = self._registered.find_group(name)
        return None if registered is None else self.of(registered)

    def get(self, name: str) -> ConsumingGroup:
        """The group. Raises GroupNotFoundError."""
        return self.of(self._registered.get(name))

    def of_client(self, name: str) -> ConsumingGroup:
        return self.of(self._registered.of_client(name))

    async def for_use(self, name: str) -> ConsumingGroup:
        return self.of(await self._registered.for_use(name))

    async def for_consuming(self, name: str) -> ConsumingGroup:
        return self.of(await self._registered.for_consuming(name))

    async def for_broker(self, name: str) -> ConsumingGroup:
        """One of the broker's own groups, created on first use."""
        registered = self._registered.find_group(name)
        return self.of(registered or await self._registered.put(name, MAX_RETRIES, 1, replace=False))

    async def delete(self, name: str, *, clean_offsets: bool) -> None:
        """Delete the group and its receipts. Its offsets are kept for a later group with the same name.

        With ``clean_offsets`` they are deleted too. Raises GroupNotFoundError, and NoPermissionError for the
        broker's own groups.
        """
        group = self.of_client(name)

        def work(batch: Batch) -> None:
            group.check_exists()
            offsets = {queue: each.committed_offset for queue, each in group.queues.items()}
            self._registered.delete(batch, name)
            delete_receipts_of_group(batch, name)
            delete_progress_of_group(batch, name)
            if clean_offsets:
                offsets.clear()
            for queue, offset in offsets.items():
                save_progress(batch, name, queue, offset)

            def apply() -> None:
                for receipt in list(group.receipts.values()):
                    receipt.close()
                group.is_deleted = True
                del self._groups[name]
                if offsets:
                    self._offsets[name] = offsets
                    self._filtered_by_pull[name] = group.filtered_by_pull

            batch.on_commit(apply)

        async with group.lock:
            await self._store.writer.commit(work, alone=True, until="visible")
        await self._store.writer.synced()

    def leave_queues(self, batch: Batch, queues: Iterable[Queue]) -> None:
        """Delete every group's state in the queues of a deleted topic, in this transaction."""
        for queue in queues:
            delete_progress_of_queue(batch, queue)
        batch.on_commit(partial(self._forget_queues, queues))

    def cut_queues(self, batch: Batch, ends: Mapping[Queue, int]) -> None:
        """Move every group back to the ends of queues that lose their newest messages."""
        for queue, end in ends.items():
            cut_progress(batch, queue, end)
        batch.on_commit(partial(self._cut_queues, ends))

    def _cut_queues(self, ends: Mapping[Queue, int]) -> None:
        for queue, end in ends.items():
            for group in self._groups.values():
                for group_queue in (group.queues.get(queue), group.uncommitted.get(queue)):
                    if group_queue is not None:
                        group_queue.cut(end)
                if (pulled := group.pulled.get(queue)) is not None:
                    group.pulled[queue] = {each: log for each, log in pulled.items() if each < end}
            for offsets in self._offsets.values():
                if queue in offsets:
                    offsets[queue] = min(offsets[queue], end)

    def go_back(self, batch: Batch, offsets: Mapping[tuple[str, Queue], int]) -> None:
        """Undo commits: move groups back to these offsets, by group name and queue, if they are beyond."""
        for (name, queue), offset in offsets.items():
            group = self.find_group(name)
            group_queue = group.queues.get(queue) if group else None
            if group_queue is not None and offset < group_queue.next_offset:
                save_progress(batch, name, queue, offset)
                batch.on_commit(partial(self._go_back, group_queue, offset))

    def _go_back(self, group_queue: GroupQueue, offset: int) -> None:
        group_queue.begin_at(offset)
        group_queue.saved_offset = offset

    def leave_lite_topics(self, batch: Batch, queues: Sequence[Queue]) -> None:
        """Delete every group's state in the queues of deleted lite topics, in this transaction.

        Unlike :meth:`leave_queues`, this reads no more than the rows that it deletes, as there may be many.
        """
        for queue in queues:
            known = [name for name, group in self._groups.items() if queue in group.queues]
            for name in (*known, *(name for name, offsets in self._offsets.items() if queue in offsets)):
                delete_progress(batch, name, queue)
        batch.on_commit(partial(self._forget_queues, queues))

    def _forget_queues(self, queues: Iterable[Queue]) -> None:
        for group in self._groups.values():
            group.forget(queues)
            for queue in queues:
                group.queues.pop(queue, None)
        for offsets in self._offsets.values():
            for queue in queues:
                offsets.pop(queue, None)
        for topics in self._filtered_by_pull.values():
            topics.difference_update(queue.topic for queue in queues)

    def close_receipts(self, log_offsets: Sequence[int]) -> None:
        """Close every group's receipts of these removed messages."""
        for group in self:
            for log_offset in log_offsets:
                if receipt := group.receipts.get(log_offset):
                    receipt.close()

    def with_offsets(self) -> set[str]:
        """The names of all groups, including deleted groups with kept offsets."""
        return {group.name for group in self._registered} | self._offsets.keys()

    def offsets_of(self, name: str) -> Mapping[Queue, int]:
        """The group's committed offset by queue; for a deleted group, its last committed offset."""
        group = self.find_group(name)
        if group is None:
            return self._offsets.get(name, {})
        return {queue: group_queue.committed_offset for queue, group_queue in group.queues.items()}

    def filtered_by_pull(self, name: str) -> set[str]:
        """The topics that the group has pulled with a filter in the request, also before it was deleted."""
        group = self.find_group(name)
        return group.filtered_by_pull if group else self._filtered_by_pull.get(name, set())

    def keep_offset(self, name: str, queue: Queue, offset: int) -> None:
        """Store a committed offset for a group that does not exist yet."""
        self._offsets.setdefault(name, {})[queue] = offset

    def forget_deleted(self) -> None:
        """Forget the offsets of deleted groups."""
        for name in [name for name in self._offsets if self._registered.find_group(name) is None]:
            del self._offsets[name]
            self._filtered_by_pull.pop(name, None)
