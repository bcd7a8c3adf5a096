"""Ends invisible times: messages that were not settled in time are visible again, or become dead letters."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from mocketmq.broker.consuming.expiries import Expiry
from mocketmq.broker.consuming.receipt import Outcome, Receipt
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import Retries, Retry
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
        """The end of the next invisible time."""
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
        elif expiry.holds:  # else the message was settled, extended or taken back
            self._retries.append(batch, dead_letter)
            self._receipts.settle(batch, expiry.receipt, Outcome.DEAD)

    def _set_free(self, expiry: Expiry) -> None:
        if expiry.holds:
            self._receipts.set_free(expiry.receipt)
