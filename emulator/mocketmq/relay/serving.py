"""Serves one partition while this relay owns it, that is, keeps arrivals and forwards due messages.

A hold begins with an empty shelf, which is filled from the partition's pending log. If the relay loses the
hold, it takes over the partition again, until the assignment gives the partition to another relay.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Generic, TypeVar

from mocketmq.clock import US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError, as_emulator_error
from mocketmq.relay.partition import A, EarlierFirstError, Partition, RelayedMessage, RetryableError
from mocketmq.relay.shelf import OpenShelf, Shelf

log = logging.getLogger(__name__)

PAUSES_S: Final = (1, 2, 4, 8, 16, 30)
"""Increasing pauses before retries, in real seconds."""
GRACE_S: Final = 10.0
"""Real seconds that running steps get to finish when the partition is released."""
MOST_ASIDE: Final = 10_000
"""Maximum number of messages that are set aside for a retry while others are served."""
_LONGEST_REST_S: Final = 1.0  # waits are short, because the wall clock may be set
_TIDYING_S: Final = 60.0
T = TypeVar("T")


class Pauses:
    """The increasing pauses between retries."""

    def __init__(self) -> None:
        self._failures = 0

    def next_s(self) -> float:
        """The pause after a failure."""
        self._failures += 1
        return PAUSES_S[min(self._failures, len(PAUSES_S)) - 1]

    def reset(self) -> None:
        """Begin again with the shortest pause."""
        self._failures = 0


class Serving(Generic[A]):
    """Serves one partition, with one :class:`_Hold` after the other."""

    def __init__(self, partition: Partition[A], open_shelf: OpenShelf) -> None:
        self.partition = partition
        self.restored = asyncio.Event()
        self.kept = 0
        self.forwarded = 0
        self.lateness_us: int | None = None  # lateness of the last forwarded message
        self.pauses = Pauses()  # before the next takeover
        self._refused_before = partition.refused
        self._open_shelf = open_shelf
        self._hold: _Hold[A] | None = None
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=f"relay-{partition.name}")

    @property
    def pending(self) -> int:
        """The number of pending messages, or 0 while the number is unknown."""
        return 0 if self._hold is None else self._hold.shelf.count

    @property
    def refused(self) -> int:
        return self.partition.refused - self._refused_before

    async def end(self) -> None:
        """Release the partition after the running steps end."""
        self._over.set()
        if self._hold is not None:
            self._hold.end()
        _, late = await asyncio.wait([self._task], timeout=GRACE_S)
        for task in late:
            log.warning("releasing %s although its broker did not answer", self.partition.name)
            task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while not self._over.is_set():
            try:
                await self._take_over()
            except Exception as error:  # noqa: BLE001 - a defect is logged, and other partitions continue
                known = isinstance(error, (EmulatorError, OSError))
                reason = error if known else as_emulator_error(error)
                if not self._over.is_set():
                    pause_s = self.pauses.next_s()
                    text = "partition %s failed: %s; retrying in %s s if it is still assigned to this relay"
                    log.warning(text, self.partition.name, reason, pause_s)
                    await _wait(self._over, pause_s)

    async def _take_over(self) -> None:
        shelf = self._open_shelf()
        try:
            if not await _unless(self._over, self._restore(shelf)):
                return
            self._hold = _Hold(self, shelf)
            if self._over.is_set():
                self._hold.end()
            self.restored.set()
            await self._hold.work()
        finally:
            self._hold = None
            self.restored.clear()
            try:
                await self.partition.close()
            finally:
                await shelf.close()

    async def _restore(self, shelf: Shelf) -> bool:
        async with aclosing(self.partition.restore()) as restored:
            async for some in restored:
                await shelf.take_in(some)
        return True


class _Hold(Generic[A]):
    """One hold, from reading the partition's log until the partition is released or lost."""

    def __init__(self, serving: Serving[A], shelf: Shelf) -> None:
        self.shelf = shelf
        self._serving = serving
        self._partition = serving.partition
        self._over = asyncio.Event()
        self._news = asyncio.Event()  # set when a message may be due earlier, or the hold has ended

    def end(self) -> None:
        """End the hold after the running steps end."""
        self._over.set()
        self._news.set()

    async def work(self) -> None:
        """Keep and forward messages until the hold ends. Raises LostPartitionError, OSError."""
        tasks = [asyncio.create_task(each) for each in (self._arrive(), self._forward())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.end()
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        await asyncio.gather(*tasks)

    async def _arrive(self) -> None:
        while not self._over.is_set():
            arrivals = await self._patiently(lambda: _unless(self._over, self._partition.arrivals()))
            if not arrivals:
                continue
            kept = await self._patiently(partial(self._partition.keep, arrivals))
            if kept:
                await self.shelf.take_in(kept)
                self._serving.kept += len(kept)
                self._serving.pauses.reset()
                self._news.set()

    async def _forward(self) -> None:
        pauses = Pauses()
        back_us = tidied_us = steady_us()
        while not self._over.is_set():
            self._news.clear()
            now_us = steady_us()
            if self.shelf.aside and now_us >= back_us:
                self.shelf.bring_back()
            due = await self.shelf.due(wall_us()) if self.shelf.aside < MOST_ASIDE else []
            if not due:
                if now_us - tidied_us > _TIDYING_S * US_PER_S:
                    tidied_us = now_us
                    await self.shelf.tidy(wall_us())
                await self._rest((back_us - now_us) / US_PER_S if self.shelf.aside else None)
                continue
            try:
                answer = await self._patiently(partial(self._partition.forward, due))
            except EarlierFirstError:
                self.shelf.bring_back()
                continue
            if answer is None:
                return
            gone = set(answer)
            await self._left([one for one in due if one.id in gone])
            if len(gone) < len(due):
                self.shelf.set_aside(one for one in due if one.id not in gone)
                back_us = steady_us() + int(pauses.next_s() * US_PER_S)
            elif not self.shelf.aside:
                pauses.reset()

    async def _left(self, gone: Sequence[RelayedMessage]) -> None:
        if gone:
            self._serving.lateness_us = wall_us() - gone[-1].due_us
            self._serving.forwarded += len(gone)
            self._serving.pauses.reset()
            await self.shelf.forget(gone)

    async def _rest(self, back_s: float | None) -> None:
        """Wait until a message is due, or the set of messages changes."""
        next_us = await self.shelf.next_due_us()
        rest_s = _LONGEST_REST_S if back_s is None else min(_LONGEST_REST_S, back_s)
        if next_us is not None:
            rest_s = min(rest_s, (next_us - wall_us()) / US_PER_S)
        await _wait(self._news, max(rest_s, 0.001))

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Call, with pauses, until there is no RetryableError. Returns None after the end of the hold."""
        pauses, trouble = Pauses(), ""
        while True:
            try:
                answer = await call()
            except RetryableError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("%s: %s; retrying", self._partition.name, trouble)
                if await _wait(self._over, pauses.next_s()):
                    return None
            else:
                if trouble:
                    log.warning("%s works again", self._partition.name)
                return answer


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of the work. If the event is set first, cancel the work and return None."""
    task, coming = asyncio.create_task(work), asyncio.create_task(event.wait())
    try:
        await asyncio.wait([task, coming], return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        for each in (task, coming):
            each.cancel()
        await asyncio.gather(task, coming, return_exceptions=True)


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event with a time limit; return whether the event was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
