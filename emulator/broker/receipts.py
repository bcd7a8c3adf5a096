"""Consuming by receipt: take, acknowledge, give back, extend.

The life of a message for one group::

                    receive                    acknowledge
      visible ─────────────────► taken ─────────────────────► acked
         ▲                        │ │  give back
         │      its time is up    │ └─────────────► retried (parked, then in %RETRY%group) or dead
         └────────────────────────┘   its time is up once too often ───► dead (%DLQ%group)

What is taken stays invisible to the rest of its group until its time is up. Each step is durable before
it is answered, so a kill forgets no acknowledgement and no receipt. What is given out is chosen in
``choice``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from emulator.broker.choice import Choice, Wish, known_topic
from emulator.broker.expiries import Expiries
from emulator.broker.filters import EVERYTHING, Filter
from emulator.broker.groups import Group, Groups, Take
from emulator.broker.handles import PopHandle, find_take, handle_of
from emulator.broker.polls import Patience, Polls
from emulator.broker.retries import Retries, Retry
from emulator.broker.statistics import Statistics
from emulator.broker.topics import Topics
from emulator.clock import US_PER_MS, Clock, steady_us, wall_us
from emulator.errors import ReceiptError
from emulator.failpoint import pass_point
from emulator.message import CHECKED_HALF_GROUP, StoredMessage, retry_topic
from emulator.schedule.ledger import Ledger
from emulator.schedule.timer import Fired
from emulator.store.database import Database
from emulator.store.messages import messages_at
from emulator.store.queues import Queue
from emulator.store.writer import Batch, Writer

MAX_MESSAGES = 256
EXPIRY_BATCH = 500

_TAKE = (
    "INSERT INTO takes (group_name, commit_offset, queue_key, queue_offset, times, first_taken_us,"
    " last_taken_us, visible_us, pop_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " times = excluded.times, first_taken_us = excluded.first_taken_us,"
    " last_taken_us = excluded.last_taken_us, visible_us = excluded.visible_us, pop_ms = excluded.pop_ms,"
    " settled_us = NULL, outcome = NULL"  # acknowledged once, but the group went back to before it
)
_SETTLE = "UPDATE takes SET settled_us = ?, outcome = ? WHERE group_name = ? AND commit_offset = ?"
_EXTEND = "UPDATE takes SET visible_us = ?, times = ?, pop_ms = ? WHERE group_name = ? AND commit_offset = ?"
_LOAD_PROGRESS = "SELECT group_name, queue_key, next_offset FROM progress"
_LOAD_OPEN = """
SELECT group_name, takes.queue_key, takes.queue_offset, takes.commit_offset, times, first_taken_us,
 visible_us, pop_ms, properties, reconsume_times, parked_offset
FROM takes JOIN messages USING (commit_offset) WHERE settled_us IS NULL
ORDER BY group_name, takes.commit_offset"""


class Taken(NamedTuple):
    """A message given to a consumer, and the handle by which it is settled."""

    message: StoredMessage
    topic: str  # as the consumer knows it: a retry bears its original topic
    handle: str
    times: int
    first_taken_us: int  # by this group
    visible_us: int
    pop_ms: int  # 0 unless it was popped


Handle = TypeVar("Handle", str, PopHandle)


class SettledBy(NamedTuple, Generic[Handle]):
    """Which handles were settled, and why the others were not."""

    done: list[Handle]
    failed: list[tuple[Handle, ReceiptError]]


Settled = SettledBy[str]
"""By handles that were given out as text."""


class Receipts:
    """Gives messages out by receipt. A due source: what is not settled in time becomes visible again."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        clock: Clock,
        topics: Topics,
        groups: Groups,
        polls: Polls,
        ledger: Ledger,
        retries: Retries,
        statistics: Statistics,
        changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._polls = polls
        self._ledger = ledger
        self._retries = retries
        self._statistics = statistics
        self.checks = Expiries(changed)
        """When producers are to be asked about half messages; they do not become available by it."""
        self._expiries = Expiries(changed)
        self._abandoned: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read from the store how far each group has come and what it holds."""
        for group_name, queue_key, next_offset in await self._database.rows(_LOAD_PROGRESS):
            self._groups.restore(group_name, self._topics.queue(queue_key), next_offset)
        for row in await self._database.rows(_LOAD_OPEN):
            (
                group_name,
                queue_key,
                queue_offset,
                commit_offset,
                times,
                first_taken_us,
                visible_us,
                pop_ms,
                properties,
                again,
                parked,
            ) = row
            group, queue = self._groups.get(group_name), self._topics.queue(queue_key)
            take = Take(
                group.place(queue),
                queue_offset,
                commit_offset,
                known_topic(queue, properties),
                again,
                is_delayed=parked is not None,
                times=times,
                first_taken_us=first_taken_us or 0,
                visible_us=visible_us,
                pop_ms=pop_ms or 0,
                is_saved=True,
            )
            group.open(take)
            self._expect(group, take)

    # Receive

    async def receive(
        self,
        group_name: str,
        topic_name: str,
        *,
        max_messages: int,
        invisible_us: int,
        wait_s: float = 0.0,
        tag_filter: Filter = EVERYTHING,
        ordered: bool = False,
    ) -> list[Taken]:
        """Take up to ``max_messages``, oldest first, retries of the topic among them.

        Waits up to ``wait_s`` real seconds for the first. Messages that do not pass the filter are passed
        over for the whole group, as upstream. ``ordered`` withholds the next messages of each queue until
        all that the group was given of it are settled. A caller that is cancelled has taken nothing.
        """
        topic = await self._topics.for_receive(topic_name)
        group = await self._groups.for_use(group_name)
        group.check_may_consume()
        return await self.take(Wish(group, topic, max_messages, tag_filter, ordered), invisible_us, wait_s)

    async def take(self, wish: Wish, invisible_us: int, wait_s: float = 0.0) -> list[Taken]:
        """As ``receive``, for a group and from a topic that need not be open to clients."""
        group, patience = wish.group, Patience(wait_s)
        with (
            self._polls.listening((wish.topic.name, retry_topic(group.name))) as arrival,
            group.announcing(arrival) if wish.ordered else nullcontext(),
        ):
            while True:
                arrival.clear()
                self._topics.get(wish.topic.name)  # it may have been deleted meanwhile
                taken = await self._take_unless_cancelled(wish, invisible_us)
                if taken or self._polls.is_closed or not await patience.wait(arrival):
                    return taken

    async def _take_unless_cancelled(self, wish: Wish, invisible_us: int) -> list[Taken]:
        take = asyncio.create_task(self._take(wish, invisible_us))
        try:
            return await asyncio.shield(take)
        except asyncio.CancelledError:
            give_back = asyncio.create_task(self._release_result(wish.group, take))
            self._abandoned.add(give_back)
            give_back.add_done_callback(self._abandoned.discard)
            raise

    async def _release_result(self, group: Group, take: asyncio.Task[list[Taken]]) -> None:
        await self._release(group, await take)

    async def _take(self, wish: Wish, invisible_us: int) -> list[Taken]:
        group = wish.group
        choice = Choice(self._database, self._topics, wish)

        def work(batch: Batch) -> None:
            group.check_exists()
            self._topics.get(wish.topic.name)
            choice.keep_open()
            visible_us = batch.now_us + invisible_us
            pop_ms = _next_pop_ms(take for _, take in choice.chosen) if wish.popped else 0
            for message, take in choice.chosen:
                self._save_take(batch, group, take, take.times + 1, visible_us, batch.now_us, pop_ms)
                if message.parked_offset is not None:
                    self._ledger.pulled(batch, message.commit_offset, group.name)
                batch.on_commit(partial(self._given, group, take, visible_us, batch.now_us, pop_ms))
            for take in choice.left:
                self._save_take(batch, group, take, 0, batch.now_us, None, 0)
            for place in {take.place for take in (*choice.left, *(take for _, take in choice.chosen))}:
                place.save(batch, place.next_offset)

        began_us = steady_us()
        try:
            await choice.make()
            took_us = steady_us() - began_us
            self._statistics.read(len(choice.chosen), took_us)
            if not choice.chosen and not choice.left:
                return []
            await self._writer.commit(work)
        except BaseException:
            choice.undo()
            for _, take in choice.chosen:
                self._polls.wake(take.place.queue.topic)
            raise
        pass_point("receive.taken")
        self._statistics.given(
            wish.topic.name, group.name, [message for message, _ in choice.chosen], took_us
        )
        for take in choice.left:
            self._polls.wake(take.place.queue.topic)
        return [
            Taken(
                message,
                take.topic,
                handle_of(group, take),
                take.times,
                take.first_taken_us,
                take.visible_us,
                take.pop_ms,
            )
            for message, take in choice.chosen
        ]

    def hold(
        self, batch: Batch, group: Group, queue: Queue, stored: StoredMessage, invisible_us: int
    ) -> Take:
        """Take the newest message of a queue in the transaction that stores it: it is never free before."""
        place = group.place(queue)
        take = Take(
            place,
            stored.queue_offset,
            stored.commit_offset,
            known_topic(queue, stored.properties),
            stored.reconsume_times,
            is_delayed=False,
            first_taken_us=batch.now_us,
            visible_us=batch.now_us + invisible_us,
        )
        self._save_take(batch, group, take, take.times, take.visible_us, batch.now_us, 0)
        place.save(batch, stored.queue_offset + 1)

        def held() -> None:
            place.next_offset = stored.queue_offset + 1
            group.open(take)
            self._expect(group, take)

        batch.on_commit(held)
        return take

    def _save_take(
        self,
        batch: Batch,
        group: Group,
        take: Take,
        times: int,
        visible_us: int,
        taken_us: int | None,
        pop_ms: int,
    ) -> None:
        batch.execute(
            _TAKE,
            (
                group.name,
                take.commit_offset,
                take.place.queue.key,
                take.queue_offset,
                times,
                take.first_taken_us or taken_us,
                taken_us,
                visible_us,
                pop_ms or None,
            ),
        )
        if not take.is_saved:
            take.is_saved = True
            batch.on_rollback(partial(setattr, take, "is_saved", False))

    # Settle

    async def acknowledge(self, group_name: str, handles: Sequence[Handle]) -> SettledBy[Handle]:
        """The messages are done with. Handles that are not valid fail; the others are acknowledged."""
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> SettledBy[Handle]:
            settled: SettledBy[Handle] = SettledBy([], [])
            for handle, take in _valid(group, handles, batch.now_us, settled):
                self.settle(batch, group, take, "acked")
                if take.is_delayed:
                    self._ledger.acked(batch, take.commit_offset)
                settled.done.append(handle)
            return settled

        settled: SettledBy[Handle] = await self._writer.commit(work)
        pass_point("receive.settled")
        return settled

    async def give_back(self, group_name: str, handles: Sequence[str], delay_level: int = 0) -> Settled:
        """The messages could not be consumed: retry them later, or give them up.

        ``delay_level`` as in :meth:`Retries.prepare`. Handles that are not valid fail; the others are
        given back.
        """
        group = self._groups.of_client(group_name)
        settled = Settled([], [])
        retries: dict[str, Retry] = {}
        for handle, take in _valid(group, handles, self._clock.now_us(), settled):
            message = (await messages_at(self._database, [take.commit_offset])).get(take.commit_offset)
            if message is None:
                settled.failed.append(
                    (handle, ReceiptError(f"the message of receipt {handle!r} was removed"))
                )
                continue
            retries[handle] = await self._retries.prepare(group, message, delay_level)

        def work(batch: Batch) -> None:
            for handle, take in _valid(group, retries, batch.now_us, settled):
                retry = retries[handle]
                self._retries.append(batch, retry)
                self.settle(batch, group, take, "dead" if retry.is_dead else "retried")
                batch.on_commit(partial(self._statistics.gave_back, take.topic, group.name))
                settled.done.append(handle)

        await self._writer.commit(work)
        pass_point("receive.settled")
        return settled

    async def extend(self, group_name: str, handles: Sequence[str], invisible_us: int) -> Settled:
        """Keep the messages invisible for ``invisible_us`` from now; 0 makes them visible at once."""
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> Settled:
            settled = Settled([], [])
            for handle, take in _valid(group, handles, batch.now_us, settled):
                self._set_visible(batch, group, take, batch.now_us + invisible_us, take.times)
                settled.done.append(handle)
            return settled

        settled: Settled = await self._writer.commit(work)
        return settled

    async def change(
        self, group_name: str, handle: PopHandle, invisible_us: int, *, same_handle: bool = False
    ) -> PopHandle:
        """As ``extend``, for a popped message, which has another handle from then on, unless it shall not.

        Raises ReceiptSpentError.
        """
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> PopHandle:
            take = find_take(group, handle, batch.now_us)
            pop_ms = take.pop_ms if same_handle else _next_pop_ms([take])
            self._set_visible(batch, group, take, batch.now_us + invisible_us, take.times, pop_ms)
            return handle._replace(pop_ms=pop_ms)

        changed: PopHandle = await self._writer.commit(work)
        pass_point("receive.settled")
        return changed

    async def take_back(self, group: Group, takes: Sequence[Take]) -> None:
        """What was given out reached nobody, as it turns out: it can be taken again, and was not counted."""

        def work(batch: Batch) -> None:
            for take in takes:
                is_open = group.takes.get(take.commit_offset) is take
                if is_open and not (take.is_available or take.is_reserved or take.is_settling):
                    self._set_visible(batch, group, take, batch.now_us, take.times - 1)
                    batch.on_commit(partial(group.make_available, take))

        await self._writer.commit(work)

    async def release(self, group_name: str, taken: Sequence[Taken]) -> None:
        """Undo a receive whose answer reached nobody: visible again at once, and not counted."""
        await self._release(self._groups.of_client(group_name), taken)

    async def _release(self, group: Group, taken: Sequence[Taken]) -> None:
        def work(batch: Batch) -> None:
            for one in taken:
                take = group.takes.get(one.message.commit_offset)
                if take is not None and take.times == one.times and not take.is_settling:
                    self._set_visible(batch, group, take, batch.now_us, take.times - 1)

        await self._writer.commit(work)

    def settle(self, batch: Batch, group: Group, take: Take, outcome: str) -> None:
        """The group is done with the message, in this transaction."""
        batch.execute(_SETTLE, (batch.now_us, outcome, group.name, take.commit_offset))
        take.is_settling = True
        batch.on_commit(partial(group.close, take))
        batch.on_rollback(partial(self.reopen, group, take))

    def reopen(self, group: Group, take: Take) -> None:
        """The message was to be settled, and that came to nothing."""
        take.is_settling = False
        self._expect(group, take)

    def _set_visible(
        self,
        batch: Batch,
        group: Group,
        take: Take,
        visible_us: int,
        times: int,
        pop_ms: int | None = None,
    ) -> None:
        pop_ms = take.pop_ms if pop_ms is None else pop_ms
        batch.execute(_EXTEND, (visible_us, times, pop_ms or None, group.name, take.commit_offset))
        # At once, or the old time could run out before the commit.
        batch.on_rollback(partial(self._show_from, group, take, take.visible_us, take.times, take.pop_ms))
        self._show_from(group, take, visible_us, times, pop_ms)

    def _given(self, group: Group, take: Take, visible_us: int, now_us: int, pop_ms: int) -> None:
        take.first_taken_us = take.first_taken_us or now_us
        self._show_from(group, take, visible_us, take.times + 1, pop_ms)

    def ask_again(self, batch: Batch, take: Take, at_us: int) -> None:
        """The producer of a half message is asked about it, in this transaction, and again at ``at_us``."""
        self._set_visible(batch, take.place.group, take, at_us, take.times + 1)

    def _expect(self, group: Group, take: Take) -> None:
        expiries = self.checks if group.name == CHECKED_HALF_GROUP else self._expiries
        expiries.expect(group, take)

    def _show_from(self, group: Group, take: Take, visible_us: int, times: int, pop_ms: int) -> None:
        take.visible_us, take.times, take.pop_ms, take.is_reserved = visible_us, times, pop_ms, False
        self._expect(group, take)

    # What runs out

    def next_due_us(self) -> int | None:
        """When the next receipt runs out."""
        return self._expiries.next_us()

    async def fire(self, until_us: int) -> Fired:
        """Make visible what was not settled in time; what ran out once too often is a dead letter."""
        expired = self._expiries.pop(until_us, EXPIRY_BATCH)
        if not expired:
            return Fired(0, until_us)
        last_us = expired[-1][1].visible_us
        dead = [(group, take) for group, take in expired if group.gives_up(take)]
        try:
            await self._bury(dead)
        except BaseException:
            for group, take in expired:
                self._expect(group, take)
            raise
        for group, take in expired:
            # While the dead were buried, it may have been settled or extended.
            is_open = group.takes.get(take.commit_offset) is take and not take.is_settling
            if is_open and take.visible_us <= last_us:
                group.make_available(take)
                self._polls.wake(take.place.queue.topic)
        return Fired(0, last_us)

    async def _bury(self, dead: Sequence[tuple[Group, Take]]) -> None:
        if not dead:
            return
        messages = await messages_at(self._database, [take.commit_offset for _, take in dead])
        retries = [
            (group, take, await self._retries.prepare(group, messages[take.commit_offset], -1))
            for group, take in dead
            if take.commit_offset in messages
        ]

        def work(batch: Batch) -> None:
            for group, take, retry in retries:
                if group.takes.get(take.commit_offset) is not take or take.is_settling:
                    continue
                batch.reach(take.visible_us)
                self._retries.append(batch, retry)
                self.settle(batch, group, take, "dead")

        await self._writer.commit(work)

    async def close(self) -> None:
        """Wait until what cancelled receivers had taken is given back."""
        await asyncio.gather(*self._abandoned, return_exceptions=True)


def _next_pop_ms(takes: Iterable[Take]) -> int:
    """The time of the wall clock, by which clients judge; later than what named any of the takes before."""
    return max(wall_us() // US_PER_MS, 1 + max((take.pop_ms for take in takes), default=0))


def _valid(
    group: Group, handles: Iterable[Handle], now_us: int, settled: SettledBy[Handle]
) -> Iterator[tuple[Handle, Take]]:
    """The takes of the handles that are valid when their turn comes; the others are noted as failed."""
    for handle in handles:
        try:
            take = find_take(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error))
        else:
            yield handle, take
