"""A record of the store, without its body, as spans need it, and the identity of its message in traces."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from mocketmq.message.message import RecordKind, StoredMessage
from mocketmq.message.properties import decode_properties
from mocketmq.message.trace_context import TraceContext, trace_context_of
from mocketmq.store.database import Database

_RECORDS: Final = """
SELECT m.log_offset, m.kind, m.queue_key, m.queue_offset, m.store_us, m.born_us, m.unique_key, m.properties,
 m.reconsume_times, length(m.body), m.door, m.due_us, m.real_queue_key, m.prepared_offset, d.scheme, d.level,
 d.stored_us, d.due_us, d.picked_us, d.forced, d.fault
FROM messages m LEFT JOIN deliveries d ON d.delivered_offset = m.log_offset"""


class TracedRecord(NamedTuple):
    """A record. The fields from ``scheme`` on describe its delivery, if it was delayed."""

    log_offset: int
    kind: RecordKind
    queue_key: int
    queue_offset: int
    store_us: int
    born_us: int
    unique_key: str
    properties: str
    reconsume_times: int
    size: int
    door: str | None
    due_us: int | None
    real_queue_key: int | None
    prepared_offset: int | None
    scheme: str | None = None
    level: int | None = None
    stored_us: int | None = None
    delivery_due_us: int | None = None
    picked_us: int | None = None
    forced: int | None = None
    fault: str | None = None


class TraceIdentity(NamedTuple):
    """The trace of a message, and the producer's span in it, if the producer is traced.

    All ids are computed from the message, so its spans fit together without any memory, even after a restart.
    All records of a message share its key and its born time.
    """

    trace_id: int
    producer: TraceContext | None
    key: bytes

    @property
    def is_sampled(self) -> bool:
        """Whether to make spans: always, unless the producer decided not to sample its trace."""
        return self.producer is None or self.producer.is_sampled

    def span_id(self, *marks: object) -> int:
        """Return the id of the message's span with these marks, which distinguish it from the other spans."""
        digest = blake2b(self.key, digest_size=8, person=b"span")
        digest.update(repr(marks).encode())
        return int.from_bytes(digest.digest()) or 1


def identity_of(record: TracedRecord, properties: dict[str, str]) -> TraceIdentity:
    """Return the identity of the record's message."""
    key = f"{record.born_us} {record.unique_key}".encode()
    producer = trace_context_of(properties)
    if producer is not None:
        return TraceIdentity(int(producer.trace_id, 16), producer, key)
    digest = blake2b(key, digest_size=16, person=b"trace").digest()
    return TraceIdentity(int.from_bytes(digest) or 1, None, key)


def waiting_record(message: StoredMessage, size: int) -> TracedRecord:
    """Make the record of a parked message, which may be outside of the store."""
    return TracedRecord(
        message.log_offset,
        message.kind,
        message.queue_key,
        message.queue_offset,
        message.store_us,
        message.born_us,
        message.unique_key,
        message.properties,
        message.reconsume_times,
        size,
        message.door,
        message.due_us,
        message.real_queue_key,
        message.prepared_offset,
    )


def properties_of(record: TracedRecord) -> dict[str, str]:
    """Return the record's properties."""
    return decode_properties(record.properties)


async def records_between(database: Database, begin: int, end: int) -> list[TracedRecord]:
    """Return the records with log offsets from ``begin`` up to but excluding ``end``, in order."""
    condition = "WHERE m.log_offset >= ? AND m.log_offset < ? ORDER BY m.log_offset"
    rows = await database.rows(f"{_RECORDS} {condition}", (begin, end))
    return list(map(TracedRecord._make, rows))


async def records_at(database: Database, log_offsets: Sequence[int]) -> dict[int, TracedRecord]:
    """Return the records with these log offsets that are still stored."""
    marks = ",".join("?" * len(log_offsets))
    rows = await database.rows(f"{_RECORDS} WHERE m.log_offset IN ({marks})", log_offsets)
    return {row[0]: TracedRecord._make(row) for row in rows}


async def records_in(database: Database, queue_key: int, offsets: Sequence[int]) -> list[TracedRecord]:
    """Return the records of a queue with these offsets that are still stored, in order."""
    marks = ",".join("?" * len(offsets))
    condition = f"WHERE m.queue_key = ? AND m.queue_offset IN ({marks}) ORDER BY m.queue_offset"
    rows = await database.rows(f"{_RECORDS} {condition}", (queue_key, *offsets))
    return list(map(TracedRecord._make, rows))
