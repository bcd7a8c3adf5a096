"""Removes what a crashing broker stored last, as if its disk had not been flushed.

The records that the broker stored within the lost time are at the ends of its queues. A crash moves them into
another topic of the broker, so that people can still look them up, and a row of the table ``interventions``
marks each as lost. The queues reuse the lost offsets, like a log that was truncated.

A delayed message is lost if it was sent within that time. If it was only delivered within that time, it is
pending again, and is delivered when the broker starts. Acknowledgements and committed offsets of that time
are undone. All of this is one durable transaction.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeVar

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import LedgerNotes, Step
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.removal.reset import DELETE_MESSAGE
from mocketmq.clock import LATEST_US
from mocketmq.event_loop import pieces_of
from mocketmq.message.broker_share import BrokerShare, is_shared_out
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.ledger import DueMessage
from mocketmq.schedule.scheme import DelayScheme, cancel_in_pieces, pending_in
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.store.batch import Batch
from mocketmq.store.counters import SAVE_NEXT_LOG_OFFSET
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import OpenReceipt, delete_receipts, receipts_acked_since
from mocketmq.store.store import Store

T = TypeVar("T")

_STORED_SINCE: Final = """
SELECT m.log_offset, m.kind, m.queue_key, m.queue_offset, m.real_queue_key, length(m.body), p.log_offset,
 d.parked_offset, d.scheme, d.level, d.stored_us, d.due_us, d.forced, d.fault
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset
LEFT JOIN messages p ON p.log_offset = m.parked_offset
WHERE m.log_offset > coalesce(
 (SELECT log_offset FROM messages WHERE store_us <= ? ORDER BY log_offset DESC LIMIT 1), -1)
ORDER BY m.log_offset"""
_HELD_SINCE: Final = """
SELECT record_offset, queue_key, level, parked_offset FROM held_deliveries
WHERE NOT is_repeat AND stored_us > ?"""
_FIRST_DELIVERIES: Final = """
SELECT parked_offset, min(delivered_offset) FROM deliveries WHERE parked_offset IN (
 SELECT parked_offset FROM deliveries WHERE fault NOT NULL AND delivered_us > ?) GROUP BY 1"""
_MARK: Final = "INSERT OR REPLACE INTO interventions VALUES (?, 'lost', ?)"
_AT_CRASH: Final = "UPDATE interventions SET at_us = ? WHERE at_us = ? AND kind = 'lost'"
_CUT: Final = "UPDATE queues SET next_offset = min(next_offset, ?) WHERE key = ?"
_UNDO_DELIVERY: Final = "DELETE FROM deliveries WHERE delivered_offset = ?"
_END_REPEATS: Final = "DELETE FROM held_deliveries WHERE is_repeat AND stored_us > ? AND queue_key = ?"
# A message from a delay scheme's files returns to its former state: held by a fault, or not delivered yet.
_PARK_AGAIN: Final = (
    "UPDATE messages SET kind = 'held', due_us = ?, parked_offset = NULL WHERE log_offset = ?"
)
_NEVER_DELIVERED: Final = (
    "UPDATE timed_messages SET outcome = 'cancelled' WHERE number = ? AND log_offset = ?"
)
_CANCEL_HELD: Final = "UPDATE messages SET kind = 'cancelled' WHERE log_offset = ? AND kind = 'held'"


class _Record(NamedTuple):
    """A stored record, with the parked record that it delivers, if any, and its row in the ledger."""

    log_offset: int
    kind: str
    queue_key: int
    queue_offset: int
    real_queue_key: int | None
    size: int
    parked_record: int | None
    parked_offset: int | None
    scheme: str | None
    level: int | None
    stored_us: int | None
    due_us: int | None
    forced: int | None
    fault: str | None


class _Found(NamedTuple):
    """What a broker has stored since an instant, and where its queues would end without these records."""

    records: Sequence[_Record]
    ends: dict[Queue, int]
    ends_before: dict[Queue, int]
    held: Sequence[tuple[int, int, int | None, int]]  # rows of ``_HELD_SINCE``
    pending: Sequence[tuple[DelayScheme, list[StoredMessage]]]
    acknowledged: Sequence[OpenReceipt]
    first_deliveries: Mapping[int, int]
    since_us: int


@dataclass(eq=False, repr=False)
class CrashLoss:
    """Removes the newest records and commits of one broker of the cluster.

    ``on_changed`` is called with the log offset from which messages may have changed.
    """

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _receipts: Receipts
    _timer: Timer
    _schemes: SchemeSet
    _held: HeldDeliveries
    _notes: LedgerNotes
    on_changed: Callable[[int], None] = field(init=False, default_factory=lambda: lambda _begin: None)

    async def run(self, share: BrokerShare, crash_us: int, loses_us: int, uncopied_us: int = 0) -> int:
        """Lose what a broker that is down stored less than ``loses_us`` before ``crash_us``, or later.

        If ``loses_us`` is 0, no messages are lost, not even messages of sends in progress, stored after the
        crash. Committed offsets of the last ``uncopied_us`` are lost in any case. Returns the number of
        lost messages, retries and dead letters. The caller holds the timer's lock. Raises a StoreError.
        """
        since_us = crash_us - loses_us if loses_us else LATEST_US
        commits_since_us = crash_us - max(loses_us, uncopied_us)
        await self._notes.written()
        while True:
            found = await self._find(share, since_us)
            work = partial(
                self._lose, share=share, found=found, crash_us=crash_us, commits_since_us=commits_since_us
            )
            lost: int | None = await self._store.writer.commit(work, alone=True, until="visible")
            if lost is not None:
                break
        self._timer.changed()
        return lost

    async def _find(self, share: BrokerShare, since_us: int) -> _Found:
        queues = (*self._registry.topics.queues, *self._registry.topics.lites)
        ends_before = {queue: queue.next_offset for queue in queues if self._has(share, queue)}
        records: list[_Record] = []
        ends: dict[Queue, int] = {}
        for some in pieces_of(await self._store.database.rows(_STORED_SINCE, (since_us,))):
            await asyncio.sleep(0)
            for row in map(_Record._make, some):
                goal = self._goal(row)
                if self._has(share, goal):
                    records.append(row)
                    if row.queue_key == goal.key:
                        ends.setdefault(goal, row.queue_offset)
        held = await self._store.database.rows(_HELD_SINCE, (since_us,))
        acknowledged = await receipts_acked_since(self._store.database, since_us)
        is_repeated = any(row.fault for row in records)
        return _Found(
            records,
            ends,
            ends_before,
            await self._of_broker(share, held, itemgetter(1)),
            [
                (scheme, [one async for one in pending_in(scheme) if self._is_lost(share, one, since_us)])
                for scheme in self._schemes
                if scheme is not self._held and since_us != LATEST_US
            ],
            await self._of_broker(share, acknowledged, attrgetter("queue_key")),
            dict(await self._store.database.rows(_FIRST_DELIVERIES, (since_us,))) if is_repeated else {},
            since_us,
        )

    async def _of_broker(
        self, share: BrokerShare, rows: Sequence[T], queue_key: Callable[[T], int]
    ) -> list[T]:
        """The rows of queues that belong to the broker."""
        found: list[T] = []
        for some in pieces_of(rows):
            await asyncio.sleep(0)
            found += [row for row in some if self._has(share, self._registry.topics.queue(queue_key(row)))]
        return found

    def _has(self, share: BrokerShare, queue: Queue) -> bool:
        """Whether the queue belongs to the broker.

        Lite topics belong to the cluster as a whole, which takes their messages while a broker is down.
        """
        if queue.lite_topic is not None:
            return len(self._registry.brokers) == 1
        return is_shared_out(queue.topic) and self._registry.brokers.index_of(queue) == share.position

    def _goal(self, row: _Record) -> Queue:
        return self._registry.topics.queue(
            row.queue_key if row.real_queue_key is None else row.real_queue_key
        )

    def _is_lost(self, share: BrokerShare, message: StoredMessage, since_us: int) -> bool:
        """Whether a pending message was stored after the instant, and belongs to the broker."""
        queue = self._registry.topics.queue(message.real_queue_key or 0)
        return message.store_us > since_us and self._has(share, queue)

    def _lose(
        self, batch: Batch, share: BrokerShare, found: _Found, crash_us: int, commits_since_us: int
    ) -> Generator[None, None, int | None]:
        """Lose what was found. Returns None if a send in progress has stored more since it was read."""
        if any(queue.next_offset != end for queue, end in found.ends_before.items()):
            return None
        count = 0
        for scheme, messages in found.pending:
            count += yield from cancel_in_pieces(scheme, batch, messages, "lost")
        for held in pieces_of(found.held):
            for record_offset, _, level, number in held:
                count += self._held.cancel_records(batch, [record_offset], "lost")
                if level is None:
                    _mark_undelivered(batch, number, record_offset)
            yield
        gone: list[int] = []
        for records in pieces_of(found.records):
            for row in filter(self._takes_from_consumers, records):
                count += self._lose_record(batch, row, found)
                delete_receipts(batch, row.log_offset)
                gone.append(row.log_offset)
            yield
        changed = [*_changed_offsets(found)]
        if changed:
            batch.on_commit(partial(self.on_changed, min(changed)))
        batch.execute(_AT_CRASH, (crash_us, batch.now_us))
        batch.on_commit(partial(self._groups.close_receipts, gone))
        self._cut(batch, found.ends, found.since_us)
        self._undo_commits(batch, share, commits_since_us)
        taken = {*gone}
        for receipts in pieces_of(found.acknowledged):
            for receipt in receipts:
                if receipt.log_offset not in taken:
                    self._receipts.undo_acknowledgement(batch, receipt)
            yield
        batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
        return count

    def _takes_from_consumers(self, row: _Record) -> bool:
        """Whether consumers or producers can find the record, unlike records of pending messages."""
        return row.kind == "prepared" or row.queue_key == self._goal(row).key

    def _lose_record(self, batch: Batch, row: _Record, found: _Found) -> bool:
        """Lose a record. Returns False for a delivery whose message is not lost."""
        parked_queue = self._registry.topics.get(TIMER_TOPIC).queues[0]
        if row.parked_offset is None:
            batch.move(row.log_offset, parked_queue)
            batch.execute(_MARK, (row.log_offset, batch.now_us))
            return True
        batch.execute(_UNDO_DELIVERY, (row.log_offset,))
        record_offset = row.log_offset if row.parked_record is None else row.parked_record
        if row.parked_record is not None:
            batch.execute(DELETE_MESSAGE, (row.log_offset,))
        if found.first_deliveries.get(row.parked_offset, row.log_offset) < row.log_offset:
            return False  # a repeated delivery
        is_lost = bool(row.forced) or (row.stored_us or 0) > found.since_us
        if row.parked_record is None:
            batch.move(row.log_offset, parked_queue)
            batch.execute(_PARK_AGAIN, (row.due_us, row.log_offset))
        if is_lost:
            batch.execute(_MARK, (record_offset, batch.now_us))
            if row.level is None:
                _mark_undelivered(batch, row.parked_offset, record_offset)
        else:
            message = DueMessage(
                self._goal(row), row.parked_offset, row.level, row.stored_us or 0, row.due_us or 0
            )
            self._held.hold_again(batch, message, row.scheme or "", record_offset, row.size)
        return is_lost

    def _cut(self, batch: Batch, ends: Mapping[Queue, int], since_us: int) -> None:
        """Make the queues, and the groups' offsets in them, end before the lost records."""
        for queue, end in ends.items():
            batch.execute(_CUT, (end, queue.key))
            batch.sweep(_END_REPEATS, (since_us, queue.key))
            batch.on_commit(partial(setattr, queue, "next_offset", end))
        self._groups.cut_queues(batch, ends)
        batch.on_commit(partial(self._notes.trail.cut, ends))

    def _undo_commits(self, batch: Batch, share: BrokerShare, since_us: int) -> None:
        """Move groups back to the offsets that they had committed before."""

        def is_lost(step: Step) -> bool:
            return step.is_commit and step.at_us > since_us and self._has(share, step.queue)

        trail = self._notes.trail
        before: dict[tuple[str, Queue], int] = {}
        for step in filter(is_lost, trail.steps):
            before.setdefault((step.group, step.queue), step.offsets[0])
        self._groups.go_back(batch, before)
        batch.on_commit(partial(trail.remove, is_lost))


def _changed_offsets(found: _Found) -> Iterator[int]:
    """The log offsets of all messages that a loss may change."""
    for row in found.records:
        yield row.log_offset
        if row.parked_record is not None:
            yield row.parked_record
    for record_offset, *_ in found.held:
        yield record_offset


def _mark_undelivered(batch: Batch, number: int, record_offset: int) -> None:
    """Restore a message from the files of a delay scheme to its state before it was due."""
    batch.execute(_NEVER_DELIVERED, (number, record_offset))
    batch.execute(_CANCEL_HELD, (record_offset,))
