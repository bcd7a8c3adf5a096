"""Wipes a broker that is down, as if its disk were lost: messages, offsets and delayed messages are gone.

Unlike a reset, a wipe lets offsets begin at 0 again, so consumers may have offsets beyond the end.
"""

from collections.abc import Collection
from dataclasses import dataclass

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import PullTrail
from mocketmq.broker.lite.expiry import LiteExpiry
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.removal.reset import DELETE_MESSAGE, DELETE_MESSAGES, EMPTIED
from mocketmq.message.broker_share import BrokerShare, is_shared_out
from mocketmq.message.names import CHECKED_HALF_TOPIC, HALF_PREFIX, UNDECIDED_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.scheme import pending_in
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.store.batch import Batch
from mocketmq.store.counters import SAVE_NEXT_LOG_OFFSET
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import delete_receipts, delete_receipts_of_queue
from mocketmq.store.store import Store

_HALVES = """
SELECT log_offset, real_queue_key FROM messages JOIN queues ON key = queue_key
WHERE due_us IS NULL AND real_queue_key IS NOT NULL
AND (topic IN (?1, ?2) OR substr(topic, 1, length(?3)) = ?3)"""


@dataclass(eq=False, repr=False)
class Wipe:
    """Deletes everything that one broker of the cluster has, in one durable transaction."""

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _timer: Timer
    _schemes: SchemeSet
    _lite_expiry: LiteExpiry
    _held: HeldDeliveries
    _trail: PullTrail

    async def run(self, share: BrokerShare) -> None:
        """Delete the broker's messages, visible, delayed and half, and the offsets of groups there.

        The caller holds the timer's lock.
        """
        queues = [queue for queue in self._registry.topics.queues if self._has(share, queue)]
        keys = {queue.key for queue in queues}
        pending = []
        for scheme in self._schemes:
            found = (one async for one in pending_in(scheme) if one.real_queue_key in keys)
            pending.append((scheme, [one._replace(body=b"") async for one in found]))
        places = (CHECKED_HALF_TOPIC, UNDECIDED_TOPIC, HALF_PREFIX)
        halves = [half for half, key in await self._store.database.rows(_HALVES, places) if key in keys]

        def work(batch: Batch) -> None:
            for scheme, messages in pending:
                scheme.cancel(batch, messages)
            for log_offset in halves:
                delete_receipts(batch, log_offset)
                batch.execute(DELETE_MESSAGE, (log_offset,))
            batch.on_commit(lambda: self._groups.close_receipts(halves))
            if not share.position:  # the first broker has all lite topics
                self._lite_expiry.delete(batch, list(self._registry.topics.lites))
            for queue in queues:
                self._held.drop_repeats(batch, queue)
                delete_receipts_of_queue(batch, queue)
                batch.sweep(DELETE_MESSAGES, (queue.key,))
                batch.execute(EMPTIED, (0, 0, batch.next_log_offset, queue.key))
            self._groups.leave_queues(batch, queues)
            batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
            batch.on_commit(lambda: _begin_again(queues, batch.next_log_offset))
            batch.on_commit(lambda: self._trail.forget(queues))

        await self._store.writer.commit(work, alone=True, until="visible")
        self._timer.changed()

    def _has(self, share: BrokerShare, queue: Queue) -> bool:
        """Whether the broker has the queue: neither the cluster as a whole nor a lite topic."""
        is_own = queue.lite_topic is None and is_shared_out(queue.topic)
        return is_own and self._registry.brokers.index_of(queue) == share.position


def _begin_again(queues: Collection[Queue], emptied_at: int) -> None:
    for queue in queues:
        queue.min_offset = queue.first_offset = queue.next_offset = 0
        queue.emptied_at = emptied_at
