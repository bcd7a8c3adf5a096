"""The broker as the front doors see it: sending, and the parts that do the rest."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from emulator.broker.groups import Groups
from emulator.broker.lives import Lives
from emulator.broker.pending import PendingMessages
from emulator.broker.polls import Polls
from emulator.broker.pull import Pull
from emulator.broker.receipts import Receipts
from emulator.broker.reset import Reset
from emulator.broker.topics import Topic, Topics
from emulator.clock import Clock
from emulator.errors import ClockError, GroupNotFoundError, IllegalMessageError
from emulator.message import RETRY_PREFIX, Draft, Message, StoredMessage, draft, mark_parked
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.timer import Arrive, Timer
from emulator.store.queues import Queue
from emulator.store.writer import Batch, Writer

MAX_BATCH = 1_000


class Sent(NamedTuple):
    """A stored message and the queue that the sender asked for.

    For a delayed message ``stored`` is the parked record, as upstream answers (sheet 2.2), ``queue`` the
    real queue, and ``level`` the delay level, after clamping.
    """

    stored: StoredMessage
    queue: Queue
    level: int


class Moved(NamedTuple):
    """What a move of the clock did, in emulated microseconds; ``next_due_us`` of a delayed message."""

    from_us: int
    now_us: int
    fired: int
    next_due_us: int | None


class Broker:
    """All parts together. Built, started and stopped by the app."""

    def __init__(
        self,
        *,
        clock: Clock,
        writer: Writer,
        timer: Timer,
        topics: Topics,
        groups: Groups,
        levels: LevelQueues,
        polls: Polls,
        receipts: Receipts,
        pull: Pull,
        pending: PendingMessages,
        lives: Lives,
        reset: Reset,
        arrive: Arrive,
        max_message_bytes: int,
    ) -> None:
        self.clock = clock
        self.writer = writer
        self.timer = timer
        self.topics = topics
        self.groups = groups
        self.levels = levels
        self.polls = polls
        self.receipts = receipts
        self.pull = pull
        self.pending = pending
        self.lives = lives
        self.reset = reset
        self._arrive = arrive
        self.max_message_bytes = max_message_bytes
        self.sent = 0

    async def send(self, message: Message) -> Sent:
        """Store a message; it is durable when this returns.

        ``DELAY`` in its properties parks it. Raises NoPermissionError, TopicNotFoundError,
        GroupNotFoundError for the retry topic of no group, InvalidArgumentError, IllegalMessageError, or a
        StoreError: then nothing was stored.
        """
        topic = await self._topic_for(message)
        queue, level, ready = self._judge(topic, message)
        stored: StoredMessage = await self.writer.commit(partial(self._append, queue, level, ready))
        self.sent += 1
        return Sent(stored, queue, level)

    async def send_batch(self, messages: Sequence[Message]) -> list[Sent]:
        """Store 1 to 1,000 messages as one transaction: all or none. Raises as ``send``."""
        judged = [self._judge(await self._topic_for(message), message) for message in messages]

        def work(batch: Batch) -> list[Sent]:
            return [
                Sent(self._append(queue, level, ready, batch), queue, level) for queue, level, ready in judged
            ]

        sent: list[Sent] = await self.writer.commit(work)
        self.sent += len(sent)
        return sent

    async def _topic_for(self, message: Message) -> Topic:
        if message.topic.startswith(RETRY_PREFIX):
            group = message.topic.removeprefix(RETRY_PREFIX)
            if not group:
                raise GroupNotFoundError(f"{message.topic} is the retry topic of no group")
            await self.groups.for_use(group)  # sheet 6.4
        return await self.topics.for_send(message.topic)

    def _judge(self, topic: Topic, message: Message) -> tuple[Queue, int, Draft]:
        size = len(message.body)
        if not 0 < size <= self.max_message_bytes:
            raise IllegalMessageError(
                "body", f"the body has {size} bytes; allowed: 1 to {self.max_message_bytes}"
            )
        queue = self.topics.queue_for_send(topic, message.queue_id)
        level = self.levels.table.level_of(message.properties)
        if level:
            mark_parked(message.properties, queue.topic, queue.queue_id)
        return queue, level, draft(message, self.clock.now_us())

    def _append(self, queue: Queue, level: int, ready: Draft, batch: Batch) -> StoredMessage:
        if level:
            return self.levels.park(batch, ready, level, queue)
        return batch.append(queue, ready)

    async def advance_clock(self, by_us: int) -> Moved:
        """Move the clock forward by a duration; answers when everything on the way is delivered.

        Raises ClockError for a move backwards, StoreUnavailableError when a delivery could not be stored.
        """
        return await self._move(lambda now_us: now_us + by_us)

    async def move_clock_to(self, instant_us: int) -> Moved:
        """Move the clock to an instant. As ``advance_clock``."""
        return await self._move(lambda _: instant_us)

    async def move_clock_to_next(self) -> Moved:
        """Move the clock to where the next delayed message is due. As ``advance_clock``."""

        def target(now_us: int) -> int:
            due_us = self.pending.next_due_us
            if due_us is None:
                raise ClockError("nothing is pending, so there is no next due time to move the clock to")
            return max(now_us, due_us)

        return await self._move(target)

    async def _move(self, target: Callable[[int], int]) -> Moved:
        """Goes to its end even if the caller goes away: the clock must not stand before what it fired."""
        move = await asyncio.shield(self.timer.move(target, self._arrive))
        return Moved(*move, self.pending.next_due_us)
