"""Delayed messages that still wait for their due time: list them, cancel them, deliver them now."""

from collections.abc import Sequence
from typing import NamedTuple

from emulator.broker.lives import Lives
from emulator.broker.topics import Topics
from emulator.clock import Clock
from emulator.errors import NotPendingError
from emulator.message import StoredMessage, commit_offset_of
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.timer import Timer
from emulator.store.database import Database
from emulator.store.queues import Queue


class PendingMessage(NamedTuple):
    """A parked message, its level, and where it will go."""

    message: StoredMessage
    level: int
    real_queue: Queue


class LevelState(NamedTuple):
    """One row of the level table. Instants in emulated microseconds."""

    level: int
    delay_us: int
    pending: int
    delay_offset: int
    max_offset: int
    next_due_us: int | None
    oldest_overdue_us: int | None  # due time of the oldest message that should have been delivered


class PendingMessages:
    """What waits, in all delay schemes."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        timer: Timer,
        topics: Topics,
        levels: LevelQueues,
        lives: Lives,
    ) -> None:
        self._database = database
        self._clock = clock
        self._timer = timer
        self._topics = topics
        self._levels = levels
        self._lives = lives

    @property
    def count(self) -> int:
        """How many messages wait."""
        return sum(level.pending for level in self._levels.levels)

    @property
    def next_due_us(self) -> int | None:
        """When the next of them becomes visible; None when nothing waits."""
        return self._levels.next_delivery_us()

    def levels(self) -> list[LevelState]:
        """The level table, and the levels that are no longer in it but still hold messages."""
        now_us = self._clock.now_us()
        states = []
        for level in self._levels.levels:
            if level.number > self._levels.table.highest and not level.pending:
                continue
            due_us = level.ahead[0].due_us if level.ahead else None
            overdue_us = due_us if due_us is not None and due_us < now_us else None
            states.append(
                LevelState(
                    level.number,
                    level.delay_us,
                    level.pending,
                    level.next_offset,
                    level.queue.next_offset,
                    due_us,
                    overdue_us,
                )
            )
        return states

    async def list(
        self, *, topic: str | None = None, level: int | None = None, after: int = -1, limit: int = 100
    ) -> list[PendingMessage]:
        """Pending messages with a commit offset above ``after``, oldest first, of one topic or level."""
        conditions = ["m.commit_offset > ?", "i.parked_offset IS NULL"]
        parameters: list[object] = [after]
        ranges = []
        for one in self._levels.levels:
            if one.pending and level in (None, one.number):
                ranges.append("(m.queue_key = ? AND m.queue_offset >= ?)")
                parameters += [one.queue.key, one.next_offset]
        if not ranges:
            return []
        conditions.append(f"({' OR '.join(ranges)})")
        if topic is not None:
            keys = [queue.key for queue in self._topics.get(topic).queues]
            conditions.append(f"m.real_queue_key IN ({','.join('?' * len(keys))})")
            parameters += keys
        rows = await self._database.rows(
            "SELECT m.* FROM messages m LEFT JOIN interventions i ON i.parked_offset = m.commit_offset"
            f" WHERE {' AND '.join(conditions)} ORDER BY m.commit_offset LIMIT ?",
            [*parameters, limit],
        )
        return [self._describe(StoredMessage._make(row)) for row in rows]

    async def cancel(self, message_id: str) -> PendingMessage:
        """Never deliver the message. Raises MessageNotFoundError, NotPendingError."""
        records = await self._lives.records(message_id)
        async with self._timer.lock:
            found = self._waiting(message_id, records)
            await self._levels.cancel(found.message)
        return found

    async def deliver_now(self, message_id: str) -> PendingMessage:
        """Deliver the message at once. Raises MessageNotFoundError, NotPendingError."""
        records = await self._lives.records(message_id)
        async with self._timer.lock:
            found = self._waiting(message_id, records)
            await self._levels.force(found.message)
        return found

    def _waiting(self, message_id: str, records: Sequence[StoredMessage]) -> PendingMessage:
        named = commit_offset_of(message_id)  # should several messages bear one unique key
        for record in sorted(records, key=lambda record: record.commit_offset != named):
            if record.due_us is not None and self._levels.pending_level(record) is not None:
                return self._describe(record)
        raise NotPendingError(
            f"message {message_id} is not waiting for its due time:"
            " it was delivered, cancelled, or never delayed"
        )

    def _describe(self, message: StoredMessage) -> PendingMessage:
        level_queue, real_queue = (
            self._topics.queue(message.queue_key),
            self._topics.queue(message.real_queue_key or 0),
        )
        return PendingMessage(message, level_queue.queue_id + 1, real_queue)
