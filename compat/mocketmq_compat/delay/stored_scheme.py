"""The base of delay schemes whose messages are records in a store, in order of delivery.

A pending message is in the store and nowhere else: a send is answered once its record is saved. Memory holds
the records that are due next (:class:`Front`) and no others, however many wait.

Delivery is exactly once. The transaction that makes a message visible also records its identity in the table
``timed_messages``; its record is marked as done with once that is durable. A record without its mark, left
by a kill or copied back from a backup, is known by that identity, and marked instead of delivered.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from mocketmq.errors import EmulatorError, StoreFullError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import StoredMessage
from mocketmq.schedule.due import DueNow
from mocketmq.schedule.scheme import FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import Settings
from mocketmq.store.chore import Chore
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq.store.writer import MAX_BATCH_BYTES
from mocketmq_compat.delay import front
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.entry_scheme import EntryScheme, exact
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds that marks get when the broker stops; the next start deals with the rest."""
MARKS: Final = 256
"""Records that are marked in one go."""
MISSING: Final = "missing"

T = TypeVar("T")


class Tidying(Chore):
    """Removes files that are over although nothing is delivered meanwhile, and retries marks."""

    name = "delay-tidying"
    interval_s = 30.0

    def __init__(self, tidy: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._tidy = tidy

    async def turn(self) -> None:
        """Remove what is over."""
        await self._tidy()


class _Either:
    """Two sets as one."""

    def __init__(self, one: Container[Entry], other: Container[Entry]) -> None:
        self._one, self._other = one, other

    def __contains__(self, entry: object) -> bool:
        return entry in self._one or entry in self._other


class StoredScheme(EntryScheme):
    """The scheme over a store, which it closes."""

    piece = "record"

    def __init__(
        self,
        name: str,
        context: SchemeContext,
        settings: Settings,
        store: DelayStore,
        fires_at: Callable[[int], int] = exact,
    ) -> None:
        self.name = name
        super().__init__(context, settings, fires_at)
        self.store = store
        self.saves = GroupSaves(store, settings.delay_sync, self._saved)
        self.tidying = Tidying(self.tidy)
        self.repeats = 0  # records that were refused because their message was done with
        self._syncs_later = settings.delay_sync == "interval"
        self._quota_bytes = settings.delay_quota_bytes
        self._saving_bytes = 0
        self._front = front.Front()
        self._pending = 0
        self._gone: set[Entry] = set()  # done with, but not marked yet
        self._others = _Either(self._gone, self.saves.in_flight)
        self._unmarked: deque[Entry] = deque()  # of these, those that no mark is under way for
        self._marking: asyncio.Task[None] | None = None
        self._is_cleared = False  # since the last marks
        self._recounts = store.recounts  # of the store, when the front was filled
        self._thread = ThreadPoolExecutor(1, "delay-reads")
        self._removal_thread = ThreadPoolExecutor(1, "delay-removals")  # on some disks slower than commits

    # Start and stop

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""
        self._pending = await self._in_thread(lambda: self.store.count)
        self.context.numbers.note(self.store.last_number)
        await self._tidy_store()
        await self._refill()
        await self._refuse_settled_early()

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Start the tidying, and the syncs of the policy ``interval``."""
        tasks = [self.tidying.start()]
        return [*tasks, self.saves.start()] if self._syncs_later else tasks

    async def close(self) -> None:
        """Save all accepted messages, and close the store."""
        await self.tidying.close()
        await self.saves.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await self.marked()
        if self._marking is not None:
            self._marking.cancel()
            await asyncio.gather(self._marking, return_exceptions=True)
        self._removal_thread.shutdown()
        self._thread.shutdown()
        self.store.close()

    # Keep

    async def _save(self, entry: Entry, content: bytes) -> None:
        size = self.store.disk_bytes_of(len(content))
        used = self.store.disk_bytes + self._saving_bytes
        if self._quota_bytes and used + size > self._quota_bytes:
            raise StoreFullError(
                f"delayed messages take {used} of {self._quota_bytes} bytes of disk, and this one"
                f" needs {size} more; raise --delay-quota, or wait until some are delivered"
            )
        self._saving_bytes += size
        try:
            await self.saves.save(entry, content)
        finally:
            self._saving_bytes -= size

    def _saved(self, entry: Entry) -> None:
        first = self._front.first()
        self._pending += 1
        self._front.add(entry)
        if first is None or entry < first:
            self.context.changed()

    async def _with_number(self, number: int) -> list[Entry]:
        return await self._in_thread(partial(self.store.with_number, number))

    async def _with_key(self, key_hash: int) -> list[Entry]:
        return await self._in_thread(partial(self.store.with_key, key_hash))

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return self._pending

    def _first(self) -> Entry | None:
        if self._front.needs_refill:
            self._front.end_refill(self._read_front())  # rare: many were cancelled at once
        return self._front.first()

    def _next(self, others: Container[Entry] | None = None) -> Entry | None:
        first = self._first() if others is None else self._front.first_but(others)
        saving = min(self.saves.in_flight, default=None)
        return saving if first is None or (saving is not None and saving < first) else first

    def due_seconds(self) -> Mapping[int, int]:
        """How many messages are due in each second, if the store knows."""
        return self.store.by_second()

    def file_figures(self) -> FileFigures:
        """What the store takes of the disk, and counts of damaged and refused records."""
        store = self.store
        return FileFigures(
            store.parts,
            store.disk_bytes,
            store.quarantined,
            len(self._gone),
            self.repeats + store.repeats,
            Counter(store.damaged),
        )

    async def _refill(self) -> None:
        self._front.begin_refill()
        try:
            found = await self._in_thread(self._read_front)
        except BaseException:
            self._front.abandon_refill()
            raise
        if self._front.is_refilling:  # not filled by ``_recount`` meanwhile
            self._front.end_refill(found)

    def _recount(self) -> None:
        """Read anew what waits, as the store was wrong about it: on the event loop, since it is rare."""
        recounts = self.store.recounts
        leaving = sum(map(self.store.holds, {*self._gone, *self.saves.in_flight}))
        self._pending = self.store.count - leaving
        self._front.abandon_refill()
        self._front.end_refill(self._read_front())
        self._recounts = recounts
        self.context.changed()

    def _read_front(self) -> list[Entry]:
        return self.store.first(front.SIZE + 1, self._others)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare what fires by ``until_us``, in order of due millisecond and arrival."""
        await self._saved_until(until_us)
        beyond = self._front.beyond
        if (
            beyond is not None
            and len(self._front.entries) < BATCH
            and self._fires_at(beyond.due_us) <= until_us
        ):
            await self._refill()
        yield await self._prepare(
            self._front.until(lambda entry: self._fires_at(entry.due_us) <= until_us, BATCH)
        )

    async def _contents(self, entries: Sequence[Entry]) -> Mapping[Entry, bytes | DamagedFileError]:
        def read() -> Mapping[Entry, bytes | DamagedFileError]:
            found: dict[Entry, bytes | DamagedFileError] = {}
            size = 0
            for entry in entries:
                try:
                    content = self.store.read(entry)
                except FileNotFoundError:
                    found[entry] = DamagedFileError(MISSING, "there is no such record")
                    continue
                except DamagedFileError as error:
                    found[entry] = error
                    continue
                found[entry] = content
                size += len(content)
                if size > MAX_BATCH_BYTES:
                    break
            return found

        return await self._in_thread(read)

    # By hand

    def _waits(self, entry: Entry) -> bool:
        return entry not in self._others and self.store.holds(entry)

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages in order of arrival; none for any level."""
        if level is not None:
            return []
        keys = None if topic is None else {queue.key for queue in self.context.topics.get(topic).queues}
        found: list[StoredMessage] = []
        # Only a record knows its topic, and whether it can be read at all.
        some = max(limit, MAX_AT_ONCE if keys else 0)
        while len(found) < limit:
            entries = await self._in_thread(partial(self.store.by_arrival, after, some))
            for begin in range(0, len(entries), MAX_AT_ONCE):
                messages = await self._messages(entries[begin : begin + MAX_AT_ONCE])
                found += [m for m in messages if keys is None or m.real_queue_key in keys]
                if len(found) >= limit:
                    break
            if len(entries) < some:
                break
            after = entries[-1].number
            some *= 2  # a store may have to look at all entries each time
        return found[:limit]

    async def _messages(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        return await super()._messages([entry for entry in entries if self._waits(entry)])

    # Done with

    def _all(self) -> list[Entry]:
        return [entry for entry in self.store.all() if entry not in self._others]

    def _cleared(self, entries: Sequence[Entry]) -> None:
        self._is_cleared = True
        super()._cleared(entries)

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        self.repeats += len(entries)
        self._remove(entries)

    def _remove(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry not in self._gone and (self._front.remove(entry) or self.store.holds(entry)):
                self._opened.pop(entry, None)
                self._gone.add(entry)
                self._unmarked.append(entry)
                self._pending -= 1
        if (self._unmarked or self._is_cleared) and self._marking is None:
            self._marking = asyncio.create_task(self._mark_all(), name="delay-marks")

    async def marked(self) -> None:
        """Wait until all that is done with is marked, where the disk lets it be."""
        if self._marking is not None:
            await asyncio.shield(self._marking)

    async def _mark_all(self) -> None:
        """Runs beside the deliveries. No record is marked before the store's commit is durable."""
        some: list[Entry] = []
        try:
            while self._unmarked or self._is_cleared:
                some = [self._unmarked.popleft() for _ in range(min(len(self._unmarked), MARKS))]
                is_cleared = self._is_cleared and not self._unmarked
                await self.context.store.writer.synced()
                mark = partial(self._mark, some, is_cleared)
                kept = await self._in_thread(mark, self._removal_thread)
                self._gone.difference_update(some)
                self._gone.update(kept)
                self._is_cleared = self._is_cleared and bool(self._unmarked)
        except EmulatorError as error:  # tried again with the next, and by the tidying
            self._unmarked.extendleft(some)
            log.warning("records of messages that are done with stay unmarked: %s", error)
        finally:
            self._marking = None

    def _mark(self, entries: Sequence[Entry], is_cleared: bool) -> Sequence[Entry]:
        kept = self.store.forget(entries)
        pass_point("files.removed")
        self.store.remove_over(self._clock.now_us(), is_cleared=is_cleared)
        return kept

    async def tidy(self) -> None:
        """Try failed marks again, remove files that are over, and adopt records that others added."""
        await self.marked()
        self._unmarked.extend(self._gone.difference(self._unmarked))
        self._remove(())
        await self.marked()
        await self._tidy_store()

    async def _tidy_store(self) -> None:
        now_us = self._clock.now_us()

        def act() -> Sequence[Entry]:
            self.store.remove_over(now_us)
            return self.store.adopt(now_us)

        adopted = await self._in_thread(act)
        for begin in range(0, len(adopted), MAX_AT_ONCE):
            some = adopted[begin : begin + MAX_AT_ONCE]
            settled = await self.settled([entry.number for entry in some])
            for entry in some:
                self.context.numbers.note(entry.number)
                self._saved(entry)
            self._refuse_repeats([entry for entry in some if entry.identity in settled])

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        if self._front.remove(entry):
            self._pending -= 1
        elif error.kind == MISSING:
            return  # the store has found out by itself
        log.warning("the delayed message %s is put aside: %s", entry.name, error)
        await self._in_thread(partial(self.store.put_aside, entry, error.kind, str(error)))

    async def _in_thread(self, act: Callable[[], T], thread: ThreadPoolExecutor | None = None) -> T:
        """Raises StoreUnavailableError for an OSError."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(thread or self._thread, act)
            if self.store.recounts != self._recounts:
                self._recount()
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise StoreUnavailableError(
                f"the delay scheme {self.name} cannot use its files: {error.strerror or error}{place}"
            ) from error
        return result
