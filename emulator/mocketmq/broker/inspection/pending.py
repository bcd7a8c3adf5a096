"""Lists pending delayed messages, cancels them, or delivers them now."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import whole_ms_us
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.scheme import PendingFilter
from mocketmq.schedule.scheme_set import SchemeSet, not_pending
from mocketmq.schedule.timer import Timer
from mocketmq.store.messages import NO_LIMIT
from mocketmq.store.writer import MAX_BATCH_BYTES

_PAGE: Final = 500
"""Maximum number of messages that are cancelled or delivered by hand in one transaction."""


class PendingMessage(msgspec.Struct, frozen=True):
    """A parked message, its level if any, and the fault rule that holds it past its due time, if any."""

    message: StoredMessage
    level: int | None
    fault: str | None


@dataclass(eq=False, repr=False)
class PendingMessages:
    """The pending messages of all delay schemes."""

    _timer: Timer
    _topics: Topics
    _schemes: SchemeSet
    _held: HeldDeliveries
    _histories: Histories

    @property
    def count(self) -> int:
        return self._schemes.pending

    @property
    def next_due_us(self) -> int | None:
        """The instant at which the next message becomes visible; None without pending messages."""
        return self._schemes.next_delivery_us()

    async def list(
        self,
        *,
        topic: str | None = None,
        level: int | None = None,
        timed: bool = False,
        after: int = -1,
        limit: int = 100,
        max_bytes: int = NO_LIMIT,
    ) -> list[PendingMessage]:
        """Pending messages numbered above ``after``, of one topic or level.

        ``timed`` selects messages outside of the store, and messages without a level that a fault holds. The
        order is by number: messages with log offsets first, including those with levels and committed half
        messages with an absolute due time, then the others by arrival. The list ends when its bodies
        reach ``max_bytes`` in total. Raises TopicNotFoundError.
        """
        if topic is not None:
            self._topics.get(topic)
        which = PendingFilter(topic, None if timed else level, timed)
        found = await self._schemes.page(after, limit, which, max_bytes)
        return [self._describe(message) for message in found]

    async def first_due(self, limit: int) -> Sequence[PendingMessage]:
        """The first ``limit`` messages with an absolute due time, by due time, held ones included."""
        held = await self._held.first_due(limit)
        found = [*held, *await self._schemes.first_due_outside(limit)]
        found.sort(key=lambda message: (message.due_us or 0, message.log_offset))
        return [self._describe(message) for message in found[:limit]]

    async def cancel_all(self, which: PendingFilter) -> int:
        """Cancel the messages pending now. Returns how many were cancelled. Raises TopicNotFoundError."""
        return await self._with_all(self._schemes.cancel_all, which)

    async def deliver_all(self, which: PendingFilter) -> int:
        """Deliver the messages pending now. Returns how many were delivered. Raises TopicNotFoundError."""
        return await self._with_all(self._schemes.force_all, which)

    async def _with_all(
        self, act: Callable[[Sequence[StoredMessage]], Awaitable[int]], which: PendingFilter
    ) -> int:
        """Act page by page, so that sends and deliveries get their turn. May miss messages sent meanwhile."""
        if which.topic is not None:
            self._topics.get(which.topic)
        count, after, left = 0, -1, self.count
        while left > 0:
            async with self._timer.intervention():
                page = await self._schemes.page(after, min(left, _PAGE), which, MAX_BATCH_BYTES)
                if not page:
                    break
                count += await act(page)
            after = page[-1].log_offset
            left -= len(page)
        return count

    async def cancel(self, message_id: str) -> PendingMessage:
        """Cancel the message. Raises MessageNotFoundError, NotPendingError."""
        records = await self._histories.records(message_id)
        async with self._timer.intervention():
            message = self._waiting(message_id, records)
            await self._schemes.cancel([message])
        return self._describe(message)

    async def deliver_now(self, message_id: str) -> PendingMessage:
        """Deliver the message at once. Raises MessageNotFoundError, NotPendingError."""
        records = await self._histories.records(message_id)
        async with self._timer.intervention():
            message = self._waiting(message_id, records)
            await self._schemes.force(message)
        return self._describe(message)

    async def recall(self, topic: str, unique_key: str, due_us: int) -> None:
        """Cancel the topic's pending messages with this unique key and due time (rounded up to whole ms).

        Raises NotPendingError if there are none.
        """
        try:
            records = await self._histories.records(unique_key)
        except MessageNotFoundError:
            records = []
        async with self._timer.intervention():
            waiting = [
                record
                for record in records
                if record.unique_key == unique_key
                and record.due_us is not None
                and record.real_queue_key is not None
                and whole_ms_us(record.due_us) == due_us
                and self._topics.queue(record.real_queue_key).topic == topic
                and self._schemes.holding(record)
            ]
            if not waiting:
                raise not_pending(unique_key)
            await self._schemes.cancel(waiting)

    def _waiting(self, message_id: str, records: Sequence[StoredMessage]) -> StoredMessage:
        named = log_offset_of(message_id)  # selects one of the messages with the same unique key
        for record in sorted(records, key=lambda record: record.log_offset != named):
            if record.due_us is not None and self._schemes.holding(record):
                return record
        raise not_pending(message_id)

    def _describe(self, message: StoredMessage) -> PendingMessage:
        queue = self._topics.queue(message.queue_key)
        level = queue.queue_id + 1 if queue.topic == SCHEDULE_TOPIC else None
        return PendingMessage(message, level, self._held.held_by(message))
