"""The history of a message: its records, deliveries, interventions and receipts."""

import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import msgspec

from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.life import Event, Lives, MessageState, state_of
from mocketmq.broker.message_records import RECORDS, FaultRecord, ReceiptRecord, RecordRow
from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.broker_share import ALONE, BrokerShare
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import host_of, log_offset_of
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.messages import NO_LIMIT, messages_at
from mocketmq.store.receipt_rows import receipts_of_messages
from mocketmq.store.store import Store

MAX_FOUND_BYTES = 4 << 20
"""Limit on the bodies of a message's records, unless the newest alone is larger."""

_BECAME = "SELECT log_offset FROM timed_messages WHERE number = ?"
_FAULTS = """
SELECT next_offset, at_us, fault, do, door, operation FROM fault_hits WHERE unique_key = ? ORDER BY rowid"""


class DeliveryRecord(msgspec.Struct, frozen=True):
    """A row of the ledger: one delivery after a delay, with the instant of each stage."""

    delivered_offset: int
    parked_offset: int
    scheme: str
    stored_us: int
    due_us: int
    picked_us: int
    delivered_us: int
    forced: int
    pulled_us: int | None
    pulled_by: str | None
    acked_us: int | None
    fault: str | None


class InterventionRecord(msgspec.Struct, frozen=True):
    """A parked message was `cancelled` or delivered by hand (`forced`), or a crash lost the record."""

    parked_offset: int
    kind: Literal["cancelled", "forced", "lost"]
    at_us: int


class History(msgspec.Struct, frozen=True):
    """The records with one unique key, in the order in which they were stored, and the events on them."""

    state: MessageState
    """The state of the newest record."""
    newest: RecordRow
    life: list[Event]
    """The past events in order, then the expected events of a pending message."""
    records: list[StoredMessage]
    omitted: int
    """The number of older records left out."""
    deliveries: list[DeliveryRecord]
    interventions: list[InterventionRecord]
    receipts: list[ReceiptRecord]
    faults: list[FaultRecord]


@dataclass(eq=False, repr=False)
class Histories:
    """Looks messages up by id or key, without consuming them."""

    _store: Store
    _topics: Topics
    _schemes: SchemeSet
    _keys: MessageKeys
    _notes: LedgerNotes
    _lives: Lives

    async def records(self, message_id: str) -> list[StoredMessage]:
        """The records of a message, oldest first, by its unique key or the id of any of its records.

        A message that was delayed or retried has several records. If their bodies exceed
        ``MAX_FOUND_BYTES``, only the newest are returned, and the one that the id names. Raises
        MessageNotFoundError.
        """
        records, _ = await self._records(message_id)
        return records

    async def _records(self, message_id: str) -> tuple[list[StoredMessage], int]:
        """Like :meth:`records`, with the number of older records left out."""
        unique_key, named = message_id, None
        log_offset = log_offset_of(message_id)
        if log_offset is not None:
            named = await self._find_at(log_offset)
            if named and self._is_ours(host_of(message_id), named):
                unique_key = named.unique_key
        # Pending messages first. A message delivered in between is then found twice rather than not at all.
        waiting = await self._schemes.find_by_key(unique_key, MAX_FOUND_BYTES)
        room = max(MAX_FOUND_BYTES - sum(len(one.body) for one in waiting), 0)
        stored, omitted = await self._keys.with_unique_key(unique_key, room, or_newest=not waiting)
        if named and named.unique_key == unique_key and omitted:
            known = {record.log_offset for record in (*stored, *waiting)}
            if named.log_offset not in known:
                stored, omitted = [named, *stored], omitted - 1
        found = stored + [one for one in waiting if self._schemes.holding(one)] or waiting
        if not found:
            raise MessageNotFoundError(f"no message has the id {message_id[:80]!r}; it may have been removed")
        return found, omitted

    def _is_ours(self, host: str, named: StoredMessage) -> bool:
        """Whether clients use this ``host:port`` for the broker, or did when the message was stored.

        Each client gets the address to which it connected, so any address of this machine is accepted.
        """
        ip, _, port = host.rpartition(":")
        ours = [one.rpartition(":") for one in (self._store.writer.store_host, named.store_host)]
        return port in [port for _, _, port in ours] and (ip in [ip for ip, _, _ in ours] or _is_local(ip))

    async def at(self, log_offset: int) -> StoredMessage:
        """The record or pending message with this log offset or number. Raises MessageNotFoundError."""
        found = await self._find_at(log_offset)
        if found is None:
            raise MessageNotFoundError(f"can not find message by the offset, {log_offset}")
        return found

    async def _find_at(self, log_offset: int) -> StoredMessage | None:
        """The record; for the number of a message in a delay scheme, the message or its later record."""
        if waiting := await self._schemes.numbered(log_offset):
            return waiting
        named = await messages_at(self._store.database, [log_offset])
        if not named and (became := await self._store.database.rows(_BECAME, (log_offset,))):
            named = await messages_at(self._store.database, became[0])
        return next(iter(named.values()), None)

    async def query(
        self,
        topic_name: str,
        key: str,
        limit: int,
        from_us: int,
        to_us: int,
        max_bytes: int = NO_LIMIT,
        share: BrokerShare = ALONE,
    ) -> list[StoredMessage]:
        """The newest messages of a topic with this unique key, or the key among their ``KEYS``, oldest first.

        Only messages of the broker with this ``share`` (``ALONE``: of any), stored from ``from_us`` to
        ``to_us``, both included. Bodies from the store have up to
        ``max_bytes`` in total, unless the newest alone is larger. Pending messages are in the broker's own
        topics. Pending messages with an absolute due time are found only by their unique key.
        """
        topic = self._topics.find_topic(topic_name)
        queue_keys = {
            queue.key
            for queue in (self._topics.queues_with_lites(topic) if topic else ())
            if share.has_queue(queue.topic, queue.queue_id)
        }

        def is_wanted(queue_key: int, store_us: int) -> bool:
            return queue_key in queue_keys and from_us <= store_us <= to_us

        known = await self._schemes.find_by_key(key, max_bytes)
        waiting = [one for one in known if is_wanted(one.queue_key, one.store_us)]
        stored = await self._keys.newest(key, limit, is_wanted, max_bytes)
        return (stored + waiting)[-limit:]

    async def by_key(
        self, key: str, topic: str | None = None, limit: int = 64, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Messages with the key among their ``KEYS``, oldest first, of one topic or all topics.

        The bodies have up to ``max_bytes`` in total, unless the first alone is larger.
        """
        if topic is None:
            return await self._keys.with_key(key, limit, None, max_bytes)
        found = self._topics.find_topic(topic)
        queue_keys = {queue.key for queue in self._topics.queues_with_lites(found)} if found else set[int]()
        return await self._keys.with_key(key, limit, queue_keys, max_bytes)

    async def of(self, message_id: str) -> History:
        """The history of a message. Raises MessageNotFoundError."""
        await self._notes.written()
        records, omitted = await self._records(message_id)
        offsets = [record.log_offset for record in records]
        marks = ",".join("?" * len(offsets))
        found = await self._store.database.rows(f"{RECORDS} WHERE m.log_offset IN ({marks})", offsets)
        stored = {row[0]: RecordRow._make(row) for row in found}
        rows = [stored.get(record.log_offset) or self._lives.waiting(record) for record in records]
        deliveries = await self._store.database.rows(
            "SELECT delivered_offset, parked_offset, scheme, stored_us, due_us, picked_us, delivered_us,"
            " forced, pulled_us, pulled_by, acked_us, fault FROM deliveries"
            f" WHERE delivered_offset IN ({marks}) ORDER BY 1",
            offsets,
        )
        interventions = await self._store.database.rows(
            f"SELECT * FROM interventions WHERE parked_offset IN ({marks}) ORDER BY 1", offsets
        )
        faults = await self._store.database.rows(_FAULTS, (records[0].unique_key,))
        receipts: list[ReceiptRecord] = []
        attempts: list[str] = []
        for *values, text in await receipts_of_messages(self._store.database, offsets):
            receipts.append(ReceiptRecord(*values))
            attempts.append(text)
        outcomes = [one.outcome for one in receipts if one.log_offset == offsets[-1]]
        is_pending = self._schemes.holding(records[-1]) is not None
        history = History(
            state_of(rows[-1], outcomes, is_pending=is_pending),
            rows[-1],
            [],
            records,
            omitted,
            [DeliveryRecord(*row) for row in deliveries],
            [InterventionRecord(*row) for row in interventions],
            receipts,
            [FaultRecord(*row) for _, *row in faults],
        )
        next_offsets = [next_offset for next_offset, *_ in faults]
        history.life.extend(self._events(rows, history, attempts, next_offsets))
        return history

    def _events(
        self,
        rows: Sequence[RecordRow],
        history: History,
        attempts: Sequence[str],
        fault_offsets: Sequence[int],
    ) -> list[Event]:
        by_offset = {row.log_offset: row for row in rows}
        events = [event for row in rows for event in self._lives.of_record(row)]
        for receipt, text in zip(history.receipts, attempts, strict=True):
            events += self._lives.of_receipt(by_offset[receipt.log_offset], receipt, text)
        events += self._lives.of_trail(rows)
        known = {(event.kind, event.order[0]) for event in events}
        for one in history.deliveries:  # adds pulls and commits that are no longer in the trail
            row = by_offset[one.delivered_offset]
            if one.pulled_by and one.pulled_us and ("taken", row.log_offset) not in known:
                events.append(self._lives.taken(row, one.pulled_by, one.pulled_us))
                if one.acked_us and ("acknowledged", row.log_offset) not in known:
                    events.append(self._lives.acknowledged(row, one.pulled_by, one.acked_us))
        for fault, next_offset in zip(history.faults, fault_offsets, strict=True):
            events.append(self._lives.of_fault(rows[-1], fault, next_offset))
        # At the same instant, ``due`` comes before the fault that holds the message.
        return sorted(
            events, key=lambda event: (event.at_us, event.kind not in ("parked", "due"), event.order)
        )


def _is_local(ip: str) -> bool:
    """Whether this is an IPv4 address of this machine."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
        return True
