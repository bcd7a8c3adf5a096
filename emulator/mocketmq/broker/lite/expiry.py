"""Expiry of lite topics without new messages (AbstractLiteLifecycleManager of 5.5.0).

A lite topic expires as a whole, even if groups have not received all its messages. RocketMQ checks every two
minutes; here the timer deletes the lite topic exactly on expiry, also during a clock move.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import Final

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import US_PER_S
from mocketmq.schedule.timer import BATCH, Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.counters import SAVE_NEXT_LOG_OFFSET
from mocketmq.store.queue import LiteQueue

LEAST_US: Final = 900 * US_PER_S
"""Minimum time after which a lite topic expires, whatever its parent's setting (minLiteTTl)."""

# Groups are named because the primary key of receipts begins with the group. Receipts are deleted before the
# messages, which identify their rows.
_DELETE_RECEIPTS: Final = (
    "DELETE FROM receipts WHERE group_name IN (SELECT name FROM groups)"
    " AND log_offset IN (SELECT log_offset FROM messages WHERE queue_key = ?)"
)
_DELETE_MESSAGES: Final = "DELETE FROM messages WHERE queue_key = ?"


class LiteExpiry:
    """Deletes lite topics. As a due source, it deletes those that have expired."""

    def __init__(self, topics: Topics, groups: ConsumingGroups) -> None:
        self._topics = topics
        self._groups = groups

    def delete(self, batch: Batch, queues: Sequence[LiteQueue]) -> None:
        """Delete lite topics, their messages, and every group's state in them, in this transaction."""
        for queue in queues:
            self._topics.lites.delete(batch, queue)
            batch.execute(_DELETE_RECEIPTS, (queue.key,))
            batch.execute(_DELETE_MESSAGES, (queue.key,))
        self._groups.leave_lite_topics(batch, queues)
        batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))

    def expires_us(self, queue: LiteQueue) -> int | None:
        """The instant at which the lite topic expires without a new message; None if it never does."""
        parent = self._topics.find_topic(queue.topic)
        minutes = parent.config.lite_expiration if parent else 0
        return None if minutes <= 0 else queue.last_us + max(minutes * 60 * US_PER_S, LEAST_US)

    def next_due_us(self) -> int | None:
        lites = self._topics.lites
        oldest = (next(iter(lites.of(parent))) for parent in lites.parents)
        return min((at_us for queue in oldest if (at_us := self.expires_us(queue)) is not None), default=None)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Delete lite topics that have expired by ``until_us``."""
        yield partial(self._due_now, until_us)

    def _due_now(self, until_us: int) -> Iterator[Due]:
        lites = self._topics.lites
        due = sorted(
            (at_us, queue.key, queue)
            for parent in lites.parents
            for queue in islice(lites.of(parent), BATCH)
            if (at_us := self.expires_us(queue)) is not None and at_us <= until_us
        )
        for at_us, _, queue in due[:BATCH]:
            yield Due(at_us, partial(self._expire, queue))
        if len(due) >= BATCH:
            yield Due(due[BATCH - 1][0], None)

    def _expire(self, queue: LiteQueue, batch: Batch) -> None:
        if queue not in batch.appends:  # otherwise a message was stored in this transaction
            self.delete(batch, [queue])
