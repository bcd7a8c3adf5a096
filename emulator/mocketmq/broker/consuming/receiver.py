"""Consume by receipt: receive, acknowledge, give back, extend.

The life of a message for one group::

                    receive                    acknowledge
      visible ────────────────► in flight ──────────────────► acked
         ▲                        │ │  give back
         │ invisible time ends    │ └─────────────► retried (parked, then in %RETRY%group) or dead
         └────────────────────────┘   invisible time ends once too often ───► dead (%DLQ%group)

A message in flight is invisible to the rest of its group until its invisible time ends. Each step is
committed before it is answered, so a kill loses no acknowledgement and no receipt. What settles a message, or
extends its time, is durable by then, too. A receive does not wait for that: a power cut that undoes it costs
one more delivery. ``selection`` chooses the messages, and ``receipt`` has the states in full.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Generic, NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.expiries import Expiry
from mocketmq.broker.consuming.handles import Handle, find_receipt, handle_of, next_pop_ms, renewed
from mocketmq.broker.consuming.load import Load
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipt import Outcome, Receipt
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import Retries, Retry
from mocketmq.broker.consuming.selection import ReceiveRequest, Selection
from mocketmq.broker.filters.filter import EVERYTHING, Filter
from mocketmq.broker.registry.registry import Registry
from mocketmq.clock import steady_us
from mocketmq.contracts.contract import Contract
from mocketmq.errors import OverLimitError, ReceiptError, RefusedError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import retry_topic
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.timer import BATCH
from mocketmq.store.messages import messages_at
from mocketmq.store.store import Store
from mocketmq.store.wal_syncs import Waiter
from mocketmq.store.writer import Batch, Work

MAX_MESSAGES = 256


class InFlightMessage(NamedTuple):
    """A message given to a consumer, and the handle by which it is settled."""

    message: StoredMessage
    topic: str  # as the consumer knows it: a retry bears its original topic
    handle: str
    times: int
    first_taken_us: int  # by this group
    visible_us: int
    pop_ms: int  # 0 unless it was popped

    @property
    def reconsumed(self) -> int:
        """How many deliveries to this group came before this one, as retries or after invisible times."""
        return self.message.reconsume_times + self.times - 1


class SettledBy(NamedTuple, Generic[Handle]):
    """The handles that were settled, and the errors of the others."""

    done: list[Handle]
    failed: list[tuple[Handle, ReceiptError]]


Settled = SettledBy[str]
"""Messages settled by their receipt handles."""


class Receiver:
    """Receives and settles. A due source: a message that is not settled in time becomes visible again."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        receipts: Receipts,
        polls: Polls,
        ledger: Ledger,
        retries: Retries,
        contract: Contract | None,
    ) -> None:
        self._database = store.database
        self._writer = store.writer
        self._clock = store.clock
        self._topics = registry.topics
        self._groups = groups
        self._receipts = receipts
        self._polls = polls
        self._ledger = ledger
        self._retries = retries
        self._statistics = registry.statistics
        self._most_in_flight = contract.in_flight if contract else None
        self._over_limit = contract.over_limit if contract else ""
        self._abandoned: set[asyncio.Task[None]] = set()
        self._reading = asyncio.Lock()  # others wait, and read nothing if their client goes meanwhile

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
        load: Load | None = None,
    ) -> list[InFlightMessage]:
        """Receive up to ``max_messages``, oldest first, retries of the topic among them.

        Their bodies have up to ``MAX_RECEIVED_BYTES`` together, unless the first alone has more.
        Waits up to ``wait_s`` real seconds for the first. The whole group skips messages that do not pass the
        filter, as upstream. ``ordered`` withholds the next messages of each queue until those in flight are
        settled. A caller that is cancelled has received nothing. When as many messages are in flight for the
        group as a contract allows, one that does not wait gets OverLimitError.
        """
        topic = await self._topics.for_receive(topic_name)
        group = await self._groups.for_consuming(group_name)
        return await self.receive_request(
            ReceiveRequest(group, topic, max_messages, tag_filter, ordered, load=load), invisible_us, wait_s
        )

    async def receive_request(
        self, request: ReceiveRequest, invisible_us: int, wait_s: float = 0.0
    ) -> list[InFlightMessage]:
        """As ``receive``, for a group and from a topic that need not be open to clients."""
        group, topic_name = request.group, request.topic.name

        async def look() -> list[InFlightMessage]:
            limit = min(request.limit, self._room(request))
            if not limit and wait_s <= 0:
                in_flight = f"Messages of {topic_name} in flight for {group.name}: {self._most_in_flight}"
                raise OverLimitError(f"{self._over_limit} {in_flight}")
            # The topic may have been changed or deleted meanwhile.
            now = request._replace(topic=self._topics.get(topic_name), limit=limit)
            return await self._receive_unless_cancelled(now, invisible_us) if limit else []

        sources = (topic_name, retry_topic(group.name))
        if request.ordered or self._most_in_flight is not None:
            return await self._polls.wait_for(look, sources, wait_s, also=group.announcing)
        return await self._polls.wait_for(look, sources, wait_s)

    def _room(self, request: ReceiveRequest) -> int:
        """How many more messages of the topic the group may have in flight."""
        group, most = request.group, self._most_in_flight
        if most is None or len(group.receipts) + request.limit <= most:
            return request.limit
        return max(
            most
            - sum(
                receipt.is_in_flight and receipt.topic == request.topic.name
                for receipt in group.receipts.values()
            ),
            0,
        )

    async def _receive_unless_cancelled(
        self, request: ReceiveRequest, invisible_us: int
    ) -> list[InFlightMessage]:
        begun = asyncio.Event()
        receiving = asyncio.create_task(self._take(request, invisible_us, begun))
        try:
            return await asyncio.shield(receiving)
        except asyncio.CancelledError:
            if not begun.is_set():  # nobody waits for the messages, so none is read
                receiving.cancel()
                raise
            give_back = asyncio.create_task(self._release_result(request, receiving))
            self._abandoned.add(give_back)
            give_back.add_done_callback(self._abandoned.discard)
            raise

    async def _release_result(
        self, request: ReceiveRequest, receiving: asyncio.Task[list[InFlightMessage]]
    ) -> None:
        try:
            with suppress(RefusedError):  # then nothing was taken
                await self._release(request.group, await receiving)
        finally:
            if request.load is not None:
                request.load.settle(0)

    async def _take(
        self, request: ReceiveRequest, invisible_us: int, begun: asyncio.Event
    ) -> list[InFlightMessage]:
        """Take messages; once ``begun`` is set, what is taken must be undone by who does not want it."""
        group = request.group
        selection = Selection(self._database, self._topics, request)

        def work(batch: Batch) -> None:
            group.check_exists()
            self._topics.get(request.topic.name)
            selection.drop_closed()
            visible_us = batch.now_us + invisible_us
            pop_ms = next_pop_ms(receipt for _, receipt in selection.chosen) if request.popped else 0
            for message, receipt in selection.chosen:
                self._receipts.give(batch, receipt, visible_us, pop_ms)
                if message.parked_offset is not None:
                    self._ledger.pulled(batch, message.log_offset, group.name)
            for receipt in selection.for_others:
                self._receipts.record_free(batch, receipt)
            for group_queue in {
                receipt.group_queue
                for receipt in (*selection.for_others, *(receipt for _, receipt in selection.chosen))
            }:
                group_queue.save(batch, group_queue.next_offset)

        began_us = steady_us()
        try:
            async with self._reading:
                begun.set()
                await selection.select()
            took_us = steady_us() - began_us
            self._statistics.read(len(selection.chosen), took_us)
            if not selection.chosen and not selection.for_others:
                return []
            await self._writer.commit(work, until="visible")
        except BaseException:
            for _, receipt in selection.chosen:
                self._receipts.reopen(receipt)
            raise
        pass_point("receive.taken")
        selection.drop_closed()
        self._statistics.given(
            request.topic.name, group.name, [message for message, _ in selection.chosen], took_us
        )
        for receipt in selection.for_others:
            self._polls.wake(receipt.queue.topic)
        return [
            InFlightMessage(
                message,
                receipt.topic,
                handle_of(group, receipt),
                receipt.times,
                receipt.first_taken_us,
                receipt.visible_us,
                receipt.pop_ms,
            )
            for message, receipt in selection.chosen
        ]

    # Settle

    async def acknowledge(self, group_name: str, handles: Sequence[Handle]) -> SettledBy[Handle]:
        """Acknowledge messages. Handles that are not valid fail, without harm to the others."""
        settled: SettledBy[Handle] = await self._writer.commit(self._acknowledging(group_name, handles))
        pass_point("receive.settled")
        return settled

    def begin_to_acknowledge(self, group_name: str, handles: Sequence[Handle], waiter: Waiter) -> None:
        """As ``acknowledge``, for a waiter that is told later."""
        self._writer.put(self._acknowledging(group_name, handles), waiter)

    def _acknowledging(self, group_name: str, handles: Sequence[Handle]) -> Work:
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> SettledBy[Handle]:
            settled: SettledBy[Handle] = SettledBy([], [])
            for handle, receipt in valid(group, handles, batch.now_us, settled):
                self._receipts.settle(batch, receipt, Outcome.ACKED)
                if receipt.is_delayed:
                    self._ledger.acked(batch, receipt.log_offset)
                settled.done.append(handle)
            return settled

        return work

    async def give_back(self, group_name: str, handles: Sequence[str], delay_level: int = 0) -> Settled:
        """Retry messages later that could not be consumed, or make them dead letters.

        ``delay_level`` as in :meth:`Retries.prepare`. Handles that are not valid fail, without harm
        to the others.
        """
        group = self._groups.of_client(group_name)
        settled = Settled([], [])
        retries: dict[str, Retry] = {}
        for handle, receipt in valid(group, handles, self._clock.now_us(), settled):
            message = (await messages_at(self._database, [receipt.log_offset])).get(receipt.log_offset)
            if message is None:
                settled.failed.append(
                    (handle, ReceiptError(f"the message of receipt {handle!r} was removed"))
                )
                continue
            retries[handle] = await self._retries.prepare(group.registered, message, delay_level)

        def work(batch: Batch) -> None:
            for handle, receipt in valid(group, retries, batch.now_us, settled):
                retry = retries[handle]
                self._retries.append(batch, retry)
                self._receipts.settle(batch, receipt, Outcome.DEAD if retry.is_dead else Outcome.RETRIED)
                batch.on_commit(partial(self._statistics.gave_back, receipt.topic, group.name))
                settled.done.append(handle)

        await self._writer.commit(work)
        pass_point("receive.settled")
        return settled

    async def extend(self, group_name: str, handles: Sequence[str], invisible_us: int) -> Settled:
        """Keep the messages invisible for ``invisible_us`` from now; 0 makes them visible at once."""
        settled: Settled = await self._writer.commit(
            partial(self.extend_in, group_name, handles, invisible_us)
        )
        return settled

    def extend_in(self, group_name: str, handles: Sequence[str], invisible_us: int, batch: Batch) -> Settled:
        """As ``extend``, in this transaction."""
        group = self._groups.of_client(group_name)
        settled = Settled([], [])
        for handle, receipt in valid(group, handles, batch.now_us, settled):
            self._receipts.set_visible(
                batch, receipt, batch.now_us + invisible_us, receipt.times, receipt.pop_ms
            )
            settled.done.append(handle)
        return settled

    async def change(
        self, group_name: str, handle: Handle, invisible_us: int, *, same_handle: bool = False
    ) -> Handle:
        """Extend a popped message, whose handle changes with that unless ``same_handle``.

        Raises ReceiptError.
        """
        group = self._groups.of_client(group_name)

        def work(batch: Batch) -> Handle:
            receipt = find_receipt(group, handle, batch.now_us)
            pop_ms = receipt.pop_ms if same_handle else next_pop_ms([receipt])
            self._receipts.set_visible(batch, receipt, batch.now_us + invisible_us, receipt.times, pop_ms)
            return renewed(handle, pop_ms) if pop_ms else handle

        changed: Handle = await self._writer.commit(work)
        pass_point("receive.settled")
        return changed

    async def release(self, group_name: str, taken: Sequence[InFlightMessage]) -> None:
        """Undo a receive whose answer was lost: the messages are visible again, and it does not count."""
        await self._release(self._groups.of_client(group_name), taken)

    async def _release(self, group: ConsumingGroup, taken: Sequence[InFlightMessage]) -> None:
        await self.take_back(group, [(one.message.log_offset, one.times) for one in taken])

    async def take_back(self, group: ConsumingGroup, given: Sequence[tuple[int, int]]) -> None:
        """Undo deliveries, given by log offset and number of deliveries by then; they do not count.

        A message that was settled or received again since stays as it is.
        """

        def work(batch: Batch) -> None:
            for log_offset, times in given:
                receipt = group.receipts.get(log_offset)
                if receipt is not None and receipt.times == times and receipt.can_be_taken_back:
                    self._receipts.take_back(batch, receipt)

        await self._writer.commit(work, until="visible")

    # Invisible times that end

    def next_due_us(self) -> int | None:
        """When the next invisible time ends."""
        return self._receipts.expiries.next_us()

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Messages that were not settled in time become visible, or dead letters after the last retry."""
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
        elif expiry.holds:  # else it was settled, extended or taken back since
            self._retries.append(batch, dead_letter)
            self._receipts.settle(batch, expiry.receipt, Outcome.DEAD)

    def _set_free(self, expiry: Expiry) -> None:
        if expiry.holds:
            self._receipts.set_free(expiry.receipt)

    async def close(self) -> None:
        """Wait until messages of cancelled receivers are visible again."""
        await asyncio.gather(*self._abandoned, return_exceptions=True)


def valid(
    group: ConsumingGroup,
    handles: Iterable[Handle],
    now_us: int,
    settled: SettledBy[Handle],
    check: Callable[[Handle], None] = lambda _handle: None,
) -> Iterator[tuple[Handle, Receipt]]:
    """Each valid handle with its receipt; the others are added to ``settled.failed``.

    ``check`` raises ReceiptError for handles that the caller refuses. Handles are checked one by one, so that
    the second of two equal ones is refused.
    """
    for handle in handles:
        try:
            check(handle)
            receipt = find_receipt(group, handle, now_us)
        except ReceiptError as error:
            settled.failed.append((handle, error))
        else:
            yield handle, receipt
