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
from typing import NamedTuple

from emulator.broker.choice import Choice, Wish, known_topic
from emulator.broker.expiries import Expiries
from emulator.broker.filters import EVERYTHING, TagFilter
from emulator.broker.groups import Group, Groups, Take
from emulator.broker.handles import find_take, handle_of
from emulator.broker.polls import Patience, Polls
from emulator.broker.retries import Retries, Retry
from emulator.broker.topics import Topics
from emulator.clock import Clock
from emulator.errors import ReceiptError
from emulator.failpoint import pass_point
from emulator.message import StoredMessage, retry_topic
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
    " last_taken_us, visible_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " times = excluded.times, first_taken_us = excluded.first_taken_us,"
    " last_taken_us = excluded.last_taken_us, visible_us = excluded.visible_us,"
    " settled_us = NULL, outcome = NULL"  # acknowledged once, but the group went back to before it
)
_SETTLE = "UPDATE takes SET settled_us = ?, outcome = ? WHERE group_name = ? AND commit_offset = ?"
_EXTEND = "UPDATE takes SET visible_us = ?, times = ? WHERE group_name = ? AND commit_offset = ?"
_LOAD_PROGRESS = "SELECT group_name, queue_key, next_offset FROM progress"
_LOAD_OPEN = """
SELECT group_name, takes.queue_key, takes.queue_offset, takes.commit_offset, times, first_taken_us,
 visible_us, properties, reconsume_times, parked_offset
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


class Settled(NamedTuple):
    """Which handles were settled, and why the others were not."""

    done: list[str]
    failed: list[tuple[str, ReceiptError]]


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
        self._expiries = Expiries(changed)
        self._abandoned: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read from the store how far each group has come and what it holds."""
        for group_name, queue_key, next_offset in await self._database.rows(_LOAD_PROGRESS):
            queue = self._topics.queue(queue_key)
            place = self._groups.get(group_name).place(queue)
            place.next_offset = place.saved_offset = min(next_offset, queue.next_offset)
        for row in await self._database.rows(_LOAD_OPEN):
            (
                group_name,
                queue_key,
                queue_offset,
                commit_offset,
                times,
                first_taken_us,
                visible_us,
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
                is_saved=True,
            )
            group.open(take)
            self._expiries.expect(group, take)

    # Receive

    async def receive(
        self,
        group_name: str,
        topic_name: str,
        *,
        max_messages: int,
        invisible_us: int,
        wait_s: float = 0.0,
        tag_filter: TagFilter = EVERYTHING,
        ordered: bool = False,
    ) -> list[Taken]:
        """Take up to ``max_messages``, oldest first, retries of the topic among them.

        Waits up to ``wait_s`` real seconds for the first. Messages that do not pass the filter are passed
        over for the whole group, as upstream. ``ordered`` withholds the next messages of each queue until
        all that the group was given of it are settled. A caller that is cancelled has taken nothing.
        """
        topic = await self._topics.for_receive(topic_name)
        group = await self._groups.for_use(group_name)
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
            choice.keep_open()
            visible_us = batch.now_us + invisible_us
            for message, take in choice.chosen:
                self._save_take(batch, group, take, take.times + 1, visible_us, batch.now_us)
                if message.parked_offset is not None:
                    self._ledger.pulled(batch, message.commit_offset, group.name)
                batch.on_commit(partial(self._given, group, take, visible_us, batch.now_us))
            for take in choice.left:
                self._save_take(batch, group, take, 0, batch.now_us, None)
            for place in {take.place for take in (*choice.left, *(take for _, take in choice.chosen))}:
                place.save(batch, place.next_offset)

        try:
            await choice.make()
            if not choice.chosen and not choice.left:
                return []
            await self._writer.commit(work)
        except BaseException:
            choice.undo()
            for _, take in choice.chosen:
                self._polls.wake(take.place.queue.topic)
            raise
        pass_point("receive.taken")
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
        self._save_take(batch, group, take, take.times, take.visible_us, batch.now_us)
        place.save(batch, stored.queue_offset + 1)

        def held() -> None:
            place.next_offset = stored.queue_offset + 1
            group.open(take)
            self._expiries.expect(group, take)

        batch.on_commit(held)
        return take

    def _save_take(
        self, batch: Batch, group: Group, take: Take, times: int, visible_us: int, taken_us: int | None
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
            ),
        )
        if not take.is_saved:
            take.is_saved = True
            batch.on_rollback(partial(setattr, take, "is_saved", False))

    # Settle

    async def acknowledge(self, group_name: str, handles: Sequence[str]) -> Settled:
        """The messages are done with. Handles that are not valid fail; the others are acknowledged."""
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> Settled:
            settled = Settled([], [])
            for handle, take in _valid(group, handles, batch.now_us, settled):
                self.settle(batch, group, take, "acked")
                if take.is_delayed:
                    self._ledger.acked(batch, take.commit_offset)
                settled.done.append(handle)
            return settled

        settled: Settled = await self._writer.commit(work)
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
        self._expiries.expect(group, take)

    def _set_visible(self, batch: Batch, group: Group, take: Take, visible_us: int, times: int) -> None:
        batch.execute(_EXTEND, (visible_us, times, group.name, take.commit_offset))
        # At once, or the old time could run out before the commit.
        batch.on_rollback(partial(self._show_from, group, take, take.visible_us, take.times))
        self._show_from(group, take, visible_us, times)

    def _given(self, group: Group, take: Take, visible_us: int, now_us: int) -> None:
        take.first_taken_us = take.first_taken_us or now_us
        self._show_from(group, take, visible_us, take.times + 1)

    def _show_from(self, group: Group, take: Take, visible_us: int, times: int) -> None:
        take.visible_us, take.times, take.is_reserved = visible_us, times, False
        self._expiries.expect(group, take)

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
                self._expiries.expect(group, take)
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


def _valid(group: Group, handles: Iterable[str], now_us: int, settled: Settled) -> Iterator[tuple[str, Take]]:
    """The takes of the handles that are valid when their turn comes; the others are noted as failed."""
    for handle in handles:
        try:
            take = find_take(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error))
        else:
            yield handle, take
