"""List delayed messages that wait for their due time, cancel them, and deliver them now."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from mocketmq.broker.inspection.history import Histories
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import whole_ms_us
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import log_offset_of
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.scheme_set import SchemeSet, not_pending
from mocketmq.schedule.timer import Timer

_PAGE: Final = 500
"""Messages that are cancelled or delivered by hand in one transaction."""


class PendingMessage(NamedTuple):
    """A parked message, and its level if it has one."""

    message: StoredMessage
    level: int | None


class PendingMessages:
    """The pending messages of all delay schemes."""

    def __init__(
        self,
        timer: Timer,
        topics: Topics,
        schemes: SchemeSet,
        histories: Histories,
    ) -> None:
        self._timer = timer
        self._topics = topics
        self._schemes = schemes
        self._histories = histories

    @property
    def count(self) -> int:
        """How many messages are pending."""
        return self._schemes.pending

    @property
    def next_due_us(self) -> int | None:
        """When the next message becomes visible; None when nothing is pending."""
        return self._schemes.next_delivery_us()

    async def list(
        self,
        *,
        topic: str | None = None,
        level: int | None = None,
        timed: bool = False,
        after: int = -1,
        limit: int = 100,
    ) -> list[PendingMessage]:
        """Pending messages numbered above ``after``, of one topic or level; ``timed``: outside of the store.

        In order of their numbers: those with levels first, each scheme's in order of arrival. Committed half
        messages with an absolute due time are among the former. Raises TopicNotFoundError.
        """
        if topic is not None:
            self._topics.get(topic)
        found = await self._page(after, limit, topic, level, timed)
        return [self._describe(message) for message in found]

    async def _page(
        self, after: int, limit: int, topic: str | None, level: int | None, timed: bool
    ) -> Sequence[StoredMessage]:
        if timed:
            return await self._schemes.outside(after, limit, topic=topic)
        return await self._schemes.page(after, limit, topic=topic, level=level)

    async def cancel_all(self, topic: str | None, level: int | None, timed: bool) -> int:
        """Never deliver what waits now, of one topic or level, as :meth:`list`; how many."""
        return await self._with_all(self._schemes.cancel_all, topic, level, timed)

    async def deliver_all(self, topic: str | None, level: int | None, timed: bool) -> int:
        """Deliver at once what waits now, of one topic or level, as :meth:`list`; how many."""
        return await self._with_all(self._schemes.force_all, topic, level, timed)

    async def _with_all(
        self,
        act: Callable[[Sequence[StoredMessage]], Awaitable[int]],
        topic: str | None,
        level: int | None,
        timed: bool,
    ) -> int:
        """Page by page, so that sends and deliveries get their turn. What arrives meanwhile may stay."""
        if topic is not None:
            self._topics.get(topic)
        count, after, left = 0, -1, self.count
        while left > 0:
            async with self._timer.intervention():
                page = await self._page(after, min(left, _PAGE), topic, level, timed)
                if not page:
                    break
                count += await act(page)
            after = page[-1].log_offset
            left -= len(page)
        return count

    async def cancel(self, message_id: str) -> PendingMessage:
        """Never deliver the message. Raises MessageNotFoundError, NotPendingError."""
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
        """Cancel what waits for the topic with this unique key and this due time, in whole ms, rounded up.

        Raises NotPendingError when nothing does.
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
        named = log_offset_of(message_id)  # of several messages with one unique key
        for record in sorted(records, key=lambda record: record.log_offset != named):
            if record.due_us is not None and self._schemes.holding(record):
                return record
        raise not_pending(message_id)

    def _describe(self, message: StoredMessage) -> PendingMessage:
        queue = self._topics.queue(message.queue_key)
        return PendingMessage(message, queue.queue_id + 1 if queue.topic == SCHEDULE_TOPIC else None)
