"""List delayed messages that wait for their due time, cancel them, and deliver them now."""

from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.broker.looking.history import Histories
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import Clock, whole_ms_us
from mocketmq.errors import MessageNotFoundError, NotPendingError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import commit_offset_of
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme import DelayScheme, TimedScheme, TimedState
from mocketmq.schedule.timer import Timer


class PendingMessage(NamedTuple):
    """A parked message, and its level if it has one."""

    message: StoredMessage
    level: int | None


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
        clock: Clock,
        timer: Timer,
        topics: Topics,
        levels: LevelQueues,
        timed: TimedScheme,
        histories: Histories,
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._topics = topics
        self._levels = levels
        self._timed = timed
        self._schemes: tuple[DelayScheme, ...] = (levels, timed)
        self._histories = histories

    @property
    def count(self) -> int:
        """How many messages wait."""
        return sum(scheme.pending for scheme in self._schemes)

    @property
    def next_due_us(self) -> int | None:
        """When the next of them becomes visible; None when nothing waits."""
        return min(
            (due for scheme in self._schemes if (due := scheme.next_delivery_us()) is not None), default=None
        )

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

    def timed(self) -> TimedState:
        """What waits for absolute due times."""
        return self._timed.state()

    async def list(
        self, *, topic: str | None = None, level: int | None = None, after: int = -1, limit: int = 100
    ) -> list[PendingMessage]:
        """Pending messages numbered above ``after``, of one topic or level.

        In order of their numbers: those with levels first, each scheme's in order of arrival. Committed half
        messages with an absolute due time are among the former. Raises TopicNotFoundError.
        """
        if topic is not None:
            self._topics.get(topic)
        found: list[StoredMessage] = []
        for scheme in self._schemes:
            found += await scheme.page(after, limit, topic=topic, level=level)
        found.sort(key=lambda message: message.commit_offset)
        return [self._describe(message) for message in found[:limit]]

    async def cancel(self, message_id: str) -> PendingMessage:
        """Never deliver the message. Raises MessageNotFoundError, NotPendingError."""
        records = await self._histories.records(message_id)
        async with self._timer.lock:
            scheme, message = self._waiting(message_id, records)
            await scheme.cancel(message)
        return self._describe(message)

    async def deliver_now(self, message_id: str) -> PendingMessage:
        """Deliver the message at once. Raises MessageNotFoundError, NotPendingError."""
        records = await self._histories.records(message_id)
        async with self._timer.lock:
            scheme, message = self._waiting(message_id, records)
            await scheme.force(message)
        return self._describe(message)

    async def recall(self, topic: str, unique_key: str, due_us: int) -> None:
        """Cancel what waits for the topic with this unique key and this due time, in whole ms, rounded up.

        Raises NotPendingError when nothing does.
        """
        try:
            records = await self._histories.records(unique_key)
        except MessageNotFoundError:
            records = []
        async with self._timer.lock:
            waiting = [
                (scheme, record)
                for record in records
                for scheme in self._schemes
                if record.unique_key == unique_key
                and record.due_us is not None
                and record.real_queue_key is not None
                and whole_ms_us(record.due_us) == due_us
                and self._topics.queue(record.real_queue_key).topic == topic
                and scheme.holds(record)
            ]
            if not waiting:
                raise _not_waiting(unique_key)
            for scheme, record in waiting:
                await scheme.cancel(record)

    def holds(self, message: StoredMessage) -> bool:
        """Whether the parked message still waits."""
        return any(scheme.holds(message) for scheme in self._schemes)

    def _waiting(
        self, message_id: str, records: Sequence[StoredMessage]
    ) -> tuple[DelayScheme, StoredMessage]:
        named = commit_offset_of(message_id)  # should several messages bear one unique key
        for record in sorted(records, key=lambda record: record.commit_offset != named):
            for scheme in self._schemes:
                if record.due_us is not None and scheme.holds(record):
                    return scheme, record
        raise _not_waiting(message_id)

    def _describe(self, message: StoredMessage) -> PendingMessage:
        queue = self._topics.queue(message.queue_key)
        return PendingMessage(message, queue.queue_id + 1 if queue.topic == SCHEDULE_TOPIC else None)


def _not_waiting(message_id: str) -> NotPendingError:
    return NotPendingError(
        f"message {message_id} is not waiting for its due time: it was delivered, cancelled, or never delayed"
    )
