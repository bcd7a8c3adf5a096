"""Takes: what groups were given and have not settled, in memory and in the table ``takes``.

Every change is part of a transaction, and comes to nothing with it. Who is given what is decided elsewhere.
"""

from collections.abc import Callable
from functools import partial

from mocketmq.broker.consuming.expiries import Expiries
from mocketmq.broker.consuming.groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.selection import known_topic
from mocketmq.broker.consuming.take import Outcome, State, Take
from mocketmq.broker.registry.registry import Registry
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import CHECKED_HALF_GROUP
from mocketmq.store.ground import Ground
from mocketmq.store.queues import Queue
from mocketmq.store.takes import TakeRow, open_takes, save_outcome, save_take, save_visible
from mocketmq.store.writer import Batch


class Takes:
    """Every open take. They become available when their time is up, which ``expiries`` knows.

    But those of half messages about which producers are asked then instead: ``checks`` knows of these.
    """

    def __init__(
        self,
        ground: Ground,
        registry: Registry,
        groups: ConsumingGroups,
        polls: Polls,
        changed: Callable[[], None],
    ) -> None:
        self.expiries = Expiries(changed)
        self.checks = Expiries(changed)
        self._database = ground.database
        self._topics = registry.topics
        self._groups = groups
        self._polls = polls

    async def load(self) -> None:
        """Read from the store what each group holds."""
        for row in await open_takes(self._database):
            group, queue = self._groups.get(row.group_name), self._topics.queue(row.queue_key)
            take = Take(
                group.in_queue(queue),
                row.queue_offset,
                row.commit_offset,
                known_topic(queue, row.properties),
                row.reconsume_times,
                is_delayed=row.parked_offset is not None,
                times=row.times,
                first_taken_us=row.first_taken_us or 0,
                visible_us=row.visible_us,
                pop_ms=row.pop_ms or 0,
                has_row=True,
            )
            take.move(State.HELD)
            self.expect(take)

    def give(self, batch: Batch, take: Take, visible_us: int, pop_ms: int) -> None:
        """Somebody is given a message that was chosen."""
        times, now_us = take.times + 1, batch.now_us
        self._save(batch, take, times, visible_us, now_us, pop_ms)

        def given() -> None:
            if take.state is not State.CLOSED:  # it was passed over in the same transaction
                take.first_taken_us = take.first_taken_us or now_us
                take.move(State.HELD)
                self._shown_from(take, visible_us, times, pop_ms)

        batch.on_commit(given)

    def leave(self, batch: Batch, take: Take) -> None:
        """A message was found by somebody for whom it is not."""
        self._save(batch, take, 0, batch.now_us, None, 0)

    def hold(
        self, batch: Batch, group: ConsumingGroup, queue: Queue, stored: StoredMessage, invisible_us: int
    ) -> Take:
        """Take the newest message of a queue in the transaction that stores it: it is never free before."""
        group_queue = group.in_queue(queue)
        take = Take(
            group_queue,
            stored.queue_offset,
            stored.commit_offset,
            known_topic(queue, stored.properties),
            stored.reconsume_times,
            is_delayed=False,
            first_taken_us=batch.now_us,
            visible_us=batch.now_us + invisible_us,
        )
        self._save(batch, take, take.times, take.visible_us, batch.now_us, 0)
        group_queue.save(batch, stored.queue_offset + 1)

        def held() -> None:
            group_queue.next_offset = stored.queue_offset + 1
            take.move(State.HELD)
            self.expect(take)

        batch.on_commit(held)
        return take

    def _save(
        self, batch: Batch, take: Take, times: int, visible_us: int, taken_us: int | None, pop_ms: int
    ) -> None:
        group_queue = take.group_queue
        save_take(
            batch,
            TakeRow(
                group_queue.group.name,
                take.commit_offset,
                group_queue.queue.key,
                take.queue_offset,
                times,
                take.first_taken_us or taken_us,
                taken_us,
                visible_us,
                pop_ms or None,
            ),
        )
        if not take.has_row:
            take.has_row = True
            batch.on_rollback(partial(setattr, take, "has_row", False))

    def show_from(self, batch: Batch, take: Take, visible_us: int, times: int, pop_ms: int) -> None:
        """The time of a message that is held is up at ``visible_us``."""
        # At once, or the old time could run out before the commit.
        batch.on_rollback(partial(self._shown_from, take, take.visible_us, take.times, take.pop_ms))
        save_visible(batch, take.group.name, take.commit_offset, visible_us, times, pop_ms)
        self._shown_from(take, visible_us, times, pop_ms)

    def take_back(self, batch: Batch, take: Take) -> None:
        """A message that was given reached nobody: it is free again, and that time does not count."""
        take.move(State.RESERVED)
        times, visible_us = take.times - 1, min(take.visible_us, batch.now_us)
        save_visible(batch, take.group.name, take.commit_offset, visible_us, times, take.pop_ms)
        batch.on_rollback(partial(self.reopen, take))

        def taken_back() -> None:
            if take.state is State.RESERVED:  # else its group has just come past it
                take.visible_us, take.times = visible_us, times
                self.free(take)

        batch.on_commit(taken_back)

    def _shown_from(self, take: Take, visible_us: int, times: int, pop_ms: int) -> None:
        take.visible_us, take.times, take.pop_ms = visible_us, times, pop_ms
        self.expect(take)

    def settle(self, batch: Batch, take: Take, outcome: Outcome) -> None:
        """The group is done with the message. Who called ``decide`` before reopens it on failure."""
        if take.state is not State.SETTLING:
            take.move(State.SETTLING)
            batch.on_rollback(partial(self.reopen, take))
        save_outcome(batch, take.group.name, take.commit_offset, outcome.value)
        batch.on_commit(take.close)

    def decide(self, take: Take) -> None:
        """Let its time not run out any more: it will be settled, or else reopened."""
        if take.state is not State.SETTLING:
            take.move(State.SETTLING)

    def reopen(self, take: Take) -> None:
        """What it was reserved or decided for came to nothing: it is as before."""
        take.move_back()
        if take.state is State.FREE:
            self._polls.wake(take.queue.topic)  # they looked in vain meanwhile
        else:
            self.expect(take)

    def free(self, take: Take) -> None:
        """Let any receiver of the group have the message, and wake those who wait."""
        take.move(State.FREE)
        self._polls.wake(take.queue.topic)

    def expect(self, take: Take) -> None:
        """Something happens with it when its time is up."""
        is_checked = take.group.name == CHECKED_HALF_GROUP
        (self.checks if is_checked else self.expiries).expect(take)
