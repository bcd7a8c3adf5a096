"""Consuming by offset: read any range, commit how far one came (sheet 2.3 and 2.4)."""

from collections.abc import Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from emulator.broker.filters import EVERYTHING, TagFilter
from emulator.broker.groups import Group, Groups
from emulator.broker.polls import Patience, Polls
from emulator.broker.topics import Topics
from emulator.errors import InvalidArgumentError, QueueNotFoundError
from emulator.message import StoredMessage
from emulator.schedule.ledger import Ledger
from emulator.store.database import Database
from emulator.store.messages import SCAN, Span, messages_in
from emulator.store.queues import Queue
from emulator.store.writer import Batch, Writer

_PASSED = (
    "UPDATE takes SET settled_us = ?, outcome = 'passed'"
    " WHERE group_name = ? AND commit_offset = ? AND settled_us IS NULL"
)


class PullStatus(Enum):
    """GetMessageStatus of upstream, as far as it can happen here."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"


class Pulled(NamedTuple):
    """What a pull found; ``next_offset`` is where the next one should begin."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[StoredMessage]


class Pull:
    """Reads queues by offset, and keeps the groups' committed offsets."""

    def __init__(
        self, database: Database, writer: Writer, topics: Topics, groups: Groups, polls: Polls, ledger: Ledger
    ) -> None:
        self._database = database
        self._writer = writer
        self._topics = topics
        self._groups = groups
        self._polls = polls
        self._ledger = ledger

    def queue(self, topic_name: str, queue_id: int) -> Queue:
        """The queue. Raises TopicNotFoundError, QueueNotFoundError."""
        queues = self._topics.get(topic_name).queues
        if not 0 <= queue_id < len(queues):
            raise QueueNotFoundError(topic_name, queue_id, len(queues))
        return queues[queue_id]

    async def browse(
        self, topic_name: str, queue_id: int, offset: int, limit: int, tag_filter: TagFilter = EVERYTHING
    ) -> Pulled:
        """Read from ``offset`` on, without any trace."""
        queue = self.queue(topic_name, queue_id)
        low, high = queue.min_offset, queue.next_offset
        if high == 0:
            return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, 0, low, high, [])
        if offset < low:
            return Pulled(PullStatus.OFFSET_TOO_SMALL, low, low, high, [])
        if offset == high:
            return Pulled(PullStatus.OFFSET_OVERFLOW_ONE, offset, low, high, [])
        if offset > high:
            return Pulled(PullStatus.OFFSET_OVERFLOW_BADLY, high, low, high, [])
        end = min(high, offset + SCAN)
        rows = await messages_in(self._database, [Span(queue, offset, end, tag_filter.hashes)], limit)
        next_offset = rows[-1].queue_offset + 1 if len(rows) == limit else end
        rows = [row for row in rows if tag_filter.matches(row)]
        status = PullStatus.FOUND if rows else PullStatus.NO_MATCHED_MESSAGE
        return Pulled(status, next_offset, low, high, rows)

    async def pull(
        self,
        group_name: str,
        topic_name: str,
        queue_id: int,
        offset: int,
        limit: int,
        *,
        wait_s: float = 0.0,
        tag_filter: TagFilter = EVERYTHING,
    ) -> Pulled:
        """Read for a group, waiting up to ``wait_s`` real seconds at the end of the queue.

        The ledger notes the first pull of each delayed message. Offsets move only by ``commit_offset``.
        """
        topic = await self._topics.for_receive(topic_name)
        group = await self._groups.for_use(group_name)
        patience = Patience(wait_s)
        with self._polls.listening((topic.name,)) as arrival:
            while True:
                arrival.clear()
                pulled = await self.browse(topic_name, queue_id, offset, limit, tag_filter)
                at_end = pulled.status in (PullStatus.OFFSET_OVERFLOW_ONE, PullStatus.NO_MESSAGE_IN_QUEUE)
                if not at_end or self._polls.is_closed or not await patience.wait(arrival):
                    break
        delayed = [m.commit_offset for m in pulled.messages if m.parked_offset is not None]
        if delayed:
            await self._writer.commit(partial(self._note_pulled, group, delayed))
        return pulled

    def _note_pulled(self, group: Group, commit_offsets: Sequence[int], batch: Batch) -> None:
        for commit_offset in commit_offsets:
            self._ledger.pulled(batch, commit_offset, group.name)

    def committed_offset(self, group_name: str, topic_name: str, queue_id: int) -> int | None:
        """The first offset that the group has not finished; None when it never consumed the queue."""
        place = self._groups.get(group_name).queues.get(self.queue(topic_name, queue_id))
        return None if place is None else place.committed_offset

    async def commit_offset(self, group_name: str, topic_name: str, queue_id: int, offset: int) -> None:
        """Say that the group has finished everything below ``offset``.

        Receipts below it are settled. Less than was committed before means to begin again from there;
        all receipts of the queue end then.
        """
        queue = self.queue(topic_name, queue_id)
        if not 0 <= offset <= queue.next_offset:
            raise InvalidArgumentError("offset", offset, f"0 to {queue.next_offset}, the end of the queue")
        group = await self._groups.for_use(group_name)
        place = group.place(queue)

        def work(batch: Batch) -> None:
            back = offset < place.committed_offset
            ended = [take for take in place.open.values() if back or take.queue_offset < offset]
            next_offset = offset if back else max(place.next_offset, offset)
            for take in ended:
                batch.execute(_PASSED, (batch.now_us, group.name, take.commit_offset))

            def apply() -> None:
                for take in ended:
                    group.close(take)
                place.next_offset = next_offset

            batch.on_commit(apply)
            place.save(batch, next_offset)

        async with group.lock:
            await self._writer.commit(work)
