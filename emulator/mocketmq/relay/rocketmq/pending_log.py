"""The pending log of a partition, a queue of the pending topic that records kept and settled messages.

Unlike Kafka, RocketMQ does not compact topics, and it removes messages older than its retention. The group's
offset in the log therefore marks the first record that is still needed. A record that has waited too long is
*carried*, that is, appended again at the end.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from typing import Final

from mocketmq.clock import US_PER_MS
from mocketmq.relay.judging import UnfitMessageError
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.relay.rocketmq.messages import read_pending, to_keep, to_settle
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.remoting.wire.record import WireRecord

log = logging.getLogger(__name__)

_SPARE: Final = 10_000
_BATCH_BYTES: Final = 1 << 20
_CARRIED: Final = 1_000
"""Maximum number of records that a call of ``carry`` checks."""


class PendingLog:
    """One log. ``known`` has the ids of kept messages that may arrive again. Methods raise ClusterError."""

    def __init__(self, queue: RemoteQueue, carry_after_us: int) -> None:
        self.spare = _SPARE
        self.queue = queue
        self.known: set[str] = set()
        self._carry_after_us = carry_after_us
        self._records: dict[Settled, int] = {}  # records of pending messages
        self._end = 0
        self._committed = -1
        self._appending = asyncio.Lock()

    async def restore(self, arrived: int) -> AsyncGenerator[Sequence[RelayedMessage | Settled], None]:
        """Read the pending messages, in order. Messages numbered from ``arrived`` on may arrive again."""
        self.known.clear()
        self._records.clear()
        self._committed = await self.queue.committed()
        start, self._end = await self.queue.oldest(), await self.queue.end()
        if self._committed < start:
            log.warning("%s starts at %s: earlier messages are lost", self.queue.name, start)
        async with aclosing(self.queue.read(max(self._committed, start), self._end)) as read:
            async for records in read:
                yield list(self._restored(records, arrived))

    def _restored(self, records: Sequence[WireRecord], arrived: int) -> Iterator[RelayedMessage | Settled]:
        for record in records:
            found = read_pending(record)
            if isinstance(found, RelayedMessage):
                self._records[_place(found)] = record.queue_offset
                if found.number >= arrived:
                    self.known.add(found.id)
                yield found
            elif found is not None:
                for place in found:
                    self._records.pop(place, None)
                yield from found

    def holds(self, pending: RelayedMessage) -> bool:
        """Whether the message is kept and not settled."""
        return _place(pending) in self._records

    async def keep(self, pending: Sequence[RelayedMessage]) -> dict[str, UnfitMessageError]:
        """Append these messages. Return the reasons, by id, for those that the broker will never accept."""
        unfit: dict[str, UnfitMessageError] = {}
        for batch in _batches(pending):
            try:
                await self._append(batch)
            except UnfitMessageError as error:
                if len(batch) == 1:
                    unfit[batch[0].id] = error
                else:
                    for each in batch:
                        unfit |= await self.keep([each])
        return unfit

    async def _append(self, batch: Sequence[RelayedMessage]) -> None:
        if len(batch) == 1:  # a single message may be larger than a batch
            offset = await self.queue.append(to_keep(batch[0]))
        else:
            offset = await self.queue.append_all([to_keep(each) for each in batch])
        for each in batch:
            self._records[_place(each)] = offset
            offset += 1
        self._end = max(self._end, offset)

    async def settle(self, left: Collection[RelayedMessage]) -> None:
        """Append records that settle these messages."""
        async with self._appending:  # the records that settle messages must come after the messages' own
            offset = await self.queue.append(to_settle(left))
        self._end = max(self._end, offset + 1)
        for each in left:
            self._records.pop(_place(each), None)

    async def commit(self) -> None:
        """Commit the offset of the first record that is still needed."""
        lowest = min(self._records.values(), default=self._end)
        if lowest != self._committed:
            await self.queue.commit(lowest)
            self._committed = lowest

    async def carry(self, now_us: int) -> bool:
        """Append old records again, and records that keep a sparse log long. Return whether more are left."""
        lowest = min(self._records.values(), default=self._end)
        until = min(lowest + _CARRIED, self._end)
        while lowest < until:
            pulled, lowest = await self.queue.pull(lowest)
            records = [record for record in pulled if record.queue_offset < until]
            old = [record for record in records if self._is_carried(record, now_us)]
            async with self._appending:
                found = {record.queue_offset: read_pending(record) for record in old}
                await self.keep(
                    [
                        each
                        for offset, each in found.items()
                        if isinstance(each, RelayedMessage) and self._records.get(_place(each)) == offset
                    ]
                )
            if not old or len(old) < len(records):
                return False
        return until < self._end

    def _is_carried(self, record: WireRecord, now_us: int) -> bool:
        too_long = self._end - record.queue_offset > self.spare + 3 * len(self._records)
        return too_long or now_us - record.store_ms * US_PER_MS >= self._carry_after_us


def _batches(pending: Sequence[RelayedMessage]) -> Iterator[list[RelayedMessage]]:
    """Divide these messages into batches small enough for a broker."""
    batch: list[RelayedMessage] = []
    size = 0
    for each in pending:
        if batch and size + len(each.content) > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.content)
    if batch:
        yield batch


def _place(pending: RelayedMessage) -> Settled:
    return Settled(pending.number, pending.due_us)
