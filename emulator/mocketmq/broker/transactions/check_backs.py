"""Ask producers about half messages that they have not decided about.

As upstream (docs/protocol/remoting.md §9; TransactionalMessageServiceImpl of 4.9.8), but at exact instants of
the broker's clock. Upstream looks every ``transaction_check_interval`` at all that are older than
``transaction_timeout``; here a half message is asked about once that timeout is over, and then again after
each interval, ``transaction_check_max`` times. After one interval more it goes to
``TRANS_CHECK_MAX_TIME_TOPIC``. One producer of the group is asked, in turns; a check counts even if none is
connected. Checks that fell due while no broker ran are made one interval after the start, as upstream.

A check is committed before the question is sent. A move of the clock stops at each check until the producers
have answered, but for no longer than :data:`ANSWER_S` real seconds; a move waits only once for a silent
producer. So a connected producer can decide at the first check, and its commit is stored at the instant of
that check. A hanging producer holds up a move once.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.consuming.expiries import Expiry
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.registry.clients import Channel
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.transactions.check_answers import CheckAnswers
from mocketmq.broker.transactions.half_messages import HalfMessage, HalfMessages
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage, draft_of
from mocketmq.message.names import CHECKED_HALF_GROUP, UNDECIDED_TOPIC
from mocketmq.message.properties import (
    CHECK_TIMES,
    MAX_PROPERTIES_BYTES,
    decode_properties,
    encode_properties,
)
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.timer import Timer
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

ANSWER_S: Final = 3.0
"""Real seconds for which a move of the clock waits for a producer's answer."""
BATCH: Final = 64
"""Half messages read at once, with their bodies."""


class CheckBacks:
    """Asks producers, and gives up on half messages in the end. A due source."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        consuming: Consuming,
        timer: Timer,
        half_messages: HalfMessages,
        answers: CheckAnswers,
        *,
        interval_us: int,
        most: int,
    ) -> None:
        self.asked = 0  # questions sent since the start
        self._clock = store.clock
        self._timer = timer
        self._topics = registry.topics
        self._groups = consuming.groups
        self._due = consuming.receipts.checks
        self._receipts = consuming.receipts
        self._half_messages = half_messages
        self._answers = answers
        self._clients = registry.clients
        self._interval_us = interval_us
        self._most = most
        self._move = 0
        self._silent: set[Channel] = set()  # who did not answer during the move

    def load(self) -> None:
        """Put off checks that fell due while no broker ran."""
        group = self._groups.find(CHECKED_HALF_GROUP)
        now_us = self._clock.now_us()
        for receipt in group.receipts.values() if group else ():
            if receipt.visible_us <= now_us:
                receipt.visible_us = now_us + self._interval_us
                self._due.add(receipt)

    def next_due_us(self) -> int | None:
        """When the next check is due."""
        return self._due.next_us()

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Make the checks that are due, and give up half messages that were checked too often."""
        is_moving = self._timer.is_moving
        if is_moving:  # one instant after the other, as answers may change what happens in between
            until_us = self._due.next_us() or until_us
        expired = self._due.pop(until_us, BATCH)
        checked: list[HalfMessage] = []
        try:
            halves = {
                half.receipt: half for half in await self._half_messages.halves([e.receipt for e in expired])
            }
            expired = [expiry for expiry in expired if expiry.receipt in halves]
            undecided = None
            if any(receipt.times >= self._most for receipt in halves):
                [undecided] = (await self._topics.ensure(UNDECIDED_TOPIC, 1)).queues

            def due_now() -> Iterator[Due]:
                next_us = self._due.next_us()
                for expiry in expired:
                    if next_us is not None and next_us < expiry.instant_us:
                        break
                    check = partial(self._check, checked, expiry, halves[expiry.receipt], undecided)
                    yield Due(expiry.instant_us, check)
                end_us = until_us if is_moving else next_us
                if end_us is not None:
                    yield Due(end_us, None)

            yield due_now
        finally:
            self._due.put_back(expired)
        if checked:
            pass_point("transactions.checked")
            self._clock.reach(until_us)
            asked = self._ask(checked)
            if is_moving:
                await self._hear(asked)

    def _check(
        self,
        checked: list[HalfMessage],
        expiry: Expiry,
        half: HalfMessage,
        undecided: Queue | None,
        batch: Batch,
    ) -> None:
        """Store that the half message is checked; adds it to ``checked`` if it is to be asked about."""
        receipt = half.receipt
        if not expiry.holds:
            return
        if self._half_messages.is_kept(receipt):
            self._half_messages.settle_kept(batch, receipt)
        elif undecided and receipt.times >= self._most:
            batch.append(undecided, draft_of(half.stored), real_queue_key=half.queue.key)
            self._half_messages.give_up(batch, receipt, Outcome.ABANDONED)
        else:
            next_us = receipt.visible_us + self._interval_us
            if next_us <= batch.now_us:
                next_us = batch.now_us + self._interval_us
            self._receipts.set_visible(batch, receipt, next_us, receipt.times + 1, receipt.pop_ms)
            checked.append(half)

    def _ask(self, halves: Sequence[HalfMessage]) -> dict[int, Channel]:
        """Ask one producer about each; returns the producers asked, by log offset."""
        asked = {}
        for half in halves:
            channel = self._clients.next_producer(half.producer_group or "")
            if channel is not None:
                channel.check_transaction(_asked(half), half.queue)
                asked[half.stored.log_offset] = channel
        self.asked += len(asked)
        return asked

    async def _hear(self, asked: dict[int, Channel]) -> None:
        """Wait until the producers have answered, or their time is up."""
        if self._move != self._timer.moves:
            self._move, self._silent = self._timer.moves, set()
        awaited = [offset for offset, channel in asked.items() if channel not in self._silent]
        unanswered = await self._answers.wait(awaited, ANSWER_S)
        self._silent |= {asked[offset] for offset in unanswered}


def _asked(half: HalfMessage) -> StoredMessage:
    """The half message as its producer gets it in the question."""
    properties = decode_properties(half.stored.properties) | {CHECK_TIMES: str(half.receipt.times)}
    return half.stored._replace(properties=encode_properties(properties, 2 * MAX_PROPERTIES_BYTES))
