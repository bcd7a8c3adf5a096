"""Marks in a store, beside the deliveries, the records of messages that are done with."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from mocketmq.errors import EmulatorError
from mocketmq.failpoint import pass_point
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds that marks get when the broker stops; the next start deals with the rest."""
AT_ONCE: Final = 256
"""Records that are marked in one go."""


class Marks:
    """Owns the thread that marks, which on some disks is slower than commits.

    ``synced`` returns once what was committed is durable: no record is marked before. ``run`` runs a function
    in a thread, and raises a StoreError where that raises an OSError.
    """

    def __init__(
        self,
        store: DelayStore,
        synced: Callable[[], Awaitable[None]],
        now_us: Callable[[], int],
        run: Callable[[Callable[[], Sequence[Entry]], ThreadPoolExecutor], Awaitable[Sequence[Entry]]],
    ) -> None:
        self.gone: set[Entry] = set()  # done with, but not marked yet
        self._store = store
        self._synced = synced
        self._now_us = now_us
        self._run = run
        self._waiting: deque[Entry] = deque()  # of these, those that no mark is under way for
        self._is_cleared = False  # since the last marks
        self._marking: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "delay-removals")

    async def close(self) -> None:
        """Mark what can be marked soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.done()
        if self._marking is not None:
            self._marking.cancel()
            await asyncio.gather(self._marking, return_exceptions=True)
        self._thread.shutdown()

    def add(self, entries: Iterable[Entry], *, is_cleared: bool = False) -> None:
        """Mark these soon; after a reset, files that nothing waits in are removed as well."""
        self._is_cleared |= is_cleared
        for entry in entries:
            self.gone.add(entry)
            self._waiting.append(entry)
        if (self._waiting or self._is_cleared) and self._marking is None:
            self._marking = asyncio.create_task(self._mark_all(), name="delay-marks")

    async def retry(self) -> None:
        """Mark what could not be marked before."""
        await self.done()
        self._waiting.extend(self.gone.difference(self._waiting))
        self.add(())
        await self.done()

    async def done(self) -> None:
        """Wait until all that is done with is marked, where the disk lets it be."""
        if self._marking is not None:
            await asyncio.shield(self._marking)

    async def _mark_all(self) -> None:
        some: list[Entry] = []
        try:
            while self._waiting or self._is_cleared:
                some = [self._waiting.popleft() for _ in range(min(len(self._waiting), AT_ONCE))]
                is_cleared = self._is_cleared and not self._waiting
                await self._synced()
                kept = await self._run(partial(self._mark, some, is_cleared), self._thread)
                self.gone.difference_update(some)
                self.gone.update(kept)
                self._is_cleared = self._is_cleared and bool(self._waiting)
        except EmulatorError as error:  # tried again with the next, and by ``retry``
            self._waiting.extendleft(some)
            log.warning("records of messages that are done with stay unmarked: %s", error)
        finally:
            self._marking = None

    def _mark(self, entries: Sequence[Entry], is_cleared: bool) -> Sequence[Entry]:
        kept = self._store.forget(entries)
        pass_point("files.removed")
        self._store.remove_over(self._now_us(), is_cleared=is_cleared)
        return kept
