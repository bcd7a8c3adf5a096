"""Group saves: records that arrive while the disk is busy are written and synced together."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Literal, NamedTuple

from mocketmq.errors import (
    EmulatorError,
    InternalError,
    StoppingError,
    StoreBusyError,
    StoreFullError,
    StoreUnavailableError,
)
from mocketmq.failpoint import pass_point
from mocketmq.store.chore import Chore
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

Sync = Literal["always", "interval", "never"]
MAX_WAITING = 65_536
"""Maximum number of records waiting for the disk. Refusing more keeps a slow disk from filling the memory."""
MAX_FILES = 256
MAX_BYTES = 16 << 20
INTERVAL_S = 1.0
"""Real seconds between two syncs under the policy ``interval``."""


class _Save(NamedTuple):
    entry: Entry
    content: bytes
    done: "asyncio.Future[None]"


class GroupSaves(Chore):
    """Saves records in a thread; calls ``saved(entry)`` on the event loop before the sender's response.

    Policies: ``always`` syncs before the response, ``interval`` every second, ``never`` leaves syncing to the
    system. Records survive a kill under every policy, and a power failure under ``always``.
    """

    name = "delay-sync"
    interval_s = INTERVAL_S
    most_waiting = MAX_WAITING

    def __init__(
        self,
        store: DelayStore,
        policy: Sync,
        saved: Callable[[Entry], None],
        refused: Callable[[Sequence[Entry]], None],
        quota_bytes: int = 0,
    ) -> None:
        """``refused`` gets the entries of refused messages whose records the disk has kept.

        ``quota_bytes`` limits the disk space of all pending records; 0 means no limit.
        """
        super().__init__()
        self.in_flight: set[Entry] = set()
        self.failures = 0
        self._store = store
        self._policy = policy
        self._quota_bytes = quota_bytes
        self._saving_bytes = 0
        self._saved = saved
        self._refused = refused
        self._thread = ThreadPoolExecutor(1, "delay-saves")
        self._waiting: list[_Save] = []
        self._group_done: asyncio.Future[None]  # done when the current group, or else the next, is written
        self._writing: asyncio.Task[None] | None = None
        self._unsynced: list[Entry] = []

    async def save(self, entry: Entry, content: bytes) -> None:
        """Save the record, even if the caller is cancelled; on return it is as durable as the policy says.

        Raises StoreUnavailableError if the disk refuses the record, which is then not kept. Raises
        StoreFullError if the quota is used up, StoreBusyError if too many records are waiting, StoppingError
        after ``close``.
        """
        size = self._store.disk_bytes_of(len(content))
        used = self._store.disk_bytes + self._saving_bytes
        if self._quota_bytes and used + size > self._quota_bytes:
            raise StoreFullError(
                f"delayed messages occupy {used} of {self._quota_bytes} bytes on disk, and this message"
                f" needs {size} more; raise --delay-quota, or wait until some messages are delivered"
            )
        self._saving_bytes += size
        try:
            await self._save(entry, content)
        finally:
            self._saving_bytes -= size

    async def _save(self, entry: Entry, content: bytes) -> None:
        if self.is_closing:
            raise StoppingError("the broker is stopping; nothing more is stored")
        if len(self._waiting) >= self.most_waiting:
            raise StoreBusyError(f"{self.most_waiting} files are waiting for the disk; try again in a moment")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Save(entry, content, done))
        self.in_flight.add(entry)
        if self._writing is None:
            self._group_done = asyncio.get_running_loop().create_future()
            self._writing = asyncio.create_task(self._write(), name="delay-saves")
        try:
            await done
        finally:
            del done  # the traceback of its error refers to this frame

    async def idle(self) -> None:
        """Wait until all records submitted so far are saved or refused."""
        submitted = frozenset(self.in_flight)
        while not submitted.isdisjoint(self.in_flight):
            await asyncio.shield(self._group_done)

    async def close(self) -> None:
        """Refuse new records; save and sync the waiting records. May be called twice."""
        self._closing.set()
        if self._writing is not None:
            await self._writing
        await super().close()
        with suppress(EmulatorError):
            await self.turn()
        self._thread.shutdown()

    async def turn(self) -> None:
        """Sync the records saved since the last turn, under the policy ``interval``."""
        entries, self._unsynced = self._unsynced, []
        if entries:
            try:
                await asyncio.to_thread(self._store.sync, entries)
            except OSError as error:
                self._unsynced += entries
                raise StoreUnavailableError(
                    f"cannot sync delayed messages to the disk: {error.strerror}"
                ) from error

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group = self._next_group()
            outcomes: Sequence[Exception | None]
            try:
                outcomes = await loop.run_in_executor(self._thread, self._write_group, group)
            except Exception as defect:  # noqa: BLE001 - otherwise its callers would wait forever
                outcomes = [defect.with_traceback(None)] * len(group)  # which refers to ``outcomes``
            if refused := [save.entry for save, error in zip(group, outcomes, strict=True) if error]:
                self._refused(await loop.run_in_executor(self._thread, self._remove, refused))
            self.in_flight.difference_update(save.entry for save in group)
            for (entry, _, done), error in zip(group, outcomes, strict=True):
                is_awaited = not done.cancelled()
                if error is None:
                    if self._policy == "interval":
                        self._unsynced.append(entry)
                    if is_awaited:
                        done.set_result(None)
                    self._saved(entry)
                else:
                    self.failures += 1
                    if is_awaited:
                        done.set_exception(_refusal(error))
            self._group_done.set_result(None)
            self._group_done = loop.create_future()
            await asyncio.sleep(0)  # let the senders continue first, so that their next messages share a sync
        self._writing = None

    def _next_group(self) -> Sequence[_Save]:
        count, size = 0, 0
        while count < min(len(self._waiting), MAX_FILES) and size < MAX_BYTES:
            size += len(self._waiting[count].content)
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    def _write_group(self, saves: Sequence[_Save]) -> list[OSError | None]:
        outcomes: list[OSError | None] = []
        written: list[Entry] = []
        for entry, content, _ in saves:
            try:
                self._store.write(entry, content)
            except OSError as error:
                outcomes.append(error.with_traceback(None))  # which refers to ``outcomes``
            else:
                outcomes.append(None)
                written.append(entry)
        pass_point("files.renamed")
        if self._policy == "always":
            try:
                self._store.sync(written)
            except OSError as error:
                failure = error.with_traceback(None)  # which refers to the result, by the thread's frame
                return [outcome or failure for outcome in outcomes]
        pass_point("files.saved")
        return outcomes

    def _remove(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Remove the records of refused messages. Returns the entries that the disk may have kept."""
        try:
            return self._store.forget(entries)
        except Exception:  # noqa: BLE001 - the senders get the first error
            return entries


def _refusal(error: Exception) -> EmulatorError:
    if not isinstance(error, OSError):
        return InternalError(f"a delayed message could not be saved: {error!r}")
    return StoreUnavailableError(
        f"a delayed message cannot be written: {error.strerror or error}; no part of it was stored"
    )
