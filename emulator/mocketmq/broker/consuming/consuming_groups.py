"""The state of consumer groups: committed offsets, and messages in flight.

The registry knows groups by name and configuration; their state is here. It is made on first use, from the
stored offsets of the group, or of a deleted group of its name.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.broker.registry.group import Group
from mocketmq.broker.registry.groups import MAX_RETRIES, Groups
from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import GroupNotFoundError
from mocketmq.message.names import HALF_GROUP
from mocketmq.store.offset_rows import (
    delete_progress_of_group,
    delete_progress_of_queue,
    read_progress,
    save_progress,
)
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import delete_takes_of_group
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch


class ConsumingGroup:
    """The state of one group. ``lock`` is held while messages are chosen for one of its consumers."""

    def __init__(self, registered: Group) -> None:
        self.registered = registered
        self.name = registered.name
        self.is_deleted = False
        self.queues: dict[Queue, GroupQueue] = {}
        # Delayed messages that were pulled and not committed past yet: log offsets by queue offset.
        self.pulled: dict[Queue, dict[int, int]] = {}
        self.receipts: dict[int, Receipt] = {}  # all that are open, by log offset
        self.available: dict[int, Receipt] = {}  # those of them that are free
        self.lock = asyncio.Lock()
        self._watching: set[asyncio.Event] = set()

    def in_queue(self, queue: Queue) -> GroupQueue:
        """The group's position in this queue; a new one begins at the oldest message."""
        found = self.queues.get(queue)
        if found is None:
            found = self.queues[queue] = GroupQueue(self, queue, queue.min_offset)
        return found

    def check_exists(self) -> None:
        """Raise GroupNotFoundError if it was deleted while its consumer waited."""
        if self.is_deleted:
            raise GroupNotFoundError(f"subscription group not exist, {self.name}")

    def gives_up(self, receipt: Receipt) -> bool:
        """Whether a message becomes a dead letter when its invisible time ends.

        Half messages never do, nor do popped messages, whose clients count attempts themselves.
        """
        is_over = receipt.times > 0 and receipt.reconsume_times + receipt.times > self.registered.max_retries
        return is_over and not receipt.pop_ms and self.name != HALF_GROUP

    @contextmanager
    def announcing(self, event: asyncio.Event) -> Iterator[None]:
        """Set the event whenever a receipt is closed: its queue may have more to give in order."""
        self._watching.add(event)
        try:
            yield
        finally:
            self._watching.discard(event)

    def take_closed(self) -> None:
        """Set the events of :meth:`announcing`."""
        for event in self._watching:
            event.set()

    def forget(self, queues: Iterable[Queue]) -> None:
        """Close the receipts of these emptied queues, and go on at their end."""
        for queue in queues:
            self.pulled.pop(queue, None)
            group_queue = self.queues.get(queue)
            if group_queue is not None:
                for receipt in list(group_queue.open.values()):
                    receipt.close()
                group_queue.next_offset = queue.next_offset
                group_queue.saved_offset = None


class ConsumingGroups:
    """The state of every group. Lookups raise as those of the registry."""

    def __init__(self, store: Store, groups: Groups) -> None:
        self._store = store
        self._registered = groups
        self._groups: dict[str, ConsumingGroup] = {}
        # Offsets of groups whose state was not needed yet, of deleted groups, and of those being made.
        self._offsets: dict[str, dict[Queue, int]] = {}

    async def load(self, topics: Topics) -> None:
        """Read from the store how far each group has come."""
        for name, queue_key, next_offset in await read_progress(self._store.database):
            queue = topics.queue(queue_key)
            self._offsets.setdefault(name, {})[queue] = min(next_offset, queue.next_offset)

    def of(self, registered: Group) -> ConsumingGroup:
        """The state of a group."""
        group = self._groups.get(registered.name)
        if group is None:
            group = self._groups[registered.name] = ConsumingGroup(registered)
            for queue, offset in self._offsets.pop(registered.name, {}).items():
                group_queue = group.in_queue(queue)
                group_queue.next_offset = group_queue.saved_offset = offset
        return group

    def __iter__(self) -> Iterator[ConsumingGroup]:
        """All groups, by name."""
        return map(self.of, self._registered)

    def find(self, name: str) -> ConsumingGroup | None:
        """The group, or None."""
        registered = self._registered.find(name)
        return None if registered is None else self.of(registered)

    def get(self, name: str) -> ConsumingGroup:
        """The group. Raises GroupNotFoundError."""
        return self.of(self._registered.get(name))

    def of_client(self, name: str) -> ConsumingGroup:
        """As :meth:`Groups.of_client`."""
        return self.of(self._registered.of_client(name))

    async def for_use(self, name: str) -> ConsumingGroup:
        """As :meth:`Groups.for_use`."""
        return self.of(await self._registered.for_use(name))

    async def for_consuming(self, name: str) -> ConsumingGroup:
        """As :meth:`Groups.for_consuming`."""
        return self.of(await self._registered.for_consuming(name))

    async def for_broker(self, name: str) -> ConsumingGroup:
        """A group of the broker's own, made on first use."""
        registered = self._registered.find(name)
        return self.of(registered or await self._registered.put(name, MAX_RETRIES, 1, replace=False))

    async def delete(self, name: str, *, clean_offsets: bool) -> None:
        """Delete the group and its receipts. Its offsets stay for a later group of its name.

        With ``clean_offsets`` they are deleted too. Raises GroupNotFoundError, NoPermissionError for the
        broker's own.
        """
        group = self.of_client(name)

        def work(batch: Batch) -> None:
            offsets = {queue: each.committed_offset for queue, each in group.queues.items()}
            self._registered.delete(batch, name)
            delete_takes_of_group(batch, name)
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

            batch.on_commit(apply)

        async with group.lock:
            group.check_exists()
            await self._store.writer.commit(work, alone=True, until="visible")
        await self._store.writer.synced()

    def leave_queues(self, batch: Batch, queues: Iterable[Queue]) -> None:
        """Delete, in this transaction, every group's position in the queues of a deleted topic."""

        def apply() -> None:
            for group in self._groups.values():
                group.forget(queues)
                for queue in queues:
                    group.queues.pop(queue, None)
            for offsets in self._offsets.values():
                for queue in queues:
                    offsets.pop(queue, None)

        for queue in queues:
            delete_progress_of_queue(batch, queue)
        batch.on_commit(apply)

    def with_offsets(self) -> set[str]:
        """The names of all groups, and of deleted groups whose offsets are kept."""
        return {group.name for group in self._registered} | self._offsets.keys()

    def offsets_of(self, name: str) -> Mapping[Queue, int]:
        """The group's committed offset by queue; for a deleted group, as it was then."""
        group = self.find(name)
        if group is None:
            return self._offsets.get(name, {})
        return {queue: group_queue.committed_offset for queue, group_queue in group.queues.items()}

    def keep_offset(self, name: str, queue: Queue, offset: int) -> None:
        """Keep a committed offset for a group that does not exist yet."""
        self._offsets.setdefault(name, {})[queue] = offset

    def forget_deleted(self) -> None:
        """Forget the offsets of deleted groups."""
        for name in [name for name in self._offsets if self._registered.find(name) is None]:
            del self._offsets[name]
