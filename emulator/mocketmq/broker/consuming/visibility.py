"""Ends invisible times, which makes messages visible or dead, and renews them for gRPC push consumers.

A message that was not settled in time becomes visible again, or a dead letter. A gRPC push consumer requests
no invisible time. Its messages are invisible for a minute at first. While the client is alive, the broker
renews this time shortly before it ends, for up to three hours in total, as RocketMQ does
(ReceiptHandleProcessor, 5.3.3).
"""

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from mocketmq.broker.consuming.expiries import SPARE, Expiry
from mocketmq.broker.consuming.receipt import Outcome, Receipt
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.retries import Retries, Retry
from mocketmq.broker.consuming.settler import Settler
from mocketmq.clock import US_PER_S
from mocketmq.errors import GroupNotFoundError
from mocketmq.invisible_time import RENEWED_US
from mocketmq.schedule.timer import BATCH, Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.messages import messages_at


class ExpiredReceipts:
    """The due source of receipts whose invisible time ends."""

    def __init__(self, database: Database, receipts: Receipts, retries: Retries) -> None:
        self._database = database
        self._receipts = receipts
        self._retries = retries

    def next_due_us(self) -> int | None:
        return self._receipts.expiries.next_us()

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Make messages not settled in time visible again, or dead letters after their last retry."""
        expired = self._receipts.expiries.pop(until_us, BATCH)
        try:
            yield partial(self._due_now, expired, await self._dead_letters(expired))
        finally:
            self._receipts.expiries.put_back(expired)

    async def _dead_letters(self, expired: Sequence[Expiry]) -> dict[Receipt, Retry]:
        dead = [receipt for _, receipt in expired if receipt.group.gives_up(receipt)]
        messages = await messages_at(self._database, [receipt.log_offset for receipt in dead])
        return {
            receipt: await self._retries.prepare(receipt.group.registered, messages[receipt.log_offset], -1)
            for receipt in dead
            if receipt.log_offset in messages
        }

    def _due_now(self, expired: Sequence[Expiry], dead_letters: Mapping[Receipt, Retry]) -> Iterator[Due]:
        next_us = self._receipts.expiries.next_us()
        for expiry in expired:
            if next_us is not None and next_us < expiry.instant_us:
                break
            letter = dead_letters.get(expiry.receipt)
            yield Due(expiry.instant_us, partial(self._expire, expiry, letter))
        if next_us is not None:
            yield Due(next_us, None)

    def _expire(self, expiry: Expiry, dead_letter: Retry | None, batch: Batch) -> None:
        if dead_letter is None:
            batch.on_commit(partial(self._set_free, expiry))
        elif expiry.holds:  # otherwise the message was settled or extended meanwhile
            self._retries.append(batch, dead_letter)
            self._receipts.settle(batch, expiry.receipt, Outcome.DEAD)

    def _set_free(self, expiry: Expiry) -> None:
        if expiry.holds:
            self._receipts.set_free(expiry.receipt)


_STEPS_US: Final = tuple(minutes * 60 * US_PER_S for minutes in (1, 3, 5, 10, 30, 60))
_BEFORE_US: Final = 10 * US_PER_S
_LONGEST_US: Final = 3 * 3_600 * US_PER_S
_AFTER_CLIENT_US: Final = US_PER_S
"""Time after a client's disconnection at which its messages become visible again."""


@dataclass(slots=True)
class _Held:
    client_id: str
    is_alive: Callable[[], bool]
    until_us: int  # all times here are by the emulated clock
    end_us: int
    renewed: int = 0


_Key = tuple[str, str]  # group and receipt handle


class Renewals:
    """A due source that renews invisible times. ``changed`` makes the timer ask for the next instant."""

    def __init__(self, settler: Settler, changed: Callable[[], None]) -> None:
        self._settler = settler
        self._changed = changed
        self._held: dict[_Key, _Held] = {}
        self._due: list[tuple[int, _Key]] = []  # a heap, with stale entries until they outnumber the others
        self._crowded = SPARE

    def hold(
        self, client_id: str, is_alive: Callable[[], bool], group: str, messages: Iterable[InFlightMessage]
    ) -> None:
        """Renew these messages while ``is_alive`` returns True for their client."""
        for one in messages:
            end_us = one.visible_us - RENEWED_US + _LONGEST_US
            self._held[group, one.handle] = _Held(client_id, is_alive, one.visible_us, end_us)
            self._add(one.visible_us - _BEFORE_US, (group, one.handle))
        self._changed()

    def _add(self, due_us: int, key: _Key) -> None:
        heapq.heappush(self._due, (due_us, key))
        if len(self._due) > self._crowded:
            self._due = [entry for entry in self._due if self._is_next(*entry)]
            heapq.heapify(self._due)
            self._crowded = 2 * len(self._due) + SPARE

    def drop(self, group: str, handles: Iterable[str]) -> None:
        """Stop renewing messages after the client has settled them or set their invisible time itself."""
        for handle in handles:
            self._held.pop((group, handle), None)

    async def release(self, client_id: str) -> None:
        """Make the messages of a disconnected client visible again after a second."""
        gone: dict[str, list[str]] = {}
        for (group, handle), held in list(self._held.items()):
            if held.client_id == client_id:
                gone.setdefault(group, []).append(handle)
        for group, handles in gone.items():
            self.drop(group, handles)
            await self._settler.extend(group, handles, _AFTER_CLIENT_US)

    def next_due_us(self) -> int | None:
        while self._due and not self._is_next(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _is_next(self, due_us: int, key: _Key) -> bool:
        held = self._held.get(key)
        return held is not None and held.until_us - _BEFORE_US == due_us

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Renew messages whose clients are alive."""
        due: list[tuple[int, _Key]] = []
        while len(due) < BATCH and (next_us := self.next_due_us()) is not None and next_us <= until_us:
            due.append(heapq.heappop(self._due))
        try:
            yield partial(self._due_now, due)
        finally:
            for entry in due:  # _renew() skips stale entries
                heapq.heappush(self._due, entry)

    def _due_now(self, due: Sequence[tuple[int, _Key]]) -> Iterator[Due]:
        for due_us, key in due:
            yield Due(due_us, partial(self._renew, due_us, key))
            if due_us >= due[0][0] + _STEPS_US[0] - _BEFORE_US:
                break
        if due:
            yield Due(due[0][0] + _STEPS_US[0] - _BEFORE_US, None)  # the first entry may be due again by then

    def _renew(self, due_us: int, key: _Key, batch: Batch) -> None:
        if not self._is_next(due_us, key):
            return
        held = self._held[key]
        group, handle = key
        if batch.now_us < held.end_us and held.is_alive():
            step_us = _STEPS_US[min(held.renewed, len(_STEPS_US) - 1)]
            with suppress(GroupNotFoundError):
                if self._settler.extend_in(group, [handle], step_us, batch).done:
                    batch.on_commit(partial(self._renewed, key, held, batch.now_us + step_us))
                    return
        batch.on_commit(partial(self.drop, group, [handle]))

    def _renewed(self, key: _Key, held: _Held, until_us: int) -> None:
        held.renewed += 1
        held.until_us = until_us
        self._add(until_us - _BEFORE_US, key)
