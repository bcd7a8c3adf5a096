"""Transactions: half messages, which nobody consumes before their producer has decided about them.

The half messages of topic ``T`` are ordinary messages of the system topic ``%HALF%T``, where a group of the
broker's own takes each in the transaction that stores it::

                     its time is up                      pop
      prepare ─► held ────────────► to be decided ◄──────────────► held, by a handle of its own
                  │                       │        its time is up       │
                  └──── commit ──► visible in T, or delayed       ◄─────┤
                  └──── rollback, or 24 h have gone by ──► gone   ◄─────┘

A commit is decided when its handle is judged. A message with an absolute due time is then kept by the timed
scheme before its half is settled. After a kill in between the half is open again, and the next commit keeps
the message under the same number, which is to keep it once. So a producer that has asked for a commit must
not ask for a rollback of the same message afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from emulator.broker.choice import Wish
from emulator.broker.filters import EVERYTHING, TagFilter
from emulator.broker.groups import MAX_RETRIES, Group, Groups, Take
from emulator.broker.handles import check_handle, find_take, handle_of
from emulator.broker.intake import Intake, Judged
from emulator.broker.receipts import EXPIRY_BATCH, Receipts, Settled, Taken
from emulator.broker.topics import Topics
from emulator.clock import US_PER_MS, US_PER_S, Clock
from emulator.errors import IllegalMessageError, ReceiptError, ReceiptSpentError
from emulator.failpoint import pass_point
from emulator.message import (
    HALF_DUE_US,
    HALF_GROUP,
    MAX_PROPERTIES_BYTES,
    Draft,
    Message,
    StoredMessage,
    decode_properties,
    encode_properties,
    half_topic,
)
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.scheme import TimedScheme
from emulator.schedule.timer import Fired
from emulator.store.database import Database
from emulator.store.messages import messages_at
from emulator.store.writer import Batch, Writer

CHECK_INTERVAL_US = 10 * US_PER_S
"""For how long a half message that was popped is not popped again."""
LIFETIME_US = 24 * 3600 * US_PER_S
"""After so long without a decision a half message is rolled back."""


class Prepared(NamedTuple):
    """A stored half message, and the handle that decides about it until ``visible_us``."""

    stored: StoredMessage
    handle: str
    visible_us: int


class Transactions:
    """Stores half messages and what is decided about them. A due source: some are never decided."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        clock: Clock,
        topics: Topics,
        groups: Groups,
        levels: LevelQueues,
        timed: TimedScheme,
        intake: Intake,
        receipts: Receipts,
    ) -> None:
        self.prepared = 0  # these four since the start
        self.committed = 0
        self.rolled_back = 0
        self.abandoned = 0  # rolled back by the broker, because nobody had decided
        self._database = database
        self._writer = writer
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._levels = levels
        self._timed = timed
        self._intake = intake
        self._receipts = receipts

    async def prepare(self, message: Message, immunity_us: int) -> Prepared:
        """Store a half message, which nobody is asked about for ``immunity_us`` from now.

        Durable when this returns. Raises as :meth:`Intake.judge`; then nothing was stored.
        """
        if HALF_DUE_US in message.properties:
            raise IllegalMessageError("properties", f"property {HALF_DUE_US} is set by the broker alone")
        judged = await self._intake.judge(message)
        [queue] = (await self._topics.ensure(half_topic(judged.queue.topic), 1)).queues
        group = await self._group()
        draft = judged.draft
        if judged.due_us is not None:
            due = encode_properties({HALF_DUE_US: str(judged.due_us)})
            draft = draft._replace(properties=draft.properties + due)

        def work(batch: Batch) -> tuple[StoredMessage, Take]:
            stored = batch.append(queue, draft, real_queue_key=judged.queue.key)
            return stored, self._receipts.hold(batch, group, queue, stored, immunity_us)

        stored, take = await self._writer.commit(work)
        self.prepared += 1
        return Prepared(stored, handle_of(group, take), take.visible_us)

    async def pop(
        self,
        topic_name: str,
        *,
        max_messages: int,
        invisible_us: int = CHECK_INTERVAL_US,
        wait_s: float = 0.0,
        tag_filter: TagFilter = EVERYTHING,
    ) -> list[Taken]:
        """Half messages of the topic that wait for a decision, oldest first; waits as ``receive``.

        Raises as :meth:`Topics.for_send`.
        """
        topic = await self._topics.for_send(topic_name)
        half = await self._topics.ensure(half_topic(topic.name), 1)
        wish = Wish(await self._group(), half, max_messages, tag_filter)
        return await self._receipts.take(wish, invisible_us, wait_s)

    async def commit(self, topic_name: str, handles: Sequence[str]) -> Settled:
        """Make the messages visible, each with its delay; a delay level counts from now.

        Handles that are not valid for the topic fail; the others are committed.
        """
        group = await self._group()
        settled = Settled([], [])
        takes: dict[str, Take] = {}
        for handle, take in _valid(group, topic_name, handles, self._clock.now_us(), settled):
            take.is_settling = True  # decided: its time does not run out any more
            takes[handle] = take
        try:
            await self._commit(group, takes, settled)
        except BaseException:
            for take in takes.values():
                self._receipts.reopen(group, take)
            raise
        pass_point("receive.settled")
        self.committed += len(settled.done)
        return settled

    async def _commit(self, group: Group, takes: dict[str, Take], settled: Settled) -> None:
        offsets = [take.commit_offset for take in takes.values()]
        halves = await messages_at(self._database, offsets)
        judged = {offset: self._judge_again(half) for offset, half in halves.items()}
        now_ms_us = self._clock.now_us() // US_PER_MS * US_PER_MS
        for number, (queue, _, due_us, draft) in judged.items():
            if due_us is not None:  # even if it has passed: only the scheme knows of an earlier attempt
                await self._timed.keep(draft, queue, max(due_us, now_ms_us), number)

        def work(batch: Batch) -> None:
            for handle, take in takes.items():
                number = take.commit_offset
                if number not in judged or group.takes.get(number) is not take:
                    settled.failed.append((handle, ReceiptSpentError(f"the message of {handle!r} was reset")))
                    continue
                if judged[number].due_us is None:
                    self._intake.append(judged[number], batch)
                self._receipts.settle(batch, group, take, "committed")
                settled.done.append(handle)

        await self._writer.commit(work)

    def _judge_again(self, half: StoredMessage) -> Judged:
        """As when it was prepared. Only there could be told how far ahead its due time was."""
        properties = decode_properties(half.properties)
        due = properties.pop(HALF_DUE_US, None)
        draft = Draft(
            half.body,
            encode_properties(properties, 2 * MAX_PROPERTIES_BYTES),
            half.tag_hash,
            half.unique_key,
            half.born_us,
            half.born_host,
            half.flag,
            half.sys_flag,
            half.reconsume_times,
        )
        assert half.real_queue_key is not None  # noqa: S101 - every half message has one
        queue = self._topics.queue(half.real_queue_key)
        level = self._levels.table.level_of(properties)
        return Judged(queue, level, None if due is None else int(due), draft)

    async def rollback(self, topic_name: str, handles: Sequence[str]) -> Settled:
        """Never make the messages visible. Handles that are not valid for the topic fail."""
        group = await self._group()

        def work(batch: Batch) -> Settled:
            settled = Settled([], [])
            for handle, take in _valid(group, topic_name, handles, batch.now_us, settled):
                self._receipts.settle(batch, group, take, "rolled back")
                settled.done.append(handle)
            return settled

        settled: Settled = await self._writer.commit(work)
        pass_point("receive.settled")
        self.rolled_back += len(settled.done)
        return settled

    async def _group(self) -> Group:
        return self._groups.find(HALF_GROUP) or await self._groups.put(
            HALF_GROUP, MAX_RETRIES, 1, replace=False
        )

    # What nobody decides

    def next_due_us(self) -> int | None:
        """When the next half message is rolled back. One that is held by then is not, until it is free."""
        now_us = self._clock.now_us()
        overs = ((_over_us(take), take.is_available) for take in self._undecided())
        return next((over_us for over_us, is_free in overs if is_free or over_us > now_us), None)

    async def fire(self, until_us: int) -> Fired:
        """Roll back what nobody has decided for :data:`LIFETIME_US`."""
        over = takewhile(lambda take: _over_us(take) <= until_us, self._undecided())
        takes = list(islice((take for take in over if take.is_available), EXPIRY_BATCH))
        if not takes:
            return Fired(0, until_us)

        def work(batch: Batch) -> int:
            free = [take for take in takes if take.is_available]  # else it was popped in the meantime
            for take in free:
                batch.reach(_over_us(take))
                self._receipts.settle(batch, take.place.group, take, "rolled back")
            return len(free)

        count: int = await self._writer.commit(work)
        self.abandoned += count
        return Fired(0, _over_us(takes[-1]))

    def _undecided(self) -> Iterable[Take]:
        """All, in the order in which they were prepared."""
        group = self._groups.find(HALF_GROUP)
        return group.takes.values() if group else ()


def _valid(
    group: Group, topic_name: str, handles: Sequence[str], now_us: int, settled: Settled
) -> Iterator[tuple[str, Take]]:
    """The takes of the handles that are valid when their turn comes; the others are noted as failed."""
    for handle in handles:
        try:
            check_handle(handle, group.name, topic_name)
            take = find_take(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error))
        else:
            yield handle, take


def _over_us(take: Take) -> int:
    return take.first_taken_us + LIFETIME_US
