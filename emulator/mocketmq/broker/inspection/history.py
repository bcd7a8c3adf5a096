"""The history of a message: its records, deliveries, interventions and receipts."""

import socket
from collections.abc import Sequence
from contextlib import closing
from typing import Literal, NamedTuple

import msgspec

from mocketmq.broker.consuming.ledger_notes import LedgerNotes
from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import host_of, log_offset_of
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.messages import NO_LIMIT, messages_at
from mocketmq.store.receipt_rows import receipts_of_messages
from mocketmq.store.store import Store

_BECAME = "SELECT log_offset FROM timed_messages WHERE number = ?"
_STRUCK = "SELECT at_us, fault, do, door, operation FROM fault_hits WHERE unique_key = ? ORDER BY rowid"


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
    """A parked message was `cancelled`, or delivered by hand (`forced`)."""

    parked_offset: int
    kind: Literal["cancelled", "forced"]
    at_us: int


class FaultRecord(msgspec.Struct, frozen=True):
    """A fault on purpose struck a request for the message, or its delivery, which has no `door`.

    `fault` is the rule's name, `do` its kind.
    """

    at_us: int
    fault: str
    do: str
    door: str
    operation: str


MessageState = Literal["pending", "delivered", "cancelled", "stored"]
"""A delayed message is ``pending``, then ``delivered`` or ``cancelled``; any other one is ``stored``."""


class History(NamedTuple):
    """All records with one unique key, in the order in which they were stored, and what became of them."""

    state: MessageState
    """Of the newest record."""
    records: list[StoredMessage]
    deliveries: list[DeliveryRecord]
    interventions: list[InterventionRecord]
    receipts: list[ReceiptRecord]
    faults: list[FaultRecord]


class Histories:
    """Looks messages up by id or key, without consuming them."""

    def __init__(
        self, store: Store, topics: Topics, schemes: SchemeSet, keys: MessageKeys, notes: LedgerNotes
    ) -> None:
        self._store_host = store.writer.store_host
        self._database = store.database
        self._schemes = schemes
        self._topics = topics
        self._keys = keys
        self._notes = notes

    async def records(self, message_id: str) -> list[StoredMessage]:
        """Every record of a message, oldest first, by its unique key or the id of any of its records.

        A message that was delayed or retried has several. Raises MessageNotFoundError.
        """
        unique_key = message_id
        log_offset = log_offset_of(message_id)
        if log_offset is not None:
            named = await self._find_at(log_offset)
            if named and self._is_ours(host_of(message_id), named):
                unique_key = named.unique_key
        # Pending ones first: what is delivered meanwhile is then found twice, rather than not at all.
        waiting = await self._schemes.find(unique_key)
        stored = await self._keys.with_unique_key(unique_key)
        found = stored + [one for one in waiting if self._schemes.holding(one)] or waiting
        if not found:
            raise MessageNotFoundError(f"no message has the id {message_id[:80]!r}; it may have been removed")
        return found

    def _is_ours(self, host: str, named: StoredMessage) -> bool:
        """Whether clients reach the broker at this ``host:port``, or did when the message was stored.

        Each client is told the address by which it came in, so any of this machine's may be meant.
        """
        ip, _, port = host.rpartition(":")
        ours = [one.rpartition(":") for one in (self._store_host, named.store_host)]
        return port in [port for _, _, port in ours] and (ip in [ip for ip, _, _ in ours] or _is_local(ip))

    async def at(self, log_offset: int) -> StoredMessage:
        """The record at a log offset, waiting or not. Raises MessageNotFoundError."""
        found = await self._find_at(log_offset)
        if found is None:
            raise MessageNotFoundError(f"can not find message by the offset, {log_offset}")
        return found

    async def _find_at(self, log_offset: int) -> StoredMessage | None:
        """The record; for the number of a message from a delay scheme, the record that it became."""
        if waiting := await self._schemes.numbered(log_offset):
            return waiting
        named = await messages_at(self._database, [log_offset])
        if not named and (became := await self._database.rows(_BECAME, (log_offset,))):
            named = await messages_at(self._database, became[0])
        return next(iter(named.values()), None)

    async def query(
        self,
        topic_name: str,
        key: str,
        limit: int,
        from_us: int,
        to_us: int,
        max_bytes: int = NO_LIMIT,
    ) -> list[StoredMessage]:
        """The newest messages of a topic with this unique key, or the key among their ``KEYS``, oldest first.

        Bodies of those in the store have up to ``max_bytes`` together, unless the newest alone has more.
        Stored from ``from_us`` to ``to_us``, both included. Pending messages are in the broker's own topics;
        those with an absolute due time are found by their unique key only.
        """
        topic = self._topics.find(topic_name)
        queue_keys = {queue.key for queue in topic.queues} if topic else set()

        def is_wanted(record: StoredMessage) -> bool:
            return record.queue_key in queue_keys and from_us <= record.store_us <= to_us

        waiting = [one for one in await self._schemes.find(key) if is_wanted(one)]
        stored = await self._keys.newest(key, limit, is_wanted, max_bytes)
        return (stored + waiting)[-limit:]

    async def by_key(
        self, key: str, topic: str | None = None, limit: int = 64, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Messages with the key among their ``KEYS``, oldest first, of one topic or all.

        Their bodies have up to ``max_bytes`` together, unless the first alone has more.
        """
        if topic is None:
            return await self._keys.with_key(key, limit, None, max_bytes)
        found = self._topics.find(topic)
        queue_keys = {queue.key for queue in found.queues} if found else set[int]()
        return await self._keys.with_key(key, limit, queue_keys, max_bytes)

    async def of(self, message_id: str) -> History:
        """The history of a message. Raises MessageNotFoundError."""
        await self._notes.written()
        records = await self.records(message_id)
        offsets = [record.log_offset for record in records]
        marks = ",".join("?" * len(offsets))
        deliveries = await self._database.rows(
            "SELECT delivered_offset, parked_offset, scheme, stored_us, due_us, picked_us, delivered_us,"
            " forced, pulled_us, pulled_by, acked_us, fault FROM deliveries"
            f" WHERE delivered_offset IN ({marks}) ORDER BY 1",
            offsets,
        )
        rows = await self._database.rows(
            f"SELECT * FROM interventions WHERE parked_offset IN ({marks}) ORDER BY 1",
            offsets,
        )
        interventions = [InterventionRecord(*row) for row in rows]
        struck = await self._database.rows(_STRUCK, (records[0].unique_key,))
        receipts = await receipts_of_messages(self._database, offsets)
        return History(
            self._state(records[-1], interventions),
            records,
            [DeliveryRecord(*row) for row in deliveries],
            interventions,
            [ReceiptRecord(*row) for row in receipts],
            [FaultRecord(*row) for row in struck],
        )

    def _state(self, newest: StoredMessage, interventions: Sequence[InterventionRecord]) -> MessageState:
        if newest.due_us is None:
            return "stored" if newest.parked_offset is None else "delivered"
        if self._schemes.holding(newest):
            return "pending"
        kinds = {each.kind for each in interventions if each.parked_offset == newest.log_offset}
        return "cancelled" if "cancelled" in kinds else "delivered"


def _is_local(ip: str) -> bool:
    """Whether it is an IPv4 address of this machine."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
        return True
