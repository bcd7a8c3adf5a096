"""The ledger: one row of ``deliveries`` per delayed delivery, the only input of lateness reports.

The row is written in the transaction that makes the message visible. The consumer's stages are filled in
once: by the first group that takes the message, and by the first group that acknowledges it. All instants
are epoch microseconds of the emulator's clock. Columns:

================  ==============================================================================
delivered_offset  log offset of the delivered message, unique
run               the broker's start that delivered it; ``runs`` has version, profile, clock mode
parked_offset     log offset of the parked message; repeats have the same value
unique_key        the message's UNIQ_KEY, the same before and after delivery
topic, queue_id   the queue of the delivered message; the topic is ``%RETRY%group`` for a retry
queue_offset      the offset of the delivered message in its queue
scheme, level     ``levels`` and the level's number; other schemes have no level
attempt           1, plus 1 for each time that a consumer gave the message back
size              size of the body in bytes
forced            1 if delivered by hand before it was due; its lateness is then meaningless
born_us           the producer's time stamp
stored_us         when the message was parked
due_us            when the message should have become visible
picked_us         when the timer picked the message
delivered_us      store time of the delivered message, assigned just before its commit
pulled_us         when a consumer first got the message; null if none has yet
pulled_by         the group of that consumer
acked_us          when the message was first acknowledged; null if it has not been
fault             the fault rule that delayed this delivery, or made it as a repeat; null without one
================  ==============================================================================

Lateness is ``delivered_us - due_us``. A negative value means an early delivery, which is a defect with one
exception. After a level was shortened or removed, profile ``rocketmq4`` delivers its messages at once, as
RocketMQ does; ``due_us`` is still the original due time. Pending messages are rows of ``messages`` with a
``due_us`` that their level's delay offset has not passed, and without a row in ``interventions``, the table
of cancelled and forced messages.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue

_RECORD = """
INSERT INTO deliveries (delivered_offset, run, parked_offset, unique_key, topic, queue_id, queue_offset,
 scheme, level, attempt, size, forced, born_us, stored_us, due_us, picked_us, delivered_us, fault)
WITH delivery(offset, run, parked_offset, topic, queue_id, scheme, level, forced, stored_us, due_us,
 picked_us, fault) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
SELECT offset, run, delivery.parked_offset, unique_key, topic, queue_id, queue_offset,
 scheme, level, reconsume_times + 1, length(body), forced, born_us, stored_us, delivery.due_us, picked_us,
 store_us, fault
FROM delivery CROSS JOIN messages ON log_offset = offset"""
# Takes less than half of _RECORD's time for a row, because SQLite reads the values from both records.
_RECORD_COPIES = """
INSERT INTO deliveries (delivered_offset, run, parked_offset, unique_key, topic, queue_id, queue_offset,
 scheme, level, attempt, size, forced, born_us, stored_us, due_us, picked_us, delivered_us)
SELECT copy.log_offset, ?, parked.log_offset, copy.unique_key, topic, queue_id, copy.queue_offset,
 ?, ?, copy.reconsume_times + 1, length(copy.body), 0, copy.born_us, parked.store_us, parked.due_us, ?,
 copy.store_us
FROM messages copy CROSS JOIN messages parked ON parked.log_offset = copy.parked_offset
 CROSS JOIN queues ON key = copy.queue_key
WHERE copy.log_offset >= ? AND copy.log_offset < ?"""
_PULLED = "UPDATE deliveries SET pulled_us = ?, pulled_by = ? WHERE pulled_us IS NULL AND "
_ACKED = "UPDATE deliveries SET acked_us = ? WHERE acked_us IS NULL AND "
_ONE = "delivered_offset = ?"
# A single statement, because Python waits for the GIL once per statement, and row.
_SEVERAL = "delivered_offset IN (SELECT value FROM json_each(?))"
_FEW = 256
"""Maximum number of rows that are quickly changed."""


class DueMessage(NamedTuple):
    """A message to deliver, without its content. Instants in emulated microseconds."""

    queue: Queue  # where the message becomes visible
    parked_offset: int  # log offset of the parked record, or the number of a message outside of the store
    level: int | None
    stored_us: int
    due_us: int


class LedgerWriter:
    """Writes the rows of one run of the broker, always in the caller's transaction."""

    def __init__(self, run: int) -> None:
        self._run = run

    def record(
        self,
        batch: Batch,
        delivered_offset: int,
        message: DueMessage,
        scheme: str,
        picked_us: int,
        *,
        forced: bool = False,
        fault: str | None = None,
    ) -> None:
        """Record the delivery of a message that was placed in this batch."""
        queue, parked_offset, level, stored_us, due_us = message
        where = (delivered_offset, self._run, parked_offset, queue.topic, queue.queue_id)
        times = (stored_us, due_us, picked_us)
        batch.execute(_RECORD, (*where, scheme, level, int(forced), *times, fault))

    def record_copies(
        self, batch: Batch, first_offset: int, scheme: str, level: int | None, picked_us: int
    ) -> None:
        """Record the deliveries of all parked records that were copied in this batch from an offset on."""
        end = batch.next_log_offset
        row = (self._run, scheme, level, picked_us, first_offset, end)
        batch.execute(_RECORD_COPIES, row, changes=end - first_offset)

    def pulled(
        self, batch: Batch, delivered_offsets: Sequence[int], group: str, at_us: int | None = None
    ) -> None:
        """Record that a consumer of the group got the messages, by default at the batch's time."""
        self._change(batch, _PULLED, (batch.now_us if at_us is None else at_us, group), delivered_offsets)

    def acked(self, batch: Batch, delivered_offsets: Sequence[int], at_us: int | None = None) -> None:
        """Record that a consumer acknowledged the messages, by default at the batch's time."""
        self._change(batch, _ACKED, (batch.now_us if at_us is None else at_us,), delivered_offsets)

    def _change(
        self, batch: Batch, sql: str, values: tuple[object, ...], delivered_offsets: Sequence[int]
    ) -> None:
        """Run the statement for the rows with these offsets."""
        if len(delivered_offsets) == 1:
            batch.execute(sql + _ONE, (*values, delivered_offsets[0]))
        else:
            run = batch.execute if len(delivered_offsets) <= _FEW else batch.sweep
            run(sql + _SEVERAL, (*values, json.dumps(delivered_offsets)))
