"""Committed offsets: how far groups have consumed queues. Pulling consumers read and report them.

As in RocketMQ, a commit must change memory before the client's next request is handled. No method may
therefore await anything before memory has changed. A commit is durable before it is answered. Receipts below
a committed offset are closed at once; a receive or an acknowledgement in progress finds them closed.

Source: docs/protocol/remoting.md §2.4
"""

import logging
from collections.abc import Mapping, Sequence

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.group_queue import GroupQueue, Notice
from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Outcome, Receipt
from mocketmq.broker.registry.clients import BROADCASTING
from mocketmq.broker.registry.registry import Registry
from mocketmq.errors import EmulatorError, InvalidArgumentError
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import save_outcome
from mocketmq.store.store import Store

log = logging.getLogger(__name__)


class CommittedOffsets:
    """The committed offsets of all groups."""

    def __init__(
        self, store: Store, registry: Registry, groups: ConsumingGroups, polls: Polls, notes: LedgerNotes
    ) -> None:
        self._writer = store.writer
        self._clock = store.clock
        self._trail = notes.trail
        self._topics = registry.topics
        self._groups = groups
        self._registered = registry.groups
        self._clients = registry.clients
        self._polls = polls
        self._notes = notes

    def of(self, group_name: str, topic_name: str, queue_id: int) -> int | None:
        """The group's committed offset; None if it has never consumed the queue."""
        group_queue = self._groups.get(group_name).queues.get(self._topics.queue_of(topic_name, queue_id))
        return None if group_queue is None else group_queue.committed_offset

    def start_offset(
        self, group_name: str, topic_name: str, queue_id: int, *, anew: bool = True
    ) -> int | None:
        """The offset at which a pulling consumer begins; None if the consumer must decide.

        With ``anew``, a group that is new to the queue begins at the oldest message, unless retention has
        removed messages, as in RocketMQ in a young queue (docs/protocol/remoting.md §2.4). Missing groups and
        topics are not created. The offset kept from a deleted group also counts.
        """
        queue, group = self._topics.find_queue(topic_name, queue_id), self._groups.find_group(group_name)
        group_queue = group.queues.get(queue) if group and queue else None
        if group_queue is None:
            if group is None and queue is not None:
                left = self._groups.offsets_of(group_name).get(queue)
                if left is not None:
                    return max(left, queue.min_offset)
            if not anew or (queue is not None and not queue.is_young):
                return None
            if group is None or queue is None:
                return queue.min_offset if queue else 0
            group_queue = group.in_queue(queue)
        offset = group_queue.start_offset
        if group_queue.reported is None:
            group_queue.reported = offset
        return offset

    async def commit(self, group_name: str, topic_name: str, queue_id: int, offset: int) -> None:
        """Set the group's committed offset.

        Receipts below the offset are settled. A lower offset than before makes the group consume again from
        that offset, and closes all its receipts of the queue.
        """
        queue = self._topics.queue_of(topic_name, queue_id)
        if not 0 <= offset <= queue.next_offset:
            raise InvalidArgumentError("offset", offset, f"0 to {queue.next_offset}, the end of the queue")
        group_queue = (await self._groups.for_use(group_name)).in_queue(queue)
        is_back = offset < group_queue.committed_offset
        await self._save({group_queue: (group_queue.begin_at if is_back else group_queue.finish)(offset)})

    async def report(
        self, group_name: str, topic_name: str, queue_id: int, offset: int, *, is_durable: bool = True
    ) -> bool:
        """Handle a pulling consumer's periodic report of its offset. Returns False if it missed a reset.

        The group's offset is moved back only if the report is lower than the previous report, because other
        members may have acknowledged more by receipt. Ignores offsets outside the queue, missing topics,
        missing groups that may not be created, and offsets of a client that has not been notified of a reset
        (ConsumerManageProcessor.java, 5.3.3). Without ``is_durable``, the report is stored with the next
        durable one.
        """
        queue = self._topics.find_queue(topic_name, queue_id)
        if queue is None or not 0 <= offset <= queue.next_offset:
            return True
        ended: Sequence[Receipt] = ()
        group = self._groups.find_group(group_name)
        if group is None:
            if not self._registered.may_be_used(group_name):
                return True
            self._groups.keep_offset(group_name, queue, offset)
            group = await self._groups.for_use(group_name)
            group_queue = group.in_queue(queue)
            group_queue.reported, group_queue.saved_offset = group_queue.next_offset, None
        else:
            group_queue = group.in_queue(queue)
            if group_queue.notice is not None:
                return False
            before = group_queue.committed_offset if group_queue.reported is None else group_queue.reported
            ended = (group_queue.begin_at if offset < before else group_queue.finish)(offset)
            if offset > before:
                self._trail.committed(self._clock.now_us(), group_name, queue, range(before, offset))
        self._note_acked(group, queue, offset)
        self._polls.changed()
        if ended or (is_durable and group_queue.saved_offset != group_queue.next_offset):
            await self._save({group_queue: ended})
        elif is_durable:
            await self._writer.synced()  # an equal offset may be stored, but not durable yet
        return True

    async def reset(self, group: ConsumingGroup, offsets: Mapping[Queue, int]) -> None:
        """Make the group begin at these offsets, and close all its receipts of the queues.

        Commits of the group's pulling consumers are ignored until they have been notified of the reset.
        Broadcast consumers keep their offsets themselves.
        """
        live = self._clients.find_connected_group(group.name)
        notice = None if live and live.model == BROADCASTING else Notice.DUE
        ended = {}
        for queue, offset in offsets.items():
            group_queue = group.in_queue(queue)
            ended[group_queue] = group_queue.begin_at(offset)
            group_queue.notice, group_queue.pulled_offset = notice, offset
            group_queue.resets += 1
            self._polls.arrived(queue)
        await self._save(ended)

    async def _save(self, moved: Mapping[GroupQueue, Sequence[Receipt]]) -> None:
        """Store the group's offsets in these queues, and the receipts that the offsets have closed."""

        def work(batch: Batch) -> None:
            for group_queue, ended in moved.items():
                group = group_queue.group
                if group.is_deleted or group.queues.get(group_queue.queue) is not group_queue:
                    continue  # the group or the queue was deleted meanwhile
                for receipt in ended:
                    save_outcome(batch, group.name, receipt.log_offset, Outcome.PASSED.value, if_open=True)
                group_queue.save(batch, group_queue.next_offset)

        # In a separate transaction, because a message may be received again as soon as it is closed. Its old
        # receipt must be closed before that.
        await self._writer.commit(work, alone=any(moved.values()))

    def _note_acked(self, group: ConsumingGroup, queue: Queue, offset: int) -> None:
        """Record in the ledger that delayed messages below the offset are acknowledged."""
        noted = group.pulled.get(queue, {})
        passed = [each for each in noted if each < offset]
        if passed:
            self._notes.acked([noted.pop(each) for each in passed])

    async def close(self) -> None:
        """Store the reported offsets that are not stored yet, if the store still accepts them."""
        try:
            await self.save_reported()
        except EmulatorError as error:
            log.warning("cannot store all offsets; consumers may get messages again: %s", error)

    async def save_reported(self) -> None:
        """Store the ledger's notes, and the reported offsets that are not stored yet."""
        await self._notes.written()
        unsaved: dict[GroupQueue, Sequence[Receipt]] = {
            group_queue: ()
            for group in self._groups
            for group_queue in group.queues.values()
            if group_queue.reported is not None and group_queue.saved_offset != group_queue.next_offset
        }
        if unsaved:
            await self._save(unsaved)
