"""Finds the undelivered messages of a store, as rows of a ledger.

**Messages of the levels** are parked: they are rows of ``messages`` in the queues of ``SCHEDULE_TOPIC_XXXX``.
A message with a row in ``deliveries`` was delivered, whatever the delay offset is, because profile
``rocketmq4`` saves the delay offset later. A message with the kind ``forced`` in ``interventions`` was
delivered, too. Of the other messages that no fault holds,

- a message with the kind ``cancelled`` in ``interventions``, by a cancel or a reset of its topic, is
  *cancelled*;
- a message with the kind ``lost`` there is *expired*, with the fault ``broker crash``: its broker crashed and
  was told to lose it;
- a message at or after the delay offset of its level is *pending*;
- a message before the delay offset is *lost*, unless retention may have removed its delivery: the oldest
  messages of its real queue are gone, and the oldest remaining delivery is later than the message's due time.

**Messages with an absolute due time** are in the files of a scheme. ``timed_messages`` has the number and the
key hash of each settled message. Of the unsettled messages

- a message with an intact file is *pending*;
- a message with a damaged file, in its place or in quarantine, is *lost* until the file is repaired. Only the
  file's name is known: ``message_id`` is number and key hash, and there is no topic.

A settled message with the outcome ``cancelled`` has a record in the queue of ``rmq_sys_wheel_timer``, and is
*cancelled*, or *expired* by a crash; its store time is unknown. A message ``cleared`` by a reset of
everything is *expired*; only its number, key hash and due time are known.

**Messages that an injected fault holds** after their due time, of whatever scheme, are rows of
``held_deliveries``. Such messages are *pending*, and their rows name the fault.

The ``kind`` of a cancelled message's record tells whether the message was in a level or in a file.

Messages that left no trace have no row: level messages after a reset of everything, cancelled messages that
retention removed, and deleted files. Half messages do not count before they are committed. An undelivered
message has no ``delivered_offset`` and no offset in its real queue. A cancelled message belongs to the run in
which it was cancelled, all others to the last run.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.message.message_id import Identity
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq_compat.delay.schemes import DEFAULT
from mocketmq_report.ledger.columns import DELIVERIES, as_rows
from mocketmq_report.ledger.store_reader import StoreReader
from mocketmq_report.ledger.waiting_files import WaitingFile

OffsetArray = np.ndarray[Any, np.dtype[np.int64]]

CRASH: Final = "broker crash"
"""The fault named for messages that a crash has lost. No rule has this name, because names have no spaces."""
_AT_ONCE: Final = 1_000
"""Number of messages that one statement selects."""
_FOREVER_US: Final = (1 << 63) - 1

_ENDS: Final = """
SELECT (SELECT min(log_offset) FROM messages) AS first,
 (SELECT max(log_offset) FROM messages) AS last"""
_PARKED: Final = f"""
SELECT log_offset FROM messages
WHERE queue_key IN (SELECT key FROM queues WHERE topic = '{SCHEDULE_TOPIC}')"""
_OF_MESSAGE: Final = """
 m.unique_key AS message_id, q.topic AS topic, q.queue_id AS queue_id, m.reconsume_times + 1 AS attempt,
 length(m.body) AS size, m.born_us AS born_us, m.due_us AS due_us"""
_QUEUES: Final = "JOIN queues p ON p.key = m.queue_key JOIN queues q ON q.key = m.real_queue_key"
_LEFT: Final = f"""
SELECT iif(is_passed, 'lost', 'pending') AS state, * FROM (
 SELECT m.log_offset AS parked_offset, p.queue_id + 1 AS level, m.store_us AS stored_us,
  m.queue_offset < coalesce(d.next_offset, p.min_offset) AS is_passed, q.min_offset > 0 AS is_emptied,
  {_OF_MESSAGE} FROM messages m {_QUEUES} LEFT JOIN delay_offsets d ON d.level = p.queue_id + 1
 WHERE m.log_offset IN ({{}}))
WHERE NOT (is_passed AND is_emptied AND due_us <= {{}})"""
_OLDEST_US: Final = "SELECT delivered_us AS us FROM deliveries ORDER BY delivered_offset LIMIT 1"
_CANCELLED: Final = f"""
WITH t AS MATERIALIZED (SELECT number, log_offset FROM timed_messages WHERE outcome <> 'delivered')
SELECT i.at_us, iif(i.kind = 'lost', 'expired', i.kind) AS state,
 iif(i.kind = 'lost', '{CRASH}', NULL) AS fault,
 coalesce(t.number, m.log_offset) AS parked_offset, m.is_timed,
 iif(m.is_timed, NULL, p.queue_id + 1) AS level, iif(m.is_timed, NULL, m.store_us) AS stored_us, {_OF_MESSAGE}
FROM interventions i
 CROSS JOIN (SELECT *, kind IN ('cancelled', 'held') AS is_timed FROM messages) m
 ON m.log_offset = i.parked_offset {_QUEUES} LEFT JOIN t ON t.log_offset = m.log_offset
WHERE i.kind IN ('cancelled', 'lost') AND m.due_us NOT NULL ORDER BY i.parked_offset"""
_HELD: Final = """
SELECT h.parked_offset AS parked_offset, h.scheme AS scheme, h.level AS level, h.stored_us AS stored_us,
 h.due_us AS due_us, h.size AS size, h.fault AS fault, m.unique_key AS message_id, q.topic AS topic,
 q.queue_id AS queue_id, m.reconsume_times + 1 AS attempt, m.born_us AS born_us
FROM held_deliveries h JOIN messages m ON m.log_offset = h.record_offset JOIN queues q ON q.key = h.queue_key
WHERE NOT h.is_repeat ORDER BY h.held"""
_SETTLED_OFFSETS: Final = """
SELECT parked_offset FROM interventions
UNION ALL SELECT record_offset FROM held_deliveries WHERE NOT is_repeat"""
_CLEARED: Final = """
SELECT printf('%016x-%016x', number, key_hash) AS message_id, number AS parked_offset, due_ms * 1000 AS due_us
FROM timed_messages WHERE outcome <> 'delivered' AND outcome = 'cleared' ORDER BY due_ms, number"""
_SETTLED: Final = "SELECT number, key_hash FROM timed_messages WHERE number IN ({})"
_TIMED_SCHEME: Final = """
SELECT scheme FROM deliveries WHERE delivered_offset = (SELECT log_offset FROM timed_messages
 WHERE outcome IN ('delivered', 'forced') ORDER BY number DESC LIMIT 1)"""


class UndeliveredOffsets:
    """The level messages without a delivery, in one byte for each message of the store."""

    def __init__(self, reader: StoreReader) -> None:
        [ends] = reader.table(_ENDS).to_pylist()
        self._first = ends["first"] or 0
        self._is_left = np.zeros(0 if ends["last"] is None else ends["last"] - self._first + 1, np.bool_)
        for batch in reader.batches(_PARKED):
            self._is_left[batch["log_offset"].to_numpy() - self._first] = True
        for batch in reader.batches(_SETTLED_OFFSETS):
            self.mark_delivered(batch["parked_offset"].to_numpy())

    def mark_delivered(self, parked_offsets: OffsetArray) -> None:
        """Remove messages that were delivered, that an intervention settled, or that a fault holds."""
        places = parked_offsets - self._first
        self._is_left[places[(places >= 0) & (places < len(self._is_left))]] = False

    def remaining(self) -> OffsetArray:
        """Return the log offsets of the remaining messages, in order."""
        return np.flatnonzero(self._is_left) + self._first


def undelivered(
    reader: StoreReader,
    parked: UndeliveredOffsets,
    files: Sequence[WaitingFile],
    runs: pa.Table,
    brokers: Sequence[str] = (),
) -> pa.Table:
    """Make the rows. ``parked`` must know all deliveries; ``files`` must be read before the database.

    ``brokers`` has the cluster's brokers; it is empty if there is only one.
    """
    used = [file.scheme for file in files if file.scheme] or reader.table(_TIMED_SCHEME)["scheme"].to_pylist()
    timed = pa.scalar((used or [DEFAULT])[0])
    levels = pa.scalar("levels")
    last_run = runs["run"][-1]
    parts = [_rows(table, run=last_run, scheme=levels) for table in _left(reader, parked.remaining())]
    parts.append(_rows(reader.table(_HELD), run=last_run, state=pa.scalar("pending")))
    cancelled = reader.table(_CANCELLED)
    last = np.searchsorted(runs["started_us"].to_numpy(), cancelled["at_us"].to_numpy(), "right") - 1
    parts.append(
        _rows(
            cancelled,
            run=runs["run"].take(pa.array(np.maximum(last, 0))),
            scheme=pc.if_else(pc.equal(cancelled["is_timed"], 1), timed, levels),
        )
    )
    parts.append(_rows(_not_settled(reader, files), run=last_run, scheme=timed))
    cleared = reader.table(_CLEARED)
    parts.append(_rows(cleared, run=last_run, state=pa.scalar("expired"), topic=pa.scalar(""), scheme=timed))
    rows = pa.concat_tables(parts)
    if brokers:
        at = rows.schema.get_field_index("broker")
        queue_ids = rows["queue_id"].combine_chunks()
        rows = rows.set_column(at, rows.schema.field(at), broker_of_queue(queue_ids, brokers))
    return rows


def broker_of_queue(queue_ids: pa.Array, brokers: Sequence[str]) -> pa.Array:
    """Return the broker of each queue. Queues rotate over the brokers (``message/broker_share.py``).

    The first broker has the lite topics, whose queues have negative ids.
    """
    numbers = np.maximum(queue_ids.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), 0)
    places = pa.array(numbers % len(brokers), mask=queue_ids.is_null().to_numpy(zero_copy_only=False))
    return pa.array(brokers, pa.string()).take(places)


def _rows(table: pa.Table, **more: pa.Scalar | pa.ChunkedArray) -> pa.Table:
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return as_rows(DELIVERIES, {**columns, **more, "forced": pa.scalar(False)}, table.num_rows)


def _left(reader: StoreReader, offsets: OffsetArray) -> Iterator[pa.Table]:
    """Find the pending and lost level messages among these log offsets."""
    oldest_us = (reader.table(_OLDEST_US)["us"].to_pylist() or [_FOREVER_US])[0]
    for start in range(0, len(offsets), _AT_ONCE):
        some = ",".join(map(str, offsets[start : start + _AT_ONCE]))
        yield reader.table(_LEFT.format(some, oldest_us))


def _not_settled(reader: StoreReader, files: Sequence[WaitingFile]) -> pa.Table:
    """Select the files of unsettled messages. Other files are not removed yet, or were copied back."""
    settled: set[Identity] = set()
    for start in range(0, len(files), _AT_ONCE):
        numbers = ",".join(str(file.parked_offset) for file in files[start : start + _AT_ONCE])
        found = reader.table(_SETTLED.format(numbers))
        settled.update(zip(found["number"].to_pylist(), found["key_hash"].to_pylist(), strict=True))
    left = [file for file in files if file.identity not in settled]
    columns = zip(*left, strict=True) if left else [[]] * len(WaitingFile._fields)
    return pa.table(dict(zip(WaitingFile._fields, map(pa.array, columns), strict=True)))
