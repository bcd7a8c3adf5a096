"""The timer: fires due entries in order of due time, also during a clock move.

The timer never polls. Each source (the level queues, expiring receipts, …) reports its next due time. The
timer sleeps until the earliest due time, or until a source announces an earlier one. The timer then reads the
clock again, because event loops may wake early, and merges the due entries of all sources into one
transaction of bounded size. Entries fire in order across sources, no source starves another, and sends wait
only briefly.

A clock move runs the same loop without sleeping: each entry on the way fires at its own due time, and the
clock reaches the target last.
"""

import asyncio
import heapq
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from mocketmq.clock import Clock, check_move, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.failpoint import pass_point
from mocketmq.store.batch import Batch
from mocketmq.store.writer import MAX_BATCH_BYTES, Writer


class Due(NamedTuple):
    """An event that is due, and the function that handles it in the timer's transaction."""

    instant_us: int
    fire: Callable[[Batch], None] | None  # None ends the batch; no later entry can fire in it
    delivers: int = 0  # number of messages that firing makes visible


DueNow = Callable[[], Iterator[Due]]
"""Yields a source's due entries, earliest first.

Runs while the transaction is built, so no send or settlement can happen in between. The last ``Due`` has no
``fire`` if the source has more entries than it prepared.
"""


class DueSource(Protocol):
    """A source of entries that become due."""

    def next_due_us(self) -> int | None:
        """The earliest due time, or None if nothing will become due. Must be cheap."""

    @abstractmethod
    def firing(self, until_us: int) -> AbstractAsyncContextManager[DueNow]:
        """Prepare a batch of entries due by ``until_us``; the timer writes the transaction inside the block.

        Fired entries change memory through ``Batch.on_commit``. Entries that did not fire must be unchanged
        after the block.
        """


def not_before(source: DueSource) -> Iterator[Due]:
    """Stand in for a source with nothing due, but end the batch before an entry that it gets meanwhile."""
    due_us = source.next_due_us()
    if due_us is not None:
        yield Due(due_us, None)


log = logging.getLogger(__name__)

RETRY_S = 0.1
"""Real time between retries after the store has refused a delivery."""

BATCH: Final = 128
"""Number of messages and other entries from which no more is fired in a transaction.

Enough to keep the disk busy without delaying sends and pulls. With 256, the messages of a herd are still
delivered on time, but the pulls of its consumers fall behind.
"""

FORMING_US: Final = 5_000
"""Real time after which no more is fired in a transaction. Sends wait for the whole transaction, which takes
two to three times as long as its forming."""

LONGEST_SLEEP_S = 30.0
"""Maximum sleep in real time. Needed because the event loop's clock stops while the machine is suspended."""

Arrive = Callable[[int, int, Callable[[], bool]], Awaitable[bool]]
"""``arrive(from_us, to_us, is_clear)`` sets the clock and records the move, in one transaction.

Returns False and does nothing if ``is_clear()`` is false, because a message due by ``to_us`` has been sent.
"""


class Fired(NamedTuple):
    """Result of one batch: number of messages that became visible, and the instant of the last entry."""

    delivered: int
    instant_us: int


class Move(NamedTuple):
    """The outcome of a clock move. Instants in emulated microseconds."""

    from_us: int
    now_us: int
    fired: int


class Timer:
    """Owns the task that fires due entries. ``lock`` serializes deliveries, clock moves and interventions."""

    def __init__(self, clock: Clock, writer: Writer, *, retry_s: float = RETRY_S) -> None:
        self.lock = asyncio.Lock()
        self.moves = 0  # number of clock moves begun since the start
        self.is_moving = False
        self._clock = clock
        self._writer = writer
        self._retry_s = retry_s
        self._sources: list[DueSource] = []
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add_source(self, source: DueSource) -> None:
        self._sources.append(source)

    def changed(self) -> None:
        """Wake the timer, because an entry may now be due earlier than the timer expects."""
        self._changed.set()

    def next_due_us(self) -> int | None:
        return min((due for s in self._sources if (due := s.next_due_us()) is not None), default=None)

    def start(self) -> asyncio.Task[None]:
        """Start firing, beginning with the entries that became due while the broker was down."""
        self._task = asyncio.create_task(self._run(), name="timer")
        return self._task

    async def close(self) -> None:
        """Stop after the current batch. May be called twice."""
        task, self._task = self._task, None
        if task is not None:
            async with self.lock:
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def intervention(self) -> AsyncIterator[None]:
        """Hold the lock, so that no message is delivered. On exit, release it and wait for durability.

        Commits inside the block therefore need only be visible.
        """
        async with self.lock:
            yield
        await self._writer.synced()

    async def move(self, target: Callable[[int], int], arrive: Arrive) -> Move:
        """Move the clock to ``target(now_us)``, and fire all entries due by then in order.

        Messages sent during the move are included. Raises ClockError for a target in the past, and
        StoreUnavailableError if a delivery cannot be stored; the clock then stays at the last fired entry.
        """
        async with self.intervention():
            self.moves += 1
            self.is_moving = True
            try:
                return await self._move(target, arrive)
            finally:
                self.is_moving = False

    async def _move(self, target: Callable[[int], int], arrive: Arrive) -> Move:
        from_us = self._clock.now_us()
        # Entries already due must fire first, because the target may be the next due time after them.
        fired = await self._fire_all(from_us)
        target_us = target(from_us)
        check_move(from_us, target_us)
        is_there = False
        while not is_there:
            fired += await self._fire_all(target_us)
            pass_point("clock.fired")
            is_there = await arrive(from_us, target_us, partial(self._is_clear, target_us))
        self.changed()
        return Move(from_us, self._clock.now_us(), fired)

    async def _run(self) -> None:
        is_failing = False
        while True:
            self._changed.clear()
            try:
                due_us = self.next_due_us()
                wait_s = None if due_us is None else self._clock.seconds_until(due_us)
                if wait_s == 0:
                    async with self.lock:
                        await self._fire(self._clock.now_us())
            except Exception as error:  # a defect must not stop all deliveries
                if not is_failing:
                    is_known = isinstance(error, EmulatorError)
                    log.error(
                        "delivery of due messages failed, retrying every %g s: %s",
                        RETRY_S,
                        error,
                        exc_info=None if is_known else error,
                    )
                is_failing = True
                wait_s = self._retry_s
            else:
                if is_failing:
                    log.warning("delivery of due messages works again")
                is_failing = False
                if wait_s == 0:
                    continue
            try:
                async with asyncio.timeout(
                    LONGEST_SLEEP_S if wait_s is None else min(wait_s, LONGEST_SLEEP_S)
                ):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _is_clear(self, until_us: int) -> bool:
        due_us = self.next_due_us()
        return due_us is None or due_us > until_us

    async def _fire_all(self, until_us: int) -> int:
        """Fire all entries due by ``until_us``, advancing the clock; return the number of deliveries."""
        fired = 0
        while not self._is_clear(until_us):
            step = await self._fire(until_us)
            fired += step.delivered
            self._clock.reach(step.instant_us)
        return fired

    async def _fire(self, until_us: int) -> Fired:
        """Fire one batch of entries due by ``until_us``.

        A source that fails to prepare does not stop the others, except during a clock move.
        """
        now_us = self._clock.now_us()
        failures: list[Exception] = []
        try:
            async with AsyncExitStack() as stack:
                prepared: list[DueNow] = []
                for source in self._sources:
                    try:
                        prepared.append(await self._prepare(stack, source, until_us))
                    except Exception as error:
                        if self.is_moving:
                            raise
                        failures.append(error)
                # During a clock move the store time jumps to the due time. A separate transaction keeps it
                # from overtaking an earlier send, because all earlier sends are then committed and in their
                # sources.
                work = partial(self._merge, prepared, until_us)
                fired: Fired = await self._writer.commit(work, alone=until_us > now_us, until="visible")
            if failures:
                raise failures[0]
            return fired
        finally:
            failures.clear()  # their tracebacks refer to this frame, and so to the prepared messages

    async def _prepare(self, stack: AsyncExitStack, source: DueSource, until_us: int) -> DueNow:
        due_us = source.next_due_us()
        if due_us is None or due_us > until_us:
            return partial(not_before, source)
        return await stack.enter_async_context(source.firing(until_us))

    def _merge(self, prepared: Sequence[DueNow], until_us: int, batch: Batch) -> Fired:
        delivered, left, instant_us = 0, BATCH, self._clock.now_us()
        end_us = steady_us() + FORMING_US
        most_bytes = batch.bytes + MAX_BATCH_BYTES
        for due in heapq.merge(*(due_now() for due_now in prepared), key=attrgetter("instant_us")):
            if (
                left <= 0
                or due.fire is None
                or due.instant_us > min(until_us, batch.until_us)
                or batch.bytes >= most_bytes
            ):
                break
            batch.reach(due.instant_us)
            due.fire(batch)
            delivered += due.delivers
            left -= due.delivers or 1
            instant_us = due.instant_us
            if steady_us() >= end_us:
                break
        return Fired(delivered - batch.undelivered, instant_us)
