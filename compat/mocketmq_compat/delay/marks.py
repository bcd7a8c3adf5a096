"""Marks the records of settled messages in a store, in the background of deliveries, and tidies the store.

A message is settled when it is delivered, cancelled or reset. Its record is marked only once the settlement
is durable, so that no power failure can leave a message that is neither delivered nor pending. The records of
refused messages, if the disk has kept any, are marked as well.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from mocketmq.errors import EmulatorError
from mocketmq.failpoint import pass_point
from mocketmq.store.chore import Chore
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Longest wait for outstanding marks at a stop, in real seconds. The next start marks the rest."""
AT_ONCE: Final = 32
"""Maximum number of records marked in one step. Between two steps the event loop runs without contending for
the interpreter's lock with the thread of the marks."""
NOT_REMOVED: Final = "the disk refused to remove delayed messages that are no longer pending"
"""The error for records that must be removed before the next step, but are not."""


@dataclass(eq=False, repr=False)
class Marks:
    """Marks records in its own thread, because on some disks marking is slower than commits.

    ``synced`` returns once all commits so far are durable. ``run`` runs a function in a thread, and turns its
    OSError into a StoreError.
    """

    _store: DelayStore
    _synced: Callable[[], Awaitable[None]]
    _now_us: Callable[[], int]
    _run: Callable[[Callable[[], Sequence[Entry]], ThreadPoolExecutor], Awaitable[Sequence[Entry]]]

    def __post_init__(self) -> None:
        self.gone: set[Entry] = set()  # records that are not pending, and not marked yet
        self._waiting: deque[Entry] = deque()  # the records of ``gone`` that are not being marked
        self._is_cleared = False  # whether a reset has happened since the last marks
        self._marking: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "delay-removals")

    async def close(self) -> None:
        """Mark as many records as possible within ``GRACE_S``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.done()
        if self._marking is not None:
            self._marking.cancel()
            await asyncio.gather(self._marking, return_exceptions=True)
        self._thread.shutdown()

    def mark_soon(self, entries: Collection[Entry], *, is_cleared: bool = False) -> None:
        """Mark these records soon. After a reset (``is_cleared``), also remove files with none pending."""
        self._is_cleared |= is_cleared
        self.gone.update(entries)
        self._waiting.extend(entries)
        if (self._waiting or self._is_cleared) and self._marking is None:
            self._marking = asyncio.create_task(self._mark_all(), name="delay-marks")

    async def retry(self) -> None:
        """Retry the marks that have failed."""
        await self.done()
        self._waiting.extend(self.gone.difference(self._waiting))
        self.mark_soon(())
        await self.done()

    async def done(self) -> None:
        """Wait until all settled records are marked, or the disk has refused a mark."""
        if self._marking is not None:
            await asyncio.shield(self._marking)

    async def _mark_all(self) -> None:
        some: list[Entry] = []
        durable = 0  # number of waiting records whose settlement is durable
        try:
            while self._waiting or self._is_cleared:
                if not durable:  # a single sync for all, so that marks keep up with deliveries on a slow disk
                    some, durable = [], len(self._waiting)
                    await self._synced()
                some = [self._waiting.popleft() for _ in range(min(durable, AT_ONCE))]
                durable -= len(some)
                is_cleared = self._is_cleared and not self._waiting
                kept = await self._run(partial(self._mark, some, is_cleared), self._thread)
                self.gone.difference_update(some)
                self.gone.update(kept)
                self._is_cleared = self._is_cleared and bool(self._waiting)
        except EmulatorError as error:  # the next marks and ``retry`` will try again
            self._waiting.extendleft(some)
            log.warning("cannot mark the records of settled messages, trying again later: %s", error)
        finally:
            self._marking = None

    def _mark(self, entries: Sequence[Entry], is_cleared: bool) -> Sequence[Entry]:
        kept = self._store.forget(entries)
        pass_point("files.removed")
        self._store.remove_over(self._now_us(), is_cleared=is_cleared)
        return kept


class Tidying(Chore):
    """Retries marks and adopts files at intervals, whether or not anything is delivered."""

    name = "delay-tidying"
    interval_s = 30.0

    def __init__(self, tidy: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._tidy = tidy

    async def turn(self) -> None:
        await self._tidy()
