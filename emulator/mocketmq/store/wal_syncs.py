"""Syncs SQLite's write-ahead log on a separate thread, while the writer commits the next transactions.

One sync runs at a time. A sync covers every commit made before the sync started. When the sync ends, the
waiters of those commits are answered. A commit starts no sync if nobody waits for its durability.

A failed sync is never retried, because the kernel may have dropped the pages that it could not write, and the
next sync would succeed without them. All waiters fail, and the store refuses writes until a restart.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from mocketmq.errors import EmulatorError, StoreFailedError
from mocketmq.failpoint import pass_point

log = logging.getLogger(__name__)


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

    def keep(self, promises: Sequence[Promise]) -> None:
        """Answer the promises once all commits so far are durable."""
        if self._failure is not None:
            self._break(promises)
        elif self._sync is None or self._synced == self._commits:
            tell(promises)
        elif promises:
            self._promises += promises
            if self._task is None:
                self._task = asyncio.create_task(self._run(self._sync), name="wal-syncs")

    async def _run(self, sync: Callable[[], None]) -> None:
        while self._promises:
            self._syncing, self._promises = self._promises, []
            commits = self._commits
            try:
                await asyncio.get_running_loop().run_in_executor(self._executor, _pass_and_sync, sync)
            except Exception as error:  # noqa: BLE001 - after any error, durability is unknown
                if not isinstance(error, StoreFailedError):
                    reason = error.strerror if isinstance(error, OSError) else repr(error)
                    error = StoreFailedError(f"a sync of the disk failed ({reason})")
                self.fail(str(error))
            else:
                self._synced = commits
                tell(self._syncing)
                self._syncing = ()
        self._task = None

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


def _pass_and_sync(sync: Callable[[], None]) -> None:
    pass_point("log.syncing")
    sync()
    pass_point("log.synced")


def tell(promises: Sequence[Promise]) -> None:
    """Give each waiter its result."""
    for done, result in promises:
        if not done.done():
            done.set_result(result)


def reject(done: Waiter, error: EmulatorError) -> None:
    """Give the waiter an error, without its traceback, which refers to the waiter."""
    if not done.done():
        done.set_exception(error.with_traceback(None))
