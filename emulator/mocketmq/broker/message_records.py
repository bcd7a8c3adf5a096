"""What the store contains about a message: its records, their consumption, and injected faults."""

from typing import Final, NamedTuple

import msgspec

from mocketmq.message.message import RecordKind

BODY_HEAD_BYTES: Final = 120
"""Number of bytes of the body that are read for each record."""

RECORDS: Final = f"""
SELECT m.log_offset, m.kind, m.queue_key, m.queue_offset, m.store_us, m.unique_key, m.properties, m.due_us,
 m.real_queue_key, coalesce(d.parked_offset, m.parked_offset), m.door, m.sys_flag,
 substr(m.body, 1, {BODY_HEAD_BYTES}), length(m.body), m.reconsume_times,
 coalesce(d.scheme, h.scheme), d.level, coalesce(d.stored_us, h.stored_us), d.due_us, d.forced, d.fault,
 i.kind, i.at_us, CASE m.kind WHEN 'held' THEN h.parked_offset WHEN 'cancelled' THEN (
  SELECT number FROM timed_messages t
  WHERE t.due_ms = m.due_us / 1000 AND t.outcome <> 'delivered' AND t.log_offset = m.log_offset) END
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset
LEFT JOIN interventions i ON i.parked_offset = m.log_offset
LEFT JOIN held_deliveries h ON h.record_offset = m.log_offset AND m.kind = 'held' AND NOT h.is_repeat
"""
"""Selects the fields of :class:`RecordRow`; callers append a condition."""


class RecordRow(NamedTuple):
    """A record of the store with the head of its body, and with its delivery and intervention, if any.

    ``stored_us`` is the time at which the delay ``scheme`` stored a delivered or held message. ``number`` is
    the number that a cancelled or held message had outside of the store. ``parked_offset`` may also be such a
    number.
    """

    log_offset: int
    kind: RecordKind
    queue_key: int
    queue_offset: int
    store_us: int
    unique_key: str
    properties: str
    due_us: int | None
    real_queue_key: int | None
    parked_offset: int | None
    door: str | None
    sys_flag: int
    head: bytes
    size: int
    reconsume_times: int
    scheme: str | None = None
    level: int | None = None
    stored_us: int | None = None
    delivery_due_us: int | None = None
    forced: int | None = None
    fault: str | None = None
    intervention: str | None = None
    intervened_us: int | None = None
    number: int | None = None


class ReceiptRecord(msgspec.Struct, frozen=True):
    """How a group consumed a record of the message. `outcome` is null until it is settled."""

    group: str
    log_offset: int
    times: int
    first_taken_us: int | None
    last_taken_us: int | None
    visible_us: int
    settled_us: int | None
    outcome: str | None


class FaultRecord(msgspec.Struct, frozen=True):
    """A fault injected into a request for the message, or into its delivery, which has no `door`.

    `fault` is the rule's name, `do` its kind.
    """

    at_us: int
    fault: str
    do: str
    door: str
    operation: str
