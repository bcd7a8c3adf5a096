"""The broker as the front doors see it: sending, and the parts that do the rest."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from mocketmq.broker.consuming.offsets import Offsets
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.pops import Pops
from mocketmq.broker.consuming.pull import Pull
from mocketmq.broker.consuming.queue_locks import QueueLocks
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.looking.consumers import Consumers
from mocketmq.broker.looking.history import Lives
from mocketmq.broker.looking.pending import PendingMessages
from mocketmq.broker.looking.progress import Progress
from mocketmq.broker.registry.clients import Clients
from mocketmq.broker.registry.groups import Groups
from mocketmq.broker.registry.name_server import NameServer
from mocketmq.broker.registry.request_modes import RequestModes
from mocketmq.broker.registry.statistics import Statistics
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.sending.intake import Intake, Judged
from mocketmq.broker.sending.replies import Replies
from mocketmq.broker.transactions.check_backs import CheckBacks
from mocketmq.broker.transactions.half_messages import Transactions
from mocketmq.broker.transactions.popped_halves import PoppedHalves
from mocketmq.broker.upkeep.reset import Reset
from mocketmq.broker.upkeep.retention import Retention
from mocketmq.clock import Clock
from mocketmq.errors import ClockError, IllegalMessageError, TopicNotFoundError
from mocketmq.message.message import Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import RETRY_PREFIX
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme import Reply, TimedScheme
from mocketmq.schedule.timer import Arrive, Timer
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Batch, Writer

MAX_BATCH = 1_000
JUDGED_AT_ONCE = 256
"""Messages of a large batch, before others have their turn."""


class Sent(NamedTuple):
    """A stored message and the queue that the sender asked for.

    For a delayed message ``stored`` is the parked record, as upstream answers (sheet 2.2), ``queue`` the
    real queue, and ``level`` the delay level, after clamping; ``reply`` is what the sender is told of it.
    """

    stored: StoredMessage
    queue: Queue
    level: int
    reply: Reply


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
        timed: TimedScheme,
        intake: Intake,
        polls: Polls,
        receipts: Receipts,
        transactions: Transactions,
        popped_halves: PoppedHalves,
        check_backs: CheckBacks,
        pull: Pull,
        pops: Pops,
        request_modes: RequestModes,
        offsets: Offsets,
        clients: Clients,
        queue_locks: QueueLocks,
        pending: PendingMessages,
        lives: Lives,
        statistics: Statistics,
        progress: Progress,
        reset: Reset,
        name_server: NameServer,
        retention: Retention,
        arrive: Arrive,
    ) -> None:
        self.clock = clock
        self.writer = writer
        self.timer = timer
        self.topics = topics
        self.groups = groups
        self.levels = levels
        self.timed = timed
        self.intake = intake
        self.polls = polls
        self.receipts = receipts
        self.transactions = transactions
        self.popped_halves = popped_halves
        self.check_backs = check_backs
        self.pull = pull
        self.pops = pops
        self.request_modes = request_modes
        self.offsets = offsets
        self.clients = clients
        self.queue_locks = queue_locks
        self.pending = pending
        self.lives = lives
        self.statistics = statistics
        self.progress = progress
        self.reset = reset
        self.name_server = name_server
        self.retention = retention
        self._arrive = arrive
        self.replies = Replies(clock, topics, clients, self.send)
        self.consumers = Consumers(clients, lives, topics)
        self.sent = 0

    async def send(self, message: Message) -> Sent:
        """Store a message; it is durable when this returns.

        ``DELAY`` or an absolute due time in its properties parks it. Raises as :meth:`Intake.judge`; then
        nothing was stored.
        """
        judged = await self.intake.judge(message)
        if judged.due_us is None:
            stored: StoredMessage = await self.writer.commit(partial(self.intake.append, judged))
        else:
            stored = await self.timed.keep(judged.draft, judged.queue, judged.due_us)
            await self._check_kept(judged, stored)
        self.sent += 1
        return self._sent(judged, stored)

    async def send_batch(self, messages: Sequence[Message]) -> list[Sent]:
        """Store 1 to 1,000 messages, all or none. Raises as ``send``.

        Those with an absolute due time are kept first, and taken back when the transaction of the others
        fails. Only a kill between the two keeps a part of a batch that nobody was told of; it goes to its end
        even if the caller goes away.
        """
        judged = [await self.intake.judge(message) for message in messages]
        stored = await asyncio.shield(self._store_all(judged))
        self.sent += len(stored)
        return list(map(self._sent, judged, stored))

    async def send_together(self, messages: Iterable[Message]) -> list[Sent]:
        """Store messages of one topic next to each other in one queue, all or none (sheet 2.2).

        Raises as ``send``, and IllegalMessageError for a message that is to be delayed or a retry.
        """
        judged: list[Judged] = []
        for message in messages:
            if message.topic.startswith(RETRY_PREFIX):
                raise IllegalMessageError(
                    "topic", f"batch request does not support retry group {message.topic}"
                )
            if judged:
                message.queue_id = judged[0].queue.queue_id
            one = await self.intake.judge(message)
            if one.level or one.due_us is not None:
                raise IllegalMessageError(
                    "properties", "a message of a batch cannot be delayed; send it by itself"
                )
            judged.append(one)
            if len(judged) % JUDGED_AT_ONCE == 0:
                await asyncio.sleep(0)
        stored: list[StoredMessage] = await self.writer.commit(
            lambda batch: [self.intake.append(one, batch) for one in judged]
        )
        self.sent += len(stored)
        return list(map(self._sent, judged, stored))

    async def _check_kept(self, judged: Judged, stored: StoredMessage) -> None:
        """As :meth:`Intake.check`: a deletion that began while it was kept may not have seen it."""
        try:
            self.intake.check(judged)
        except TopicNotFoundError:
            await self._take_back([stored])
            raise

    async def _store_all(self, judged: Sequence[Judged]) -> list[StoredMessage]:
        kept = await self._keep_all([one for one in judged if one.due_us is not None])

        def work(batch: Batch) -> list[StoredMessage]:
            self.intake.check(*judged)
            return [
                next(waiting) if one.due_us is not None else self.intake.append(one, batch) for one in judged
            ]

        waiting = iter(kept)
        try:
            stored: list[StoredMessage] = await self.writer.commit(work)
        except BaseException:
            await self._take_back(kept)
            raise
        return stored

    async def _keep_all(self, judged: Sequence[Judged]) -> list[StoredMessage]:
        results = await asyncio.gather(
            *(self.timed.keep(one.draft, one.queue, one.due_us or 0) for one in judged),
            return_exceptions=True,
        )
        kept = [result for result in results if not isinstance(result, BaseException)]
        failure = next((result for result in results if isinstance(result, BaseException)), None)
        if failure is not None:
            await self._take_back(kept)
            raise failure
        return kept

    async def _take_back(self, kept: Sequence[StoredMessage]) -> None:
        if kept:
            async with self.timer.lock:
                await self.timed.discard(kept)

    def _sent(self, judged: Judged, stored: StoredMessage) -> Sent:
        if judged.due_us is not None:
            reply = self.timed.reply(stored, judged.queue)
        else:
            message_id = offset_message_id(stored.store_host, stored.commit_offset)
            reply = Reply(message_id, judged.queue.queue_id, stored.queue_offset)
        return Sent(stored, judged.queue, judged.level, reply)

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
