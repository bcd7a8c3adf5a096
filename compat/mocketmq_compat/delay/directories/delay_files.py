"""Keep the index and the directory of delayed files in step.

Access to the disk runs in threads; the index changes on the event loop only.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mocketmq.errors import EmulatorError, StoreFailedError, StoreFullError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.message.message_id import Identity
from mocketmq.schedule.scheme_context import Numbers
from mocketmq.store.chore import Chore
from mocketmq_compat.delay.delay_index import DelayIndex
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, Found, disk_bytes
from mocketmq_compat.delay.directories.memory_directory import MemoryDirectory
from mocketmq_compat.delay.file_reads import TRY_AGAIN, read_batch
from mocketmq_compat.delay.group_saves import GroupSaves, Sync

log = logging.getLogger(__name__)

REMOVALS = 64
"""Files removed in one go."""
GRACE_S = 2.0
"""Real seconds that removals get when the broker stops."""

T = TypeVar("T")


class DelayFiles(Chore):
    """Every file that waits. The chore adopts files that others put into the directory, and retries removals.

    ``settled`` returns which of some numbers belong to messages that are done with; ``synced`` returns once
    what the store has committed is durable: no file goes before that. ``changed`` is called when a file is
    due earlier than all others.
    """

    name = "delay-files"
    interval_s = 30.0

    def __init__(
        self,
        directory: DelayDirectory | MemoryDirectory,
        sync: Sync,
        quota_bytes: int,
        settled: Callable[[Sequence[int]], Awaitable[set[Identity]]],
        synced: Callable[[], Awaitable[None]],
        changed: Callable[[], None],
        numbers: Numbers,
        now_s: Callable[[], int],
    ) -> None:
        super().__init__()
        self.index = DelayIndex()
        self.disk_bytes = 0
        self.repeats = 0  # files that were removed because their message was done with
        self.put_aside: Counter[str] = Counter()  # since the start, by kind
        self.quarantined = 0  # files in the quarantine
        self.saves = GroupSaves(directory, sync, self._saved)
        self._directory = directory
        self._syncs_later = sync == "interval"
        self._quota_bytes = quota_bytes
        self._settled = settled
        self._synced = synced
        self._changed = changed
        self._numbers = numbers
        self._now_s = now_s
        self._seen_ns = 0
        self._thread = ThreadPoolExecutor(1, "delay-files")
        self._removal_thread = ThreadPoolExecutor(1, "delay-removals")
        self._removals: deque[tuple[Entry, bool]] = deque()  # to do; whether it empties its second
        self._unremoved: set[Entry] = set()  # files of messages that are done with
        self._removing: asyncio.Task[None] | None = None
        self._ignored: set[str] = set()

    # Start and stop

    async def load(self) -> None:
        """Build the index from the directory. Raises StoreUnavailableError."""
        everything = await self._scan()
        for found in everything:
            for entry in found.entries:
                self.index.add(entry)
                self._numbers.note(entry.number)
            self.disk_bytes += found.disk_bytes
        for found in everything:  # after the files in their places, of which these may be copies
            await self._take_in(found, found.strays)
        self._saw(everything)
        if isinstance(self._directory, DelayDirectory):
            self.quarantined = await self._in_thread(self._directory.quarantined)

    def start(self) -> asyncio.Task[None]:
        """Start the chore, and the syncs of the policy ``interval``."""
        if self._syncs_later:
            self.saves.start()
        return super().start()

    async def close(self) -> None:
        """Finish pending saves and close the directory. May be called twice."""
        await super().close()
        await self.saves.close()
        with suppress(TimeoutError):  # the next start deals with the rest
            async with asyncio.timeout(GRACE_S):
                await self.removed()
        if self._removing is not None:
            self._removing.cancel()
            await asyncio.gather(self._removing, return_exceptions=True)
        self._removal_thread.shutdown()
        self._thread.shutdown()
        self._directory.close()

    # Files that come

    async def save(self, entry: Entry, content: bytes) -> None:
        """Save a new file. Raises StoreFullError, and as :meth:`GroupSaves.save`."""
        size = disk_bytes(len(content))
        if self._quota_bytes and self.disk_bytes + size > self._quota_bytes:
            raise StoreFullError(
                f"delayed messages take {self.disk_bytes} of {self._quota_bytes} bytes of disk, and this one"
                f" needs {size} more; raise --delay-quota, or wait until some are delivered"
            )
        self.disk_bytes += size
        try:
            await self.saves.save(entry, content)
        except EmulatorError:
            self.disk_bytes -= size
            raise

    def _saved(self, entry: Entry) -> None:
        first = self.index.first()
        self.index.add(entry)
        if first is None or entry < first:
            self._changed()

    def first(self) -> Entry | None:
        """The first entry in order of delivery, saved or being saved."""
        first = self.index.first()
        if self.saves.in_flight:
            saving = min(self.saves.in_flight)
            return saving if first is None or saving < first else first
        return first

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, bytes | OSError]]:
        """Contents of files in this order, as many as fit a batch, or the error of reading one."""
        return await self._in_thread(partial(read_batch, entries, self._directory.read))

    # Files that leave

    def remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages, which are done with; their files are removed soon."""
        for entry in entries:
            self._removals.append((entry, self.index.remove(entry)))
            self._unremoved.add(entry)
        if self._removals and self._removing is None:
            self._removing = asyncio.create_task(self._remove_all(), name="delay-removals")

    def refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Remove files of messages that are done with, left by a kill or copied back."""
        self.repeats += len(entries)
        self.remove(entries)

    async def quarantine(self, entry: Entry, error: DamagedFileError) -> None:
        """Move the file of an entry into the quarantine, with the reason."""
        self.index.remove(entry)
        size = await self._put_aside(entry.second, entry.name, error)
        self.disk_bytes -= size

    async def removed(self) -> None:
        """Wait for the removals; files that cannot be removed stay."""
        if self._removing is not None:
            await asyncio.shield(self._removing)

    async def _remove_all(self) -> None:
        """Runs beside the deliveries: on some disks a removal takes longer than a commit."""
        try:
            while some := [self._removals.popleft() for _ in range(min(len(self._removals), REMOVALS))]:
                await self._synced()
                freed, kept = await self._in_thread(partial(self._remove_files, some), self._removal_thread)
                self.disk_bytes -= freed
                self._unremoved.difference_update(entry for entry, _ in some)
                self._unremoved.update(kept)
        except StoreFailedError as error:
            self._removals.clear()
            log.warning("files of messages that are done with stay until a restart: %s", error)
        finally:
            self._removing = None

    def _remove_files(self, removals: Sequence[tuple[Entry, bool]]) -> tuple[int, list[Entry]]:
        freed = 0
        kept: list[Entry] = []
        for entry, is_last in removals:
            try:
                freed += self._directory.remove(entry)
                pass_point("files.removed")
                if is_last:
                    self._directory.remove_second(entry.second)
            except OSError as error:
                log.warning("%s is no longer needed, but cannot be removed: %s", entry.name, error.strerror)
                kept.append(entry)
        return freed, kept

    async def _put_aside(self, second: int, name: str, error: DamagedFileError) -> int:
        """Quarantine a file; the disk space in bytes that moved there."""
        self.put_aside[error.kind] += 1
        log.warning("the delayed message %d/%s is put aside: %s", second, name, error)
        if isinstance(self._directory, DelayDirectory):
            try:
                size = await self._in_thread(partial(self._directory.quarantine, second, name, str(error)))
            except StoreUnavailableError as failure:
                log.warning("… but cannot be moved into the quarantine: %s", failure)
            else:
                self.quarantined += 1
                return size
        return 0

    # Files that others put there

    @property
    def unremoved(self) -> int:
        """The number of files of messages that are done with."""
        return len(self._unremoved)

    async def turn(self) -> None:
        """Adopt foreign files in changed directories, and retry removals."""
        await self.removed()
        self.remove([*self._unremoved])
        everything = await self._scan()
        for found in everything:
            await self._take_in(found, [e.name for e in found.entries if not self._knows(e)])
        for found in everything:
            await self._take_in(found, found.strays)
        self._saw(everything)

    def _knows(self, entry: Entry) -> bool:
        return entry in self.index or entry in self._unremoved or entry in self.saves.in_flight

    async def _scan(self) -> list[Found]:
        """The directories changed since the last scan; all of them the first time."""
        everything = await self._in_thread(lambda: list(self._directory.scan(self._seen_ns)))
        found = [one for one in everything if isinstance(one, Found)]
        for name in everything:
            if isinstance(name, str):
                self._ignore(name)
        return found

    def _saw(self, everything: Sequence[Found]) -> None:
        self._seen_ns = max([1, self._seen_ns, *(found.changed_ns for found in everything)])  # 0: never

    async def _take_in(self, found: Found, names: Sequence[str]) -> None:
        """Adopt foreign files, and remove the directory if it is due and empty (D-13)."""
        for name in names:
            try:
                await self._adopt(found.second, name)
            except StoreUnavailableError as error:
                self._leave(f"{found.second}/{name}", error)
        if not (found.entries or found.strays) and found.second <= self._now_s():
            try:
                await self._in_thread(partial(self._directory.remove_second, found.second))
            except StoreUnavailableError as error:
                self._leave(str(found.second), error)

    def _leave(self, what: str, error: StoreUnavailableError) -> None:
        """Skip a file that cannot be accessed. Raises the error again if it may be temporary."""
        cause = error.__cause__
        if not isinstance(cause, OSError) or cause.errno in TRY_AGAIN:
            raise error
        if not isinstance(cause, FileNotFoundError):  # delivered meanwhile
            self._ignore(f"{what} ({cause.strerror})")

    async def _adopt(self, second: int, name: str) -> None:
        """Give a foreign file its right name, or quarantine it."""
        directory = self._directory
        assert isinstance(directory, DelayDirectory)  # noqa: S101 - memory has no foreign files
        content = await self._in_thread(partial(directory.read_stray, second, name))
        try:
            entry = decode(content).header.entry
        except DamagedFileError as error:
            await self._put_aside(second, name, error)
            return
        is_known = self._knows(entry)
        if is_known and (second, name) == (entry.second, entry.name):
            return  # a copy got this name meanwhile
        if is_known or (entry.number, entry.key_hash) in await self._settled([entry.number]):
            self.repeats += 1
            await self._in_thread(partial(directory.remove_stray, second, name))
            return
        await self._in_thread(partial(directory.move, second, name, entry))
        self.disk_bytes += disk_bytes(len(content))
        self._numbers.note(entry.number)
        self._saved(entry)

    def _ignore(self, what: str) -> None:
        """Leave it, and log that once per name: it may belong to a mount point or to the user."""
        if what not in self._ignored:
            self._ignored.add(what)
            self.put_aside["ignored"] += 1
            log.warning("the delay directory holds %s, which is not ours and is left alone", what)

    async def _in_thread(self, act: Callable[[], T], thread: ThreadPoolExecutor | None = None) -> T:
        """Raises StoreUnavailableError for an OSError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(thread or self._thread, act)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise StoreUnavailableError(
                f"the delay directory cannot be used: {error.strerror or error}{place}"
            ) from error
