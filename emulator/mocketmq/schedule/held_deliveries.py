"""Due messages held by a fault, a lateness recording or a broker that is down, and repeats by faults.

A delay scheme passes each due message to :meth:`HeldDeliveries.catch`. If a rule matches, the delivering
transaction writes a row of ``held_deliveries`` instead of the message. A kill therefore neither loses nor
repeats the message, and a restart does not deliver it earlier. The class is itself a delay scheme, so held
messages can be listed, cancelled and forced like all pending messages.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mocketmq.clock import LATEST_US
from mocketmq.errors import NotPendingError, StoreError
from mocketmq.faults.injector import FaultInjector
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.schedule.delivery import skip_undeliverable
from mocketmq.schedule.ledger import DueMessage, LedgerWriter
from mocketmq.schedule.scheme import ALL_PENDING, EndOfWait, PendingFigures, PendingFilter, TopicLookup
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.messages import NO_LIMIT, first_messages
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store
from mocketmq.store.writer import MAX_BATCH_BYTES

if TYPE_CHECKING:
    from mocketmq.schedule.lateness_playback import Playback

READ_AHEAD: Final = 256
RECORDED: Final = "recorded lateness"
"""Cause named in the ledger. Because of the space, no fault rule can have the same name."""

_COLUMNS: Final = (
    "held, release_us, fault, is_repeat, record_offset, parked_offset, queue_key, scheme, level,"
    " stored_us, due_us, size"
)
_HOLD: Final = f"INSERT INTO held_deliveries ({_COLUMNS}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_RELEASED: Final = (
    f"SELECT {_COLUMNS} FROM held_deliveries WHERE release_us <= ? ORDER BY release_us, held LIMIT ?"
)
_COUNTS: Final = "SELECT fault, count(*) FROM held_deliveries GROUP BY fault"
_DONE: Final = "DELETE FROM held_deliveries WHERE held = ?"
_OVERDUE: Final = (
    "SELECT coalesce(level, 0), fault, count(*), min(due_us) FROM held_deliveries WHERE NOT is_repeat"
    " GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"
)
_BY_QUEUE: Final = "SELECT queue_key, count(*) FROM held_deliveries WHERE NOT is_repeat GROUP BY 1"
_FIRST: Final = "SELECT min(release_us) FROM held_deliveries"
_ALL: Final = "SELECT record_offset, fault, release_us FROM held_deliveries WHERE NOT is_repeat"
_END_REPEATS: Final = "DELETE FROM held_deliveries WHERE fault = ? AND is_repeat"
_END_REPEATS_IN: Final = "DELETE FROM held_deliveries WHERE queue_key = ? AND is_repeat"
_END_REPEATS_OF: Final = (
    "DELETE FROM held_deliveries WHERE is_repeat AND queue_key IN (SELECT key FROM queues WHERE topic = ?)"
)
_POSTPONE: Final = "UPDATE held_deliveries SET fault = ?, release_us = NULL WHERE held = ?"
_RELEASE: Final = "UPDATE held_deliveries SET release_us = max(?, due_us) WHERE fault = ?"
"""No release before the due time, because the process that held them may have died during a clock move."""
_FORGET: Final = "DELETE FROM held_deliveries WHERE record_offset = ?"
_INTERVENE: Final = "INSERT INTO interventions VALUES (?, ?, ?)"
_PAGE: Final = """
SELECT m.log_offset, length(m.body) FROM messages m JOIN held_deliveries h ON h.record_offset = m.log_offset
JOIN queues q ON q.key = h.queue_key
WHERE NOT h.is_repeat AND m.log_offset > ?1 AND (?2 IS NULL OR q.topic = ?2)
AND (?3 IS NULL OR h.level = ?3) AND (NOT ?4 OR h.level IS NULL)
ORDER BY m.log_offset LIMIT ?5"""
_FIRST_DUE: Final = """
SELECT m.log_offset, length(m.body) FROM messages m JOIN held_deliveries h ON h.record_offset = m.log_offset
WHERE NOT h.is_repeat AND h.level IS NULL ORDER BY m.due_us, m.log_offset LIMIT ?"""


class Held(NamedTuple):
    """A row of the table. The message is delivered at ``release_us`` (emulated) or when its rule ends."""

    held: int
    release_us: int | None
    fault: str
    is_repeat: int
    record_offset: int  # log offset of the record with the content
    parked_offset: int  # as in the ledger
    queue_key: int
    scheme: str
    level: int | None
    stored_us: int
    due_us: int
    size: int


class QueueBrokers(Protocol):
    """Tells which broker of the cluster has a queue. ``down`` is empty while all of them run."""

    down: frozenset[int]

    def name_of(self, queue: Queue) -> str:
        """The name of the queue's broker."""

    def downtime(self, queue: Queue) -> str | None:
        """The downtime that holds deliveries to the queue, as the ledger names it, or None."""


class HeldBy(NamedTuple):
    """Number of messages that a fault rule holds past their due time, and the earliest of their due times."""

    fault: str
    messages: int
    oldest_us: int


def _row_of(message: DueMessage, scheme: str, fault: str, record_offset: int, size: int) -> Held:
    """Make the row of a message that is not a repeat, still without ``release_us``."""
    return Held(
        *(0, None, fault, 0, record_offset, message.parked_offset, message.queue.key),
        *(scheme, message.level, message.stored_us, message.due_us, size),
    )


class HeldDeliveries:
    """A :class:`~mocketmq.schedule.scheme.DelayScheme` of held messages."""

    name = "held"

    def __init__(
        self,
        store: Store,
        faults: FaultRules,
        ledger: LedgerWriter,
        topics: TopicLookup,
        changed: Callable[[], None],
        brokers: QueueBrokers,
        playback: "Playback | None" = None,
    ) -> None:
        self.delivered = 0
        self.early = 0
        self._playback = playback
        self._brokers = brokers
        self._clock = store.clock
        self._database = store.database
        self._faults = faults
        self._ledger = ledger
        self._queue_of = topics.queue
        self._parked_queue = topics.get(TIMER_TOPIC).queues[0]
        self._level_queues = topics.levels
        self._changed = changed
        self._records: dict[int, str] = {}  # rule that holds a message, by record; without repeats
        self._next_us: int | None = None
        self._changes = 0  # of the held messages or their instants
        self._last_us: dict[str, int] = {}  # the latest release by rule
        faults.while_removed.append(lambda batch, fault: self.release(batch, fault.name))

    async def load(self) -> None:
        """Load the messages held when the broker stopped."""
        for record_offset, fault, release_us in await self._database.rows(_ALL):
            self._records[record_offset] = fault
            self._last_us[fault] = max(self._last_us.get(fault, 0), release_us or 0)
        await self._look()

    async def reload(self) -> None:
        """Load the held messages again from a restored store."""
        self._records.clear()
        self._last_us.clear()
        await self.load()

    async def _look(self) -> None:
        """Read the next instant. If a hold or a release changes it meanwhile, it is read again."""
        changes = self._changes
        [(next_us,)] = await self._database.rows(_FIRST)
        self._next_us = next_us if changes == self._changes else 0

    # Hold

    def catch(
        self, batch: Batch, scheme: str, message: DueMessage, content: Draft | int, fires_us: int
    ) -> int | None:
        """Hold a due message if a rule, the recording or its broker requires it. Return its record.

        Returns None if the message is not held, for example because the rule only schedules repeats.
        """
        if self._brokers.down and (downtime := self._brokers.downtime(message.queue)) is not None:
            record_offset, size = self._record(batch, message, content)
            self._hold(batch, [_row_of(message, scheme, downtime, record_offset, size)])
            return record_offset
        for fault in self._faults.of_deliveries:
            broker = self._brokers.name_of(message.queue)
            if not fault.matches_delivery(broker, message.queue.topic, message.level):
                continue
            batch.on_rollback(partial(fault.recount, fault.matched, fault.fired))
            if fault.fires(fires_us):
                last_us = self._last_us.get(fault.name, 0)
                batch.on_rollback(partial(self._last_us.__setitem__, fault.name, last_us))
                record = self._inject(batch, fault, scheme, message, content, fires_us)
                self._faults.count(batch, fault)
                return record
        return self._play_back(batch, scheme, message, content, fires_us)

    def _play_back(
        self, batch: Batch, scheme: str, message: DueMessage, content: Draft | int, fires_us: int
    ) -> int | None:
        if self._playback is None:
            return None
        release_us = message.due_us + self._playback.draw_us(message.level)
        batch.on_rollback(partial(self._playback.take_back, message.level))
        if release_us <= fires_us:
            return None
        record_offset, size = self._record(batch, message, content)
        row = _row_of(message, scheme, RECORDED, record_offset, size)
        self._hold(batch, [row._replace(release_us=release_us)])
        return record_offset

    def _inject(
        self,
        batch: Batch,
        fault: FaultInjector,
        scheme: str,
        message: DueMessage,
        content: Draft | int,
        fires_us: int,
    ) -> int | None:
        repeats = fault.repeats
        instants = [self._release_us(fault, fires_us)]
        if repeats:
            instants = [fires_us + number * fault.draw_us() for number in range(1, repeats + 1)]
        elif instants[0] is not None and instants[0] <= fires_us:
            fault.fired -= 1  # the rule does not delay the message, so it has not fired
            return None
        record_offset, size = self._record(batch, message, content)
        self._faults.record_delivery(batch, fault, fires_us, record_offset)
        row = _row_of(message, scheme, fault.name, record_offset, size)._replace(is_repeat=int(bool(repeats)))
        self._hold(batch, [row._replace(release_us=release_us) for release_us in instants])
        return None if repeats else record_offset

    def _record(self, batch: Batch, message: DueMessage, content: Draft | int) -> tuple[int, int]:
        """Return the log offset of the record with the content, and the size of its body."""
        if isinstance(content, int):
            return message.parked_offset, content
        parked = batch.append(
            self._parked_queue, content, "held", due_us=message.due_us, real_queue_key=message.queue.key
        )
        return parked.log_offset, len(content.body)

    def _hold(self, batch: Batch, held: Sequence[Held]) -> None:
        """Store rows of one message: either the message itself, or its repeats."""
        for row in held:
            batch.execute(_HOLD, row[1:])
            if row.release_us is not None:
                batch.until_us = min(batch.until_us, row.release_us)
        first_us = min((each.release_us for each in held if each.release_us is not None), default=None)
        batch.on_commit(partial(self._has_held, held[0], first_us))
        batch.undelivered += not held[0].is_repeat

    def hold_again(
        self, batch: Batch, message: DueMessage, scheme: str, record_offset: int, size: int
    ) -> None:
        """Hold a message whose delivery a crash has undone, until its broker starts again."""
        downtime = self._brokers.downtime(message.queue)
        assert downtime is not None  # noqa: S101 - the broker has crashed
        self._hold(batch, [_row_of(message, scheme, downtime, record_offset, size)])

    def _release_us(self, fault: FaultInjector, fires_us: int) -> int | None:
        kind, last_us = fault.rule.do, self._last_us.get(fault.name, 0)
        if kind == "hold":
            return fault.to_us if fault.to_us <= LATEST_US else None
        release_us = fires_us + fault.draw_us()
        if kind == "throttle":
            release_us = max(fires_us, last_us + fault.interval_us)
        elif kind == "deliver-late":  # never overtakes a message held earlier
            release_us = max(release_us, last_us)
        self._last_us[fault.name] = release_us
        return release_us

    def _has_held(self, row: Held, first_us: int | None) -> None:
        self._changes += 1
        if not row.is_repeat:
            self._records[row.record_offset] = row.fault
        if first_us is not None:
            self._next_us = first_us if self._next_us is None else min(self._next_us, first_us)
        self._changed()

    def release(self, batch: Batch, name: str) -> None:
        """Release the messages held under this name, as their rule or downtime has ended. Drop repeats."""
        batch.sweep(_END_REPEATS, (name,))
        batch.sweep(_RELEASE, (batch.now_us, name))

        def released() -> None:
            self._changes += 1
            self._last_us.pop(name, None)
            if self._records or self._next_us is not None:
                self._next_us = 0  # unknown until the table is read
                self._changed()

        batch.on_commit(released)

    def drop_repeats(self, batch: Batch, queue: Queue) -> None:
        """Drop the outstanding repeats of the queue's messages."""
        batch.sweep(_END_REPEATS_IN, (queue.key,))

    # Due releases

    def next_due_us(self) -> int | None:
        return self._next_us

    def next_delivery_us(self) -> int | None:
        return self._next_us

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        rows = [Held._make(row) for row in await self._database.rows(_RELEASED, (until_us, READ_AHEAD))]
        picked_us = self._clock.now_us()
        yield partial(self._due_now, rows, picked_us)
        with suppress(StoreError):  # the deliveries are committed, and the next call reads again
            await self._look()

    def _due_now(self, rows: Sequence[Held], picked_us: int) -> Iterator[Due]:
        instant_us = 0
        for row in rows:
            instant_us = row.release_us or 0
            yield Due(instant_us, partial(self._deliver, row, picked_us), delivers=1)
        if len(rows) == READ_AHEAD:
            yield Due(instant_us, None)

    def _deliver(self, row: Held, picked_us: int, batch: Batch) -> None:
        try:
            queue = self._queue_of(row.queue_key)
        except KeyError:  # in a store that was damaged
            skip_undeliverable(batch, row.record_offset, row.queue_key)
            batch.execute(_DONE, (row.held,))
            batch.on_commit(partial(self._forget, [] if row.is_repeat else [row.record_offset]))
            return
        if (downtime := self._brokers.downtime(queue)) is not None:
            self._postpone(batch, row, downtime)
            return
        log_offset = batch.copy(queue, row.record_offset, row.size)
        message = DueMessage(queue, row.parked_offset, row.level, row.stored_us, row.due_us)
        picked_us = max(picked_us, row.release_us or 0)
        self._ledger.record(batch, log_offset, message, row.scheme, picked_us, fault=row.fault)
        batch.execute(_DONE, (row.held,))
        batch.on_commit(partial(self._has_delivered, row))

    def _postpone(self, batch: Batch, row: Held, downtime: str) -> None:
        """Hold a released message once more, because its broker is down. A repeat is dropped."""
        if row.is_repeat:
            batch.execute(_DONE, (row.held,))
            return
        batch.execute(_POSTPONE, (downtime, row.held))
        batch.on_commit(partial(self._records.__setitem__, row.record_offset, downtime))

    def _has_delivered(self, row: Held) -> None:
        self.delivered += 1
        if not row.is_repeat:
            self._records.pop(row.record_offset, None)

    # Pending messages

    @property
    def pending(self) -> int:
        """Number of held messages, without repeats."""
        return len(self._records)

    async def counts(self) -> dict[str, int]:
        """Number of held deliveries by rule name, including repeats."""
        rows: list[tuple[str, int]] = await self._database.rows(_COUNTS)
        return dict(rows)

    async def by_queue(self) -> list[tuple[int, int]]:
        """Number of held messages, by the key of their target queue."""
        return list(await self._database.rows(_BY_QUEUE)) if self._records else []

    async def overdue(self) -> dict[int, list[HeldBy]]:
        """Held messages by level, then by rule, the most messages first. Level 0 has absolute due times."""
        found: dict[int, list[HeldBy]] = {}
        for level, *held in await self._database.rows(_OVERDUE) if self._records else []:
            found.setdefault(level, []).append(HeldBy(*held))
        return found

    def held_by(self, parked: StoredMessage) -> str | None:
        """The name of the rule that holds the message, if any."""
        return self._records.get(parked.log_offset) if parked.due_us is not None else None

    def holder_of(self, record_offset: int) -> str | None:
        """The name of the rule or downtime that holds the message with this record, if any."""
        return self._records.get(record_offset)

    def figures(self) -> Sequence[PendingFigures]:
        """One row if any message is held, otherwise none."""
        return [PendingFigures(self.name, None, self.pending, self._next_us, None)] if self._records else []

    def holds(self, parked: StoredMessage) -> bool:
        return self.held_by(parked) is not None

    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        if not self._records:
            return []
        rows = await self._database.rows(_PAGE, (after, *which, limit))
        return await first_messages(self._database, rows, max_bytes)

    async def first_due(self, limit: int) -> list[StoredMessage]:
        """The first ``limit`` held messages without a level, by due time. Large bodies end the list early."""
        if not self._records:
            return []
        rows = await self._database.rows(_FIRST_DUE, (limit,))
        return await first_messages(self._database, rows, MAX_BATCH_BYTES)

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """All parked records while any message is held, because any of them may be its record."""
        if not self._records and self._next_us is None:
            return []
        return [(queue, queue.min_offset) for queue in (*self._level_queues(), self._parked_queue)]

    # Cancel and force

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage], why: EndOfWait = "cancelled") -> int:
        return self.cancel_records(batch, (one.log_offset for one in messages if self.holds(one)), why)

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Look up the topic's held messages, and return the work that cancels them and drops repeats."""
        found = await self.page(-1, max(1, self.pending), PendingFilter(topic))

        def work(batch: Batch) -> int:
            batch.sweep(_END_REPEATS_OF, (topic,))
            return self.cancel(batch, found)

        return work

    def cancel_records(self, batch: Batch, record_offsets: Iterable[int], why: EndOfWait) -> int:
        """Cancel the held messages of these records, and return how many there were."""
        offsets = set(record_offsets)
        for offset in offsets:
            batch.execute(_FORGET, (offset,))
            batch.execute(_INTERVENE, (offset, why, batch.now_us))
        batch.on_commit(partial(self._forget, offsets))
        return len(offsets)

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        if parked.due_us is None or parked.real_queue_key is None:
            raise NotPendingError(f"message {parked.unique_key} is not a delayed message")
        queue = self._queue_of(parked.real_queue_key)
        log_offset = batch.copy(queue, parked.log_offset, len(parked.body))
        message = DueMessage(queue, parked.log_offset, None, parked.store_us, parked.due_us)
        self._ledger.record(batch, log_offset, message, self.name, batch.now_us, forced=True)
        batch.execute(_FORGET, (parked.log_offset,))
        batch.execute(_INTERVENE, (parked.log_offset, "forced", batch.now_us))
        batch.on_commit(partial(self._forget, [parked.log_offset]))

    def _forget(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._records.pop(offset, None)

    def clear(self, batch: Batch) -> None:
        batch.sweep("DELETE FROM held_deliveries")

        def forget() -> None:
            self._changes += 1
            self._records.clear()
            self._last_us.clear()
            self._next_us = None
            if self._playback is not None:
                self._playback.begin_again()

        batch.on_commit(forget)
