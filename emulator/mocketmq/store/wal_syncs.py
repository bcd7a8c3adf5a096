"""Syncs SQLite's write-ahead log on a separate thread, while the writer commits the next transactions.

One sync runs at a time. A sync covers every commit made before the sync started. When the sync ends, the
waiters of those commits are answered. A commit starts no sync if nobody waits for its durability.

While the disk is quick, the event loop runs a sync itself if nothing else is to be done meanwhile, because
two switches of threads take longer. Any sync may turn out slow and hold up the loop. The loop then leaves
syncs to the thread for so long that slow syncs take at most half a percent of the loop's time.

A failed sync is never retried, because the kernel may have dropped the pages that it could not write, and the
next sync would succeed without them. All waiters fail, and the store refuses writes until a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from mocketmq.clock import steady_us
from mocketmq.errors import EmulatorError, StoreFailedError
from mocketmq.failpoint import pass_point
from mocketmq.store.transaction_runner import SLOW_US

log = logging.getLogger(__name__)

QUICK_US: Final = 500
"""Duration of the last sync up to which the event loop may run the next one."""
PAUSE_FACTOR: Final = 200
"""How many times the duration of a slow sync must pass before the event loop runs one again."""


class Waiter(Protocol):
    """Receives the outcome of work: a future, or a request on the fast path. Must not raise."""

    def done(self) -> bool:
        """Whether the waiter no longer wants the outcome."""

    def set_result(self, result: Any, /) -> None:
        """Receive the result of the work."""

    def set_exception(self, error: EmulatorError, /) -> None:
        """Receive the error of the work."""


Promise = tuple[Waiter, Any]
"""A waiter, and the result that the waiter gets after the sync."""


class WalSyncs:
    """Answers promises once they are durable, or at once if ``sync`` is None (in-memory store)."""

    def __init__(self, sync: Callable[[], None] | None) -> None:
        self._sync = sync
        self._commits = 1  # starts at 1: a killed broker may have left unsynced commits
        self._synced = 0  # number of commits covered by finished syncs
        self._promises: list[Promise] = []  # promises that wait for the next sync
        self._syncing: Sequence[Promise] = ()
        self._task: asyncio.Task[None] | None = None
        self._executor = ThreadPoolExecutor(1, "wal-sync")
        self._failure: str | None = None
        self._took_us = QUICK_US + 1  # of the last sync; unknown counts as slow
        self._at_once_from_us = 0  # when the event loop may run a sync again

    @property
    def waiting(self) -> int:
        """Number of promises that are committed but not yet durable."""
        return len(self._promises) + len(self._syncing)

    @property
    def has_failed(self) -> bool:
        """Whether a sync has failed, after which the store refuses writes."""
        return self._failure is not None

    def refusal(self) -> StoreFailedError:
        """The error for writes after a failed sync."""
        return StoreFailedError(
            f"the store cannot be written: {self._failure}; nothing more is written until the broker is"
            " restarted"
        )

    def committed(self) -> None:
        """Count a commit that is not yet durable."""
        self._commits += 1

    def keep(self, promises: Sequence[Promise], *, at_once: bool = False) -> None:
        """Answer the promises once all commits so far are durable.

        With ``at_once``, nothing else is to be done until then, so that the sync may run on this thread.
        """
        if self._failure is not None:
            self._break(promises)
        elif self._sync is None or self._synced == self._commits:
            tell(promises)
        elif promises:
            self._promises += promises
            if self._task is None:
                if at_once and self._is_quick():
                    self._sync_at_once(self._sync)
                else:
                    self._task = asyncio.create_task(self._run(self._sync), name="wal-syncs")

    def _is_quick(self) -> bool:
        return self._took_us <= QUICK_US and steady_us() >= self._at_once_from_us

    def _sync_at_once(self, sync: Callable[[], None]) -> None:
        commits = self._begin()
        try:
            took_us = _pass_and_sync(sync)
        except Exception as error:  # noqa: BLE001 - see _run
            self._sync_failed(error)
        else:
            self._end(commits, took_us)

    async def _run(self, sync: Callable[[], None]) -> None:
        while self._promises:
            commits = self._begin()
            try:
                took_us = await asyncio.get_running_loop().run_in_executor(
                    self._executor, _pass_and_sync, sync
                )
            except Exception as error:  # noqa: BLE001 - after any error, durability is unknown
                self._sync_failed(error)
            else:
                self._end(commits, took_us)
        self._task = None

    def _begin(self) -> int:
        """Take the promises that the next sync keeps. Returns the number of commits that it covers."""
        self._syncing, self._promises = self._promises, []
        return self._commits

    def _end(self, commits: int, took_us: int) -> None:
        self._synced, self._took_us = commits, took_us
        if took_us > SLOW_US:
            self._at_once_from_us = steady_us() + PAUSE_FACTOR * took_us
        tell(self._syncing)
        self._syncing = ()

    def _sync_failed(self, error: Exception) -> None:
        if not isinstance(error, StoreFailedError):
            reason = error.strerror if isinstance(error, OSError) else repr(error)
            error = StoreFailedError(f"a sync of the disk failed ({reason})")
        self.fail(str(error))

    def fail(self, reason: str) -> None:
        """Fail all waiting and future promises."""
        if self._failure is None:
            self._failure = reason
            log.error("%s; nothing more is written until the broker is restarted", reason)
        self._break([*self._syncing, *self._promises])
        self._syncing, self._promises = (), []

    def doubt(self) -> StoreFailedError:
        """The error for writes in progress when a sync failed."""
        return StoreFailedError(
            f"the store cannot be written: {self._failure}; a restart shows whether this request was"
            " kept; until then, nothing more is written"
        )

    def _break(self, promises: Sequence[Promise]) -> None:
        for done, _ in promises:
            reject(done, self.doubt())

    async def close(self) -> None:
        """Wait for the last sync. May be called twice."""
        if self._task is not None:
            await self._task
        self._executor.shutdown()


def _pass_and_sync(sync: Callable[[], None]) -> int:
    """Sync, and return the duration in microseconds."""
    pass_point("log.syncing")
    began_us = steady_us()
    sync()
    took_us = steady_us() - began_us
    pass_point("log.synced")
    return took_us


def tell(promises: Sequence[Promise]) -> None:
    """Give each waiter its result."""
    for done, result in promises:
        if not done.done():
            done.set_result(result)


def reject(done: Waiter, error: EmulatorError) -> None:
    """Give the waiter an error, without its traceback, which refers to the waiter."""
    if not done.done():
        done.set_exception(error.with_traceback(None))
