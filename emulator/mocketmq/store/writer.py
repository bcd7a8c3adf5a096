"""The only writer of the store: work that arrives during a commit forms the next transaction (group commit).

A piece of work is a function that fills a :class:`Batch`. When the previous commit ends, the writer takes the
work that has arrived, calls the functions in order of arrival on the event loop, and has all their rows
written as one transaction (``write_connection``). While it calls them it assigns store times, log offsets and
queue offsets. No other code assigns times or offsets, and a failed transaction does not advance the counters.
Offsets therefore rise in commit order without gaps. A function may refuse by raising before it changes the
batch; only its own caller sees that error. Work that takes long is a generator, which fills its transaction
in pieces. Other tasks run between the pieces, but no other work.

A commit makes work visible but does not wait for the disk. Callers that wait for durability are answered
after the first sync that started after the commit. Meanwhile further transactions commit (``wal_syncs``).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Literal, NamedTuple

from mocketmq.clock import Clock, steady_us
from mocketmq.errors import (
    EmulatorError,
    InternalError,
    StoppingError,
    StoreBusyError,
    StoreDamagedError,
    StoreFailedError,
)
from mocketmq.failpoint import pass_point
from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue
from mocketmq.store.wal_syncs import Promise, Waiter, WalSyncs, reject, tell

MAX_BATCH_BYTES = 16 << 20

Work = Callable[[Batch], Any]
Pieces = Generator[None, None, Any]
"""Work that yields after each piece, and returns its result."""
Until = Literal["visible", "durable"]
"""What a caller waits for: the commit, or the sync after it, from which the work survives a power cut."""
StoredListener = Callable[[Iterable[tuple[Queue, int, int]], int], None]
"""Receives (queue, messages, bytes of bodies) for each queue appended to, and the duration in µs."""


class WriterLimits(NamedTuple):
    """The limits of a writer. ``waiting`` keeps a slow disk from exhausting the memory."""

    waiting: int = 65_536
    """Maximum number of pieces of work that wait for a commit or a sync."""
    batch_rows: int = 2_048
    batch_bytes: int = MAX_BATCH_BYTES
    """Numbers of rows and bytes from which no more work is added to a transaction."""


class Formed(NamedTuple):
    """A transaction ready to be run, with the waiters for its commit and the waiters for its sync."""

    batch: Batch
    told: list[Promise]
    promises: list[Promise]
    pieces: Pieces | None
    """The transaction's only work, if it has not filled the batch yet."""


class Writer:
    """Owns the write connection and the offset counters.

    After each commit the writer calls ``on_stored``, then ``on_arrival`` for each queue appended to, then
    ``on_change``. A delay scheme with files of its own reports its saves through ``tell_stored`` instead, and
    ``kept_outside`` counts them.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        store_host: str,
        next_log_offset: int,
        last_store_us: int,
        *,
        on_arrival: Callable[[Queue], None] = lambda _queue: None,
        on_stored: StoredListener = lambda _appended, _took_us: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = WriterLimits()
        self.store_host = store_host
        self.next_log_offset = next_log_offset
        self.last_store_us = last_store_us
        self.commits = 0
        self.failures = 0
        self.kept_outside = 0
        self._on_stored = on_stored
        self._on_change = [on_change]
        self._database = database
        self._clock = clock
        self._waiting: deque[tuple[Work, Waiter, bool, Until]] = deque()
        self._syncs = WalSyncs(database.sync if database.is_synced else None)
        self._arrived: asyncio.Future[None] | None = None  # what the idle task waits for
        self._formed: Formed | None = None  # a transaction that the task is to run first
        self._is_committing = False  # calling listeners for a transaction that the task did not run
        self._defect: Exception | None = None  # the exception that such a listener raised
        self._is_held = False  # while true, new work does not wake the task
        self._closing = False
        self._on_arrival = on_arrival
        self.task = asyncio.create_task(self._run(), name="writer")

    def add_change_listener(self, listener: Callable[[], None]) -> None:
        """Call the listener after each commit as well, and after each save of a delay scheme."""
        self._on_change.append(listener)

    @property
    def waiting(self) -> int:
        """Number of pieces of work that wait for the next transaction or for a sync."""
        return len(self._waiting) + self._syncs.waiting

    def now_us(self) -> int:
        """The clock's time, or the last store time if later, as during a clock move."""
        return max(self._clock.now_us(), self.last_store_us)

    async def commit(self, work: Work, *, alone: bool = False, until: Until = "durable") -> Any:
        """Run the work in the next transaction and return its result once it is durable.

        ``alone`` gives the work a transaction of its own, for changes to rows that other work may be adding.
        Only such work may be a generator (``Pieces``).
        ``until="visible"`` returns at the commit, for work that acknowledges nothing to a client. Raises any
        exception of the work, StoreUnavailableError if the transaction fails, StoreFailedError after a
        failed sync, StoreBusyError if too much work is waiting, and StoppingError after ``close``.
        """
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.put(work, done, alone=alone, until=until)
        try:
            return await done
        except asyncio.CancelledError as error:
            cancelled = error
        finally:
            del done  # the traceback of its error refers to this frame
        try:  # below the `except`, because compiled modules must not wait in one
            await self._finish_waiting()
            raise cancelled
        finally:
            del cancelled  # breaks a reference cycle through the traceback

    def put(self, work: Work, waiter: Waiter, *, alone: bool = False, until: Until = "durable") -> None:
        """Like ``commit``, but do not wait. ``waiter`` gets the result or the error later.

        Raises StoreFailedError, StoreBusyError or StoppingError at once, and then never calls the waiter.
        """
        if self._closing:
            raise StoppingError("the broker is stopping; nothing more is stored")
        if self._syncs.has_failed:
            raise self._syncs.refusal()
        if self.waiting >= self.limits.waiting:
            raise StoreBusyError(
                f"{self.limits.waiting} writes are waiting for the disk; try again in a moment"
            )
        self._waiting.append((work, waiter, alone, until))
        self._wake()

    async def synced(self) -> None:
        """Return once everything committed so far is durable. Raises StoreFailedError."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._syncs.keep([(done, None)])
        await done

    async def _finish_waiting(self) -> None:
        """Wait until all work submitted so far is durable or refused.

        Submitted work cannot be withdrawn, so a cancelled caller must hold its locks until the work is done.
        """
        if not self.task.done():
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((lambda _batch: None, end, False, "durable"))
            self._wake()
            await asyncio.gather(end, return_exceptions=True)

    def tell_stored(self, appended: Iterable[tuple[Queue, int, int]], took_us: int) -> None:
        """Report messages that a delay scheme saved outside the store to ``on_stored``."""
        self.kept_outside += 1
        self._on_stored(appended, took_us)
        self._changed()

    async def close(self) -> None:
        """Refuse new work, and make all waiting work durable. May be called twice."""
        self._closing = True
        self._wake()
        await self.task
        await self._syncs.close()

    def hold(self) -> None:
        """Do not begin with the next transaction until ``release``.

        The caller must call ``release`` in the same iteration of the event loop.
        """
        self._is_held = True

    def release(self, *, at_once: bool) -> None:
        """Commit what has arrived since ``hold``: soon, or ``at_once`` if it can be done on this thread."""
        self._is_held = False
        if self._waiting and not (at_once and self._commit_at_once() and not self._waiting):
            self._wake()

    def _commit_at_once(self) -> bool:
        """Commit what is waiting. Returns False if that is left to the task."""
        arrived = self._arrived
        if arrived is None or arrived.done() or self._is_committing or self._syncs.has_failed:
            return False
        formed, began_us = self._form(), steady_us()
        if formed.pieces is not None:
            self._formed = formed
            return False
        batch = formed.batch
        failure: Exception | None = None
        try:
            if batch.rows and not self._database.transact_at_once(batch.statements, batch.size):
                self._formed = formed
                return False
        except Exception as error:  # noqa: BLE001 - a bug in one batch must not kill the connection
            failure = error
        self._is_committing = True
        try:
            if failure is None:
                self._succeed(formed, began_us, syncs_at_once=True)
            else:
                self._fail(formed, failure)
        except Exception as error:  # noqa: BLE001 - raised in the task, the end of which stops the broker
            self._defect = error
            self._wake()
        finally:
            self._is_committing = False
        return True

    def _wake(self) -> None:
        if self._arrived is not None and not self._is_held and not self._arrived.done():
            self._arrived.set_result(None)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if self._defect is not None:
                raise self._defect
            formed, self._formed = self._formed, None
            if formed is None and not self._waiting:
                if self._closing:
                    return
                self._arrived = loop.create_future()
                await self._arrived
                continue
            if formed is None and self._syncs.has_failed:
                reject(self._waiting.popleft()[1], self._syncs.refusal())
                continue
            formed = formed or self._form()
            batch, began_us = formed.batch, steady_us()
            try:
                if formed.pieces is not None:
                    await self._fill(formed, formed.pieces)
                if batch.rows:
                    await self._database.transact(batch.statements, batch.size)
            except Exception as error:  # noqa: BLE001 - a bug in one batch must not kill the writer
                self._fail(formed, error)
                continue
            self._succeed(formed, began_us)
            if self._waiting:
                await asyncio.sleep(0)  # lets other tasks run, even if the transaction ran on this thread

    async def _fill(self, formed: Formed, pieces: Pieces) -> None:
        """Let the transaction's only work fill the batch, one piece per iteration of the event loop."""
        answers = formed.told or formed.promises
        while True:
            try:
                next(pieces)
            except StopIteration as end:
                answers[0] = answers[0][0], end.value
                return
            await asyncio.sleep(0)

    def _succeed(self, formed: Formed, began_us: int, *, syncs_at_once: bool = False) -> None:
        batch, told, promises, _ = formed
        pass_point("writer.committed")
        if batch.rows:
            self._syncs.committed()
        self._apply(batch, steady_us() - began_us)
        tell(told)
        self._syncs.keep(promises, at_once=syncs_at_once)

    def _fail(self, formed: Formed, error: Exception) -> None:
        batch, told, promises, _ = formed
        if isinstance(error, StoreFailedError) and not isinstance(error, StoreDamagedError):
            self._syncs.fail(str(error))
            error = self._syncs.doubt()
        elif not isinstance(error, EmulatorError):
            error = InternalError(f"the writer failed: {error!r}")
        self._roll_back(batch, [*told, *promises], error)

    def _form(self) -> Formed:
        """Build the next transaction."""
        batch = Batch(self.now_us(), self.next_log_offset, self.store_host)
        told: list[Promise] = []
        promises: list[Promise] = []
        pieces: Pieces | None = None
        waiting, limits = self._waiting, self.limits
        while waiting and batch.rows < limits.batch_rows and batch.bytes < limits.batch_bytes:
            work, done, alone, until = waiting[0]
            if alone and (told or promises):
                break
            waiting.popleft()
            try:
                result = work(batch)
                (promises if until == "durable" else told).append((done, result))
                if alone and isinstance(result, Generator):
                    pieces = result
            except EmulatorError as error:
                reject(done, error)
            except Exception as error:  # noqa: BLE001 - one caller's defect must not fail the others
                reject(done, InternalError(f"a write failed before it began: {error!r}"))
            if alone:
                break
        pass_point("writer.formed")
        return Formed(batch, told, promises, pieces)

    def _roll_back(self, batch: Batch, results: list[Promise], error: EmulatorError) -> None:
        self.failures += 1
        for act in reversed(batch.after_rollback):  # in reverse order of the changes that they undo
            act()
        for done, _result in results:
            reject(done, error)

    def _apply(self, batch: Batch, took_us: int) -> None:
        self.commits += 1
        self.next_log_offset = batch.next_log_offset
        self.last_store_us = batch.now_us
        appended = []
        for queue, appends in batch.appends.items():
            appended.append((queue, appends.next_offset - queue.next_offset, appends.size))
            queue.grow(appends.next_offset, appends.largest)
        if appended:
            self._on_stored(appended, took_us)
        for act in batch.after_commit:
            act()
        for queue in batch.appends:
            self._on_arrival(queue)
        self._changed()

    def _changed(self) -> None:
        for call in self._on_change:
            call()
