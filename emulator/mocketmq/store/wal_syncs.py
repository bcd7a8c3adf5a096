"""Sync SQLite's write-ahead log on a thread of its own, while the writer commits what comes next.

One sync runs at a time. It covers every commit before it began, and only when it has ended are those told
whose promises it covers. A commit that promises nothing waits for no sync, and starts none.

A sync that fails is never tried again: the system may have dropped what it could not write, and would call
the next sync good. So all that wait for it fail, and everything after it is refused until a restart.
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
    """Who waits for the end of a piece of work: a future, or a request that needs none. Never raises."""

    def done(self) -> bool:
        """Whether nobody waits any more."""

    def set_result(self, result: Any, /) -> None:
        """Tell the result of the work."""

    def set_exception(self, error: EmulatorError, /) -> None:
        """Tell why there is none."""


Promise = tuple[Waiter, Any]
"""Who waits, and the result that is told once the sync has ended."""


class WalSyncs:
    """Answers promises once they are durable: at once where ``sync`` is None, as nothing is synced apart."""

    def __init__(self, sync: Callable[[], None] | None) -> None:
        self._sync = sync
        self._commits = 1  # so far, with those that a broker that was killed has left
        self._synced = 0  # of these, by a sync
        self._promises: list[Promise] = []  # for the next sync
        self._syncing: Sequence[Promise] = ()
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "wal-sync")
        self._failure: str | None = None

    @property
    def waiting(self) -> int:
        """How many promises are committed, but not durable yet."""
        return len(self._promises) + len(self._syncing)

    @property
    def has_failed(self) -> bool:
        """Whether nothing more may be written."""
        return self._failure is not None

    def refusal(self) -> StoreFailedError:
        """The error for whatever is to be written after a sync has failed."""
        return StoreFailedError(
            f"the store cannot be written: {self._failure}; nothing more is written until the broker is"
            " restarted"
        )

    def committed(self) -> None:
        """Note that a transaction has been committed, which is not durable yet."""
        self._commits += 1

    def keep(self, promises: Sequence[Promise]) -> None:
        """Tell these results once everything committed so far is durable."""
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
                await asyncio.get_running_loop().run_in_executor(self._thread, _pass_and_sync, sync)
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing is known to be durable
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
        """Break all promises that wait, and all that come."""
        if self._failure is None:
            self._failure = reason
            log.error("%s; nothing more is written until the broker is restarted", reason)
        self._break([*self._syncing, *self._promises])
        self._syncing, self._promises = (), []

    def doubt(self) -> StoreFailedError:
        """The error for what was being written when a sync failed."""
        return StoreFailedError(
            f"the store cannot be written: {self._failure}; whether this request was kept is known after a"
            " restart, until which nothing more is written"
        )

    def _break(self, promises: Sequence[Promise]) -> None:
        for done, _ in promises:
            reject(done, self.doubt())

    async def close(self) -> None:
        """Wait for the last sync. May be called twice."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()


def _pass_and_sync(sync: Callable[[], None]) -> None:
    pass_point("log.syncing")
    sync()
    pass_point("log.synced")


def tell(promises: Sequence[Promise]) -> None:
    """Tell each result to whoever still waits."""
    for done, result in promises:
        if not done.done():
            done.set_result(result)


def reject(done: Waiter, error: EmulatorError) -> None:
    """Tell an error to whoever still waits."""
    if not done.done():
        done.set_exception(error)
