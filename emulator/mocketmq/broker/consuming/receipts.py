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
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from mocketmq.broker.consuming.groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.handles import PopHandle, find_take, handle_of, next_pop_ms
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.retries import Retries, Retry
from mocketmq.broker.consuming.selection import Choice, Wish
from mocketmq.broker.consuming.take import Outcome, State, Take
from mocketmq.broker.consuming.takes import Takes
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.clock import steady_us
from mocketmq.errors import ReceiptError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import retry_topic
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.timer import Fired
from mocketmq.store.ground import Ground
from mocketmq.store.messages import messages_at
from mocketmq.store.writer import Batch

MAX_MESSAGES = 256
EXPIRY_BATCH = 500


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
        ground: Ground,
        registry: Registry,
        groups: ConsumingGroups,
        takes: Takes,
        polls: Polls,
        ledger: Ledger,
        retries: Retries,
    ) -> None:
        self._database = ground.database
        self._writer = ground.writer
        self._clock = ground.clock
        self._topics = registry.topics
        self._groups = groups
        self._takes = takes
        self._polls = polls
        self._ledger = ledger
        self._retries = retries
        self._statistics = registry.statistics
        self._abandoned: set[asyncio.Task[None]] = set()

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
        group = await self._groups.for_consuming(group_name)
        return await self.take(Wish(group, topic, max_messages, tag_filter, ordered), invisible_us, wait_s)

    async def take(self, wish: Wish, invisible_us: int, wait_s: float = 0.0) -> list[Taken]:
        """As ``receive``, for a group and from a topic that need not be open to clients."""
        group, topic_name = wish.group, wish.topic.name

        async def look() -> list[Taken]:
            # The topic may have been changed or deleted meanwhile.
            return await self._take_unless_cancelled(
                wish._replace(topic=self._topics.get(topic_name)), invisible_us
            )

        places = (topic_name, retry_topic(group.name))
        if wish.ordered:
            return await self._polls.wait_for(look, places, wait_s, also=group.announcing)
        return await self._polls.wait_for(look, places, wait_s)

    async def _take_unless_cancelled(self, wish: Wish, invisible_us: int) -> list[Taken]:
        take = asyncio.create_task(self._take(wish, invisible_us))
        try:
            return await asyncio.shield(take)
        except asyncio.CancelledError:
            give_back = asyncio.create_task(self._release_result(wish.group, take))
            self._abandoned.add(give_back)
            give_back.add_done_callback(self._abandoned.discard)
            raise

    async def _release_result(self, group: ConsumingGroup, take: asyncio.Task[list[Taken]]) -> None:
        await self._release(group, await take)

    async def _take(self, wish: Wish, invisible_us: int) -> list[Taken]:
        group = wish.group
        choice = Choice(self._database, self._topics, wish)

        def work(batch: Batch) -> None:
            group.check_exists()
            self._topics.get(wish.topic.name)
            choice.keep_open()
            visible_us = batch.now_us + invisible_us
            pop_ms = next_pop_ms(take for _, take in choice.chosen) if wish.popped else 0
            for message, take in choice.chosen:
                self._takes.give(batch, take, visible_us, pop_ms)
                if message.parked_offset is not None:
                    self._ledger.pulled(batch, message.commit_offset, group.name)
            for take in choice.left:
                self._takes.leave(batch, take)
            for group_queue in {
                take.group_queue for take in (*choice.left, *(take for _, take in choice.chosen))
            }:
                group_queue.save(batch, group_queue.next_offset)

        began_us = steady_us()
        try:
            await choice.make()
            took_us = steady_us() - began_us
            self._statistics.read(len(choice.chosen), took_us)
            if not choice.chosen and not choice.left:
                return []
            await self._writer.commit(work)
        except BaseException:
            for _, take in choice.chosen:
                self._takes.reopen(take)
            raise
        pass_point("receive.taken")
        self._statistics.given(
            wish.topic.name, group.name, [message for message, _ in choice.chosen], took_us
        )
        for take in choice.left:
            self._polls.wake(take.queue.topic)
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

    # Settle

    async def acknowledge(self, group_name: str, handles: Sequence[Handle]) -> SettledBy[Handle]:
        """The messages are done with. Handles that are not valid fail; the others are acknowledged."""
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> SettledBy[Handle]:
            settled: SettledBy[Handle] = SettledBy([], [])
            for handle, take in valid(group, handles, batch.now_us, settled):
                self._takes.settle(batch, take, Outcome.ACKED)
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
        for handle, take in valid(group, handles, self._clock.now_us(), settled):
            message = (await messages_at(self._database, [take.commit_offset])).get(take.commit_offset)
            if message is None:
                settled.failed.append(
                    (handle, ReceiptError(f"the message of receipt {handle!r} was removed"))
                )
                continue
            retries[handle] = await self._retries.prepare(group.registered, message, delay_level)

        def work(batch: Batch) -> None:
            for handle, take in valid(group, retries, batch.now_us, settled):
                retry = retries[handle]
                self._retries.append(batch, retry)
                self._takes.settle(batch, take, Outcome.DEAD if retry.is_dead else Outcome.RETRIED)
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
            for handle, take in valid(group, handles, batch.now_us, settled):
                self._takes.show_from(batch, take, batch.now_us + invisible_us, take.times, take.pop_ms)
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
            pop_ms = take.pop_ms if same_handle else next_pop_ms([take])
            self._takes.show_from(batch, take, batch.now_us + invisible_us, take.times, pop_ms)
            return handle._replace(pop_ms=pop_ms)

        changed: PopHandle = await self._writer.commit(work)
        pass_point("receive.settled")
        return changed

    async def release(self, group_name: str, taken: Sequence[Taken]) -> None:
        """Undo a receive whose answer reached nobody: visible again at once, and not counted."""
        await self._release(self._groups.of_client(group_name), taken)

    async def _release(self, group: ConsumingGroup, taken: Sequence[Taken]) -> None:
        await self.take_back(group, [(one.message.commit_offset, one.times) for one in taken])

    async def take_back(self, group: ConsumingGroup, given: Sequence[tuple[int, int]]) -> None:
        """What was given out reached nobody, as it turns out: it can be taken again, and was not counted.

        Given are commit offsets, and how often each was taken by then. What was settled or taken again since
        stays as it is.
        """

        def work(batch: Batch) -> None:
            for commit_offset, times in given:
                take = group.takes.get(commit_offset)
                if take is not None and take.times == times and take.can_be_settled:
                    self._takes.take_back(batch, take)

        await self._writer.commit(work)

    # What runs out

    def next_due_us(self) -> int | None:
        """When the next receipt runs out."""
        return self._takes.expiries.next_us()

    async def fire(self, until_us: int) -> Fired:
        """Make visible what was not settled in time; what ran out once too often is a dead letter."""
        expired = self._takes.expiries.pop(until_us, EXPIRY_BATCH)
        if not expired:
            return Fired(0, until_us)
        last_us = expired[-1].visible_us
        try:
            await self._bury([take for take in expired if take.group.gives_up(take)], last_us)
        except BaseException:
            for take in expired:
                self._takes.expect(take)
            raise
        for take in expired:
            # While the dead were buried, it may have been settled, extended or taken back.
            if take.state is State.HELD and take.visible_us <= last_us:
                self._takes.free(take)
        return Fired(0, last_us)

    async def _bury(self, dead: Sequence[Take], until_us: int) -> None:
        if not dead:
            return
        messages = await messages_at(self._database, [take.commit_offset for take in dead])
        retries = [
            (take, await self._retries.prepare(take.group.registered, messages[take.commit_offset], -1))
            for take in dead
            if take.commit_offset in messages
        ]

        def work(batch: Batch) -> None:
            for take, retry in retries:
                if take.state is State.HELD and take.visible_us <= until_us:
                    batch.reach(take.visible_us)
                    self._retries.append(batch, retry)
                    self._takes.settle(batch, take, Outcome.DEAD)

        await self._writer.commit(work)

    async def close(self) -> None:
        """Wait until what cancelled receivers had taken is given back."""
        await asyncio.gather(*self._abandoned, return_exceptions=True)


def valid(
    group: ConsumingGroup,
    handles: Iterable[Handle],
    now_us: int,
    settled: SettledBy[Handle],
    check: Callable[[Handle], None] = lambda _handle: None,
) -> Iterator[tuple[Handle, Take]]:
    """The takes of the handles that are valid when their turn comes; the others are noted as failed.

    ``check`` raises ReceiptError for what is not valid for a reason of the caller's.
    """
    for handle in handles:
        try:
            check(handle)
            take = find_take(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error))
        else:
            yield handle, take
