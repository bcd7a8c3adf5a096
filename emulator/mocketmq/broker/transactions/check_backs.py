"""Check-backs: asks producers about half messages that they have not decided.

Works as in RocketMQ (docs/protocol/remoting.md §9; TransactionalMessageServiceImpl of 4.9.8), but at exact
instants of the broker's clock. RocketMQ scans every ``transaction_check_interval`` for half messages older
than ``transaction_timeout``. Here a half message is checked when that timeout is over, and then after each
interval, ``transaction_check_max`` times. One interval later it moves to ``TRANS_CHECK_MAX_TIME_TOPIC``. Each
check asks one producer of the group, round robin, and counts even if no producer is connected. Checks that
fell due while no broker ran are made one interval after the start, as in RocketMQ.

A check is committed before the producer is asked. A clock move stops at each check until the producers have
answered, for at most ``answer_s`` real seconds, and waits only once for a silent producer. A connected
producer can therefore decide at the first check, and its commit is stored at the instant of that check.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mocketmq.broker.consuming.expiries import Expiry
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.registry.clients import Channel
from mocketmq.broker.registry.registry import Registry
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
from mocketmq.schedule.timer import Due, DueNow, Timer
from mocketmq.settings import Settings
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

ANSWER_S: Final = 3.0
"""Maximum real time for which a clock move waits for a producer's answer."""
BATCH: Final = 64
"""Maximum number of half messages that are read together, with their bodies."""


class CheckAnswers:
    """Lets a clock move wait for producers' answers to check-backs, by the log offset of the half message."""

    def __init__(self) -> None:
        self._awaited: dict[int, asyncio.Event] = {}

    def note(self, log_offset: int) -> None:
        """Note that the half message's producer has answered."""
        if log_offset in self._awaited:
            self._awaited[log_offset].set()

    async def wait(self, log_offsets: Iterable[int], longest_s: float) -> Collection[int]:
        """Wait up to ``longest_s`` real seconds for all answers. Returns the unanswered half messages."""
        self._awaited = {log_offset: asyncio.Event() for log_offset in log_offsets}
        try:
            async with asyncio.timeout(longest_s):
                for event in self._awaited.values():
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            awaited, self._awaited = self._awaited, {}
        return [log_offset for log_offset, event in awaited.items() if not event.is_set()]


@dataclass(eq=False, repr=False)
class CheckBacks:
    """A due source that asks producers, and abandons half messages after the last check."""

    _store: Store
    _settings: Settings
    _registry: Registry
    _receipts: Receipts
    _timer: Timer
    _half_messages: HalfMessages
    asked: int = field(init=False, default=0)  # number of check-backs sent since the start
    answer_s: float = field(init=False, default=ANSWER_S)  # longest real time that a clock move waits
    batch: int = field(init=False, default=BATCH)
    _move: int = field(init=False, default=0)
    _silent: set[Channel] = field(init=False, default_factory=set)  # no answer during this clock move
    _answers: CheckAnswers = field(init=False, default_factory=CheckAnswers)

    def __post_init__(self) -> None:
        self._half_messages.on_answer = self._answers.note

    def load(self) -> None:
        """Postpone checks that fell due while no broker ran."""
        group = self._receipts.groups.find_group(CHECKED_HALF_GROUP)
        now_us = self._store.clock.now_us()
        for receipt in group.receipts.values() if group else ():
            if receipt.visible_us <= now_us:
                receipt.visible_us = now_us + self._settings.transaction_check_interval_us
                self._receipts.checks.add_receipt(receipt)

    def next_due_us(self) -> int | None:
        return self._receipts.checks.next_us()

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Make the due checks, and abandon half messages after their last check."""
        is_moving = self._timer.is_moving
        if is_moving:  # one instant at a time, because answers may change later entries
            until_us = self._receipts.checks.next_us() or until_us
        expired = self._receipts.checks.pop(until_us, self.batch)
        checked: list[HalfMessage] = []
        try:
            halves = {
                half.receipt: half for half in await self._half_messages.halves([e.receipt for e in expired])
            }
            expired = [expiry for expiry in expired if expiry.receipt in halves]
            undecided = None
            if any(receipt.times >= self._settings.transaction_check_max for receipt in halves):
                [undecided] = (await self._registry.topics.ensure(UNDECIDED_TOPIC, 1)).queues

            def due_now() -> Iterator[Due]:
                next_us = self._receipts.checks.next_us()
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
            self._receipts.checks.put_back(expired)
        if checked:
            pass_point("transactions.checked")
            self._store.clock.reach(until_us)
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
        """Store the check. Add the half message to ``checked`` if its producer must be asked."""
        receipt = half.receipt
        if not expiry.holds:
            return
        if self._half_messages.is_kept(receipt):
            self._half_messages.settle_kept(batch, receipt)
        elif not self._registry.brokers.broker_of_queue(half.queue).is_reachable:  # asked later
            next_us = batch.now_us + self._settings.transaction_check_interval_us
            self._receipts.set_visible(batch, receipt, next_us, receipt.times, receipt.pop_ms)
        elif undecided and receipt.times >= self._settings.transaction_check_max:
            batch.append(undecided, draft_of(half.stored), "abandoned", real_queue_key=half.queue.key)
            self._half_messages.give_up(batch, receipt, Outcome.ABANDONED)
        else:
            next_us = receipt.visible_us + self._settings.transaction_check_interval_us
            if next_us <= batch.now_us:
                next_us = batch.now_us + self._settings.transaction_check_interval_us
            self._receipts.set_visible(batch, receipt, next_us, receipt.times + 1, receipt.pop_ms)
            checked.append(half)

    def _ask(self, halves: Sequence[HalfMessage]) -> dict[int, Channel]:
        """Ask one producer about each half message. Returns the producers by log offset."""
        asked = {}
        for half in halves:
            channel = self._registry.clients.next_producer(
                half.producer_group or "", self._registry.brokers.index_of(half.queue)
            )
            if channel is not None:
                channel.check_transaction(_asked(half), half.queue)
                asked[half.stored.log_offset] = channel
        self.asked += len(asked)
        return asked

    async def _hear(self, asked: dict[int, Channel]) -> None:
        """Wait until the producers have answered, or ``answer_s`` is over."""
        if self._move != self._timer.moves:
            self._move, self._silent = self._timer.moves, set()
        awaited = [offset for offset, channel in asked.items() if channel not in self._silent]
        unanswered = await self._answers.wait(awaited, self.answer_s)
        self._silent |= {asked[offset] for offset in unanswered}


def _asked(half: HalfMessage) -> StoredMessage:
    """The half message in the form that its producer receives."""
    properties = decode_properties(half.stored.properties) | {CHECK_TIMES: str(half.receipt.times)}
    return half.stored._replace(properties=encode_properties(properties, 2 * MAX_PROPERTIES_BYTES))
