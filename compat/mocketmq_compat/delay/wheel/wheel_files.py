"""Keep the wheel's files and their index in step.

Access to the disk runs in threads, but for a file that is asked for before it was loaded ahead; the index
changes on the event loop only.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from mocketmq.errors import StoreFailedError, StoreFullError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.schedule.scheme_context import Numbers
from mocketmq.store.chore import Chore
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.file_reads import read_batch
from mocketmq_compat.delay.group_saves import GroupSaves, Sync
from mocketmq_compat.delay.wheel.record import HEAD, SPAN_S, start_of
from mocketmq_compat.delay.wheel.wheel_index import WheelIndex
from mocketmq_compat.delay.wheel.wheel_log import WheelLog, by_file
from mocketmq_compat.delay.wheel.wheel_storage import WheelStorage

log = logging.getLogger(__name__)

AHEAD_S: Final = SPAN_S
"""Seconds before it is due that a file is loaded."""
GRACE_S: Final = 2.0
"""Real seconds that marks and removals get when the broker stops."""

T = TypeVar("T")


class WheelFiles(Chore):
    """As :class:`~mocketmq_compat.delay.indexed_scheme.EntryFiles`. The chore loads files ahead.

    ``synced`` returns once what the store has committed is durable: nothing is marked or removed before.
    ``changed`` is called when a message is due earlier than all others.
    """

    name = "wheel-files"
    interval_s = 5.0

    def __init__(
        self,
        storage: WheelStorage,
        sync: Sync,
        quota_bytes: int,
        synced: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
        numbers: Numbers,
        now_s: Callable[[], int],
    ) -> None:
        super().__init__()
        self.log = WheelLog(storage)
        self.index = WheelIndex(self.log, self._is_hidden)
        self.saves = GroupSaves(self.log, sync, self._saved, ("wheel.appended", "wheel.saved"))
        self.repeats = 0  # messages that were refused because they were done with
        self._put_aside: Counter[str] = Counter()  # since the start, by kind
        self._quarantined = 0  # pieces of damaged files, but those that the log has put aside since the start
        self._syncs_later = sync == "interval"
        self._quota_bytes = quota_bytes
        self._being_saved = 0  # bytes
        self._synced = synced
        self._changed = changed
        self._numbers = numbers
        self._now_s = now_s
        self._thread = ThreadPoolExecutor(1, "wheel-files")
        self._removals: list[Entry] = []  # to do
        self._unmarked: set[Entry] = set()  # messages that are done with, but not by their file
        self._removing: asyncio.Task[None] | None = None

    # Start and stop

    async def load(self) -> None:
        """Find what waits; load what is due soon. Raises StoreUnavailableError."""
        self.index.loaded_to_s = self._now_s() + AHEAD_S
        for name in await self._in_thread(self.log.open):
            self._put_aside["ignored"] += 1
            log.warning("the wheel's directory holds %s, which is not ours and is left alone", name)
        for start in self.log.starts:
            offsets = await self._in_thread(partial(self.log.mend, start))
            self._numbers.note(max((entry.number for entry in offsets), default=0))
            self.index.found(start, offsets)
            if not offsets:
                await self._in_thread(partial(self.log.remove_file, start, self.log.size(start)))
        self._quarantined = await self._in_thread(self.log.storage.put_aside_before) - self.log.damaged

    def start(self) -> asyncio.Task[None]:
        """Start the chore, and the syncs of the policy ``interval``."""
        if self._syncs_later:
            self.saves.start()
        return super().start()

    async def close(self) -> None:
        """Finish pending saves and marks. May be called twice."""
        await super().close()
        await self.saves.close()
        with suppress(TimeoutError):  # the next start knows what is done with
            async with asyncio.timeout(GRACE_S):
                await self.removed()
        if self._removing is not None:
            self._removing.cancel()
            await asyncio.gather(self._removing, return_exceptions=True)
        self._thread.shutdown()
        self.log.storage.close()

    async def turn(self) -> None:
        """Load what is due soon, let go of what is not, and retry marks."""
        self._remove_soon(self._unmarked.difference(self._removals))
        self.index.loaded_to_s = self._now_s() + AHEAD_S
        first = self.index.first()
        for start in self.index.loaded:
            if start > self.index.loaded_to_s and first is not None and start != start_of(first):
                self.index.unload(start)
        for start in self.index.to_load():
            self.index.expect(start)
            found = await self._in_thread(partial(self.log.scan, start))
            self.index.adopt(start, found)
        self._changed()  # the timer knows nothing of what could not be read before

    # Messages that come

    @property
    def disk_bytes(self) -> int:
        """The size of all files."""
        return self.log.total_bytes

    async def save(self, entry: Entry, content: bytes) -> None:
        """Append a new message to its file. Raises StoreFullError, and as :meth:`GroupSaves.save`."""
        size = HEAD.size + len(content)
        used = self.disk_bytes + self._being_saved
        if self._quota_bytes and used + size > self._quota_bytes:
            raise StoreFullError(
                f"delayed messages take {used} of {self._quota_bytes} bytes of disk, and this one"
                f" needs {size} more; raise --delay-quota, or wait until some are delivered"
            )
        self._being_saved += size
        try:
            await self.saves.save(entry, content)
        finally:
            self._being_saved -= size

    def _saved(self, entry: Entry) -> None:
        first = self.index.first()
        self.index.add(entry, self.log.offsets.pop(entry))
        if first is None or entry < first:
            self._changed()

    def _is_hidden(self, entry: Entry) -> bool:
        return entry in self.saves.in_flight or entry in self._unmarked or entry in self.log.refused

    def first(self) -> Entry | None:
        """The first entry in order of delivery, saved or being saved."""
        first = self.index.first()
        return min([*self.saves.in_flight, *([first] if first else [])], default=None)

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, bytes | OSError]]:
        """Contents of messages in this order, as many as fit a batch, or the error of reading one."""
        places = {entry: self.index.places(entry) for entry in entries}
        return await self._in_thread(
            partial(read_batch, entries, lambda entry: self.log.read(entry, places[entry]))
        )

    # Messages that leave

    def remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages; their file is marked soon, or removed if they are its last."""
        gone = [*entries]
        self._unmarked.update(gone)
        for entry in gone:
            self.index.remove(entry)
        self._remove_soon(gone)

    def _remove_soon(self, entries: Iterable[Entry]) -> None:
        self._removals += entries
        if self._removals and self._removing is None:
            self._removing = asyncio.create_task(self._remove_all(), name="wheel-removals")

    def refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget messages that are done with, left by a kill or copied back."""
        self.repeats += len(entries)
        self.remove(entries)

    async def quarantine(self, entry: Entry, error: DamagedFileError) -> None:
        """Copy the content of a message into the quarantine, with the reason, and forget it."""
        self._put_aside[error.kind] += 1
        log.warning("the delayed message %s is put aside: %s", entry.name, error)
        [(_, content)] = await self.read([entry])
        if isinstance(content, bytes):
            act = partial(self.log.storage.put_aside, entry.name, content, str(error))
            self._quarantined += await self._in_thread(act)
        self.remove([entry])

    @property
    def quarantined(self) -> int:
        """How many pieces of files lie in the quarantine."""
        return self._quarantined + self.log.damaged

    @property
    def put_aside(self) -> Counter[str]:
        """What was put aside or ignored since the start, by kind."""
        return self._put_aside + Counter(damaged=self.log.damaged)

    @property
    def unremoved(self) -> int:
        """The number of messages that are done with, but not marked."""
        return len(self._unmarked)

    async def removed(self) -> None:
        """Wait for the marks and removals; what cannot be marked stays."""
        if self._removing is not None:
            await asyncio.shield(self._removing)

    async def _remove_all(self) -> None:
        """Runs beside the deliveries."""
        try:
            while self._removals:
                entries, self._removals = self._removals, []
                await self._synced()
                files = by_file(entries)
                busy = {start_of(entry) for entry in self.saves.in_flight}
                finished = {
                    start: self.log.size(start)
                    for start in files
                    if not self.index.count(start) and start not in busy
                }
                for start, some in files.items():
                    try:
                        await self._in_thread(partial(self._forget, start, some, finished.get(start)))
                    except StoreUnavailableError as error:
                        log.warning("messages that are done with cannot be marked: %s", error)
                    else:
                        self._unmarked.difference_update(some)
        except StoreFailedError as error:
            self._removals.clear()
            log.warning("messages that are done with stay until a restart: %s", error)
        finally:
            self._removing = None

    def _forget(self, start: int, entries: Sequence[Entry], finished_size: int | None) -> None:
        """Remove a finished file if it has this size still; mark messages in any other."""
        if finished_size is not None and self.log.remove_file(start, finished_size):
            return
        if self.log.size(start):
            self.log.mark(entries)
            pass_point("wheel.marked")

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """Raises StoreUnavailableError for an OSError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise StoreUnavailableError(
                f"the wheel's files cannot be used: {error.strerror or error}{place}"
            ) from error
