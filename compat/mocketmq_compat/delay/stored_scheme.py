"""The engine of all delay schemes: messages are records in a store, delivered in order of due time.

How it works. A pending message is a record in the store and nowhere else, identified by its entry: due time,
number, key hash. A send is acknowledged once its record is saved; :class:`GroupSaves` writes and syncs
records that arrive together as one group. The engine holds only the entries that are due next, the
:class:`ReadAhead`, however many are pending. When the timer fires, the engine reads the records of the first
entries and gives the messages to the broker's writer; after the commit, :class:`Marks` marks their records as
settled. When the read-ahead runs out, a thread refills it from the store.

Delivery is exactly once. The transaction that makes a message visible also records its identity in the table
``timed_messages``; the record is marked only once the transaction is durable. An unmarked record of a
delivered message, left by a kill or restored from a backup, is recognized by its identity, and marked instead
of delivered. A record that cannot be delivered is quarantined, so that it does not hold up other records.

A new scheme implements :class:`DelayStore`. Everything that blocks runs in threads: one for saves, one for
reads, one for marks.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from mocketmq.clock import LATEST_US, US_PER_MS, steady_us
from mocketmq.errors import EmulatorError, StoreFullError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import Identity, key_hash
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.scheme import FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import KeptRecord, NewestPage, TimedScheme
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import Settings
from mocketmq.store.chore import Chore
from mocketmq.store.messages import MAX_AT_ONCE, NO_LIMIT
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.marks import Marks
from mocketmq_compat.delay.parked_message import content_of, entry_of
from mocketmq_compat.delay.pending_reader import PendingReader
from mocketmq_compat.delay.read_ahead import ReadAhead
from mocketmq_compat.delay.record_reader import MISSING, RecordReader
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

_SETTLED_EARLY: Final = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)

_NOTE_STAGED: Final = "INSERT OR IGNORE INTO timed_messages VALUES (?, ?, ?, 'cleared', -1)"
_SETTLE_AGAIN: Final = "INSERT OR REPLACE INTO timed_messages VALUES (?, ?, ?, 'cleared', -1)"
_FORGET_CLEARED: Final = (
    "DELETE FROM timed_messages WHERE number = ? AND key_hash = ? AND outcome = 'cleared'"
)

_NOT_REMOVED: Final = "the disk refuses to remove delayed messages that were delivered"

T = TypeVar("T")


class Tidying(Chore):
    """Retries marks and adopts files at intervals, whether or not anything is delivered."""

    name = "delay-tidying"
    interval_s = 30.0

    def __init__(self, tidy: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._tidy = tidy

    async def turn(self) -> None:
        await self._tidy()


class _AnyOf:
    """A live union of sets."""

    def __init__(self, *sets: Container[Entry]) -> None:
        self._sets = sets

    def __contains__(self, entry: object) -> bool:
        return any(entry in one for one in self._sets)


def exact(due_us: int) -> int:
    """Deliver at the due time itself; the default of ``fires_at``."""
    return due_us


class StoredScheme(TimedScheme):
    """A scheme over a store, which it closes; ``fires_at`` returns the instant of delivery for a due time."""

    def __init__(
        self,
        name: str,
        context: SchemeContext,
        settings: Settings,
        store: DelayStore,
        fires_at: Callable[[int], int] = exact,
    ) -> None:
        self.name = name
        super().__init__(context)
        self.store = store
        self.saves = GroupSaves(store, settings.delay_sync, self._saved)
        self.marks = Marks(store, self._synced, context.store.clock.now_us, self._in_thread)
        self.tidying = Tidying(self.tidy)
        self.repeats = 0  # records marked without a delivery, because their messages were settled
        self._clock = context.store.clock
        # With the delay limits of another system, the broker applies these instead of the windows.
        windows_us = (
            (settings.start_deliver_window_us,) if settings.delay_limits is None else (LATEST_US, LATEST_US)
        )
        self._due_times = StartDeliverTime(self._clock, settings.start_deliver_time, *windows_us)
        self._fires_at = fires_at
        self._syncs_later = settings.delay_sync == "interval"
        self._quota_bytes = settings.delay_quota_bytes
        self._saving_bytes = 0
        self.read_ahead = ReadAhead()
        self._pending = 0
        self._opened: dict[Entry, StoredMessage] = {}  # due messages that are read, but not delivered yet
        self._staged: set[Entry] = set()  # written by a restore that is not committed
        self._others = _AnyOf(self.marks.gone, self.saves.in_flight, self._staged)  # stored, but not pending
        self._recounts = store.recounts  # value when the read-ahead was last filled
        self._thread = ThreadPoolExecutor(1, "delay-reads")
        self.records = RecordReader(store, context.topics, self.kept, self._in_thread)
        self._pending_reader = PendingReader(
            store, self.records, context.topics, self._waits, self.settled, self._in_thread
        )

    # Start and stop

    async def load(self) -> None:
        """Load the pending messages. Raises a StoreError."""
        self._pending = await self._in_thread(lambda: self.store.count)
        self.context.numbers.note(self.store.last_number)
        await self._tidy_store()
        await self._refill()
        await self._refuse_settled_early()

    async def _refuse_settled_early(self) -> None:
        """Drop restored copies of cancelled or forced messages; they would be listed as pending until due."""
        early = await self.context.store.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        self._refuse_repeats([entry for entry in map(Entry._make, early) if self._waits(entry)])

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Start tidying, and the syncs of the policy ``interval``."""
        tasks = [self.tidying.start()]
        return [*tasks, self.saves.start()] if self._syncs_later else tasks

    async def close(self) -> None:
        """Save all accepted messages, and close the store."""
        await self.tidying.close()
        await self.saves.close()
        await self.marks.close()
        self._thread.shutdown()
        await asyncio.to_thread(self.store.close)

    # Saving

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        return self._due_times.due_us(properties, level)

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Save the message, due at ``due_us`` rounded up to whole milliseconds.

        Like :meth:`TimedScheme.keep`; also raises StoreFullError when the quota is used up.
        """
        now_us = self._clock.now_us()
        is_new = number is None
        number = self.context.numbers.next() if number is None else number
        entry = Entry(-(-due_us // US_PER_MS), number, key_hash(draft.unique_key))
        writer = self.context.store.writer
        kept = self.kept(draft, queue, entry.due_us, number, now_us, writer.store_host)
        if is_new or not await self.has_kept(number, draft.unique_key):
            if not is_new:
                await self._forget_cleared(entry.identity)
            began_us = steady_us()
            await self._save(entry, content_of(kept, queue))
            writer.tell_stored([(self.context.parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return kept

    async def has_kept(self, number: int, unique_key: str) -> bool:
        identity = number, key_hash(unique_key)
        if await self.was_cleared(identity):  # after a kill, its record may still be there
            return False
        return bool(await self._records_of(identity)) or identity in await self.settled([number])

    async def _records_of(self, identity: Identity) -> list[Entry]:
        found = await self._in_thread(partial(self.store.with_number, identity[0]))
        return [entry for entry in found if entry.identity == identity]

    async def _forget_cleared(self, identity: Identity) -> None:
        """Let a message be kept again that a restore has removed, once its old record is gone.

        The log offset of a half message numbers its committed message, and repeats after a restore.
        """
        if not await self.was_cleared(identity):
            return
        records = await self._records_of(identity)
        self._remove(records)
        await self.marks.done()
        if not self.marks.gone.isdisjoint(records):
            raise StoreUnavailableError(_NOT_REMOVED)
        await self.context.store.writer.commit(lambda batch: batch.execute(_FORGET_CLEARED, identity))

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
        first = self.read_ahead.first()
        self._pending += 1
        self.read_ahead.add(entry)
        if first is None or entry < first:
            self.context.changed()

    # Due times

    @property
    def pending(self) -> int:
        """The number of pending messages."""
        return self._pending

    def first_due_us(self) -> int | None:
        """Return the due time of the first saved message."""
        first = self._first()
        return None if first is None else first.due_us

    def next_delivery_us(self) -> int | None:
        """Return the instant of the next delivery, including messages that are still being saved."""
        first = self._before_saves(self._first())
        return None if first is None else self._fires_at(first.due_us)

    def _first(self) -> Entry | None:
        if self.read_ahead.needs_refill:
            # Runs on the event loop, because it is rare: only after many cancellations.
            self.read_ahead.end_refill(self._read_first())
        return self.read_ahead.first()

    def _before_saves(self, first: Entry | None) -> Entry | None:
        """Return the earlier of this entry and the first entry that is being saved."""
        saving = min(self.saves.in_flight, default=None)
        return saving if first is None or (saving is not None and saving < first) else first

    def due_seconds(self) -> Mapping[int, int]:
        """Return the number of messages due in each second; of the read-ahead, if the store has no counts."""
        return self.store.by_second() or Counter(entry.second for entry in self.read_ahead.entries)

    def file_figures(self) -> FileFigures:
        """Return the disk space of the store, and counts of damaged and repeated records."""
        store = self.store
        return FileFigures(
            store.parts,
            store.disk_bytes,
            store.quarantined,
            len(self.marks.gone),
            self.repeats + store.repeats,
            Counter(store.damaged),
        )

    async def _refill(self) -> None:
        self.read_ahead.begin_refill()
        # A record may be read before it is marked, and then leave ``gone`` before the read ends.
        leaving = {*self.marks.gone}
        try:
            found = await self._in_thread(self._read_first)
        except BaseException:
            self.read_ahead.abandon_refill()
            raise
        if self.read_ahead.is_refilling:  # False: ``_recount`` has filled it meanwhile
            self.read_ahead.end_refill(entry for entry in found if entry not in leaving)

    def _recount(self) -> None:
        """Reload the read-ahead after the store has rebuilt its index. Rarely blocks the event loop."""
        recounts = self.store.recounts
        leaving = sum(map(self.store.holds, {*self.marks.gone, *self.saves.in_flight, *self._staged}))
        self._pending = self.store.count - leaving
        self.read_ahead.abandon_refill()
        self.read_ahead.end_refill(self._read_first())
        self._recounts = recounts
        self.context.changed()

    def _read_first(self) -> list[Entry]:
        return self.store.first_records(self.read_ahead.size + 1, self._others)

    # Delivering

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare the messages that fire by ``until_us``, in order of due millisecond and arrival."""

        def is_due(entry: Entry) -> bool:
            return self._fires_at(entry.due_us) <= until_us

        if any(map(is_due, self.saves.in_flight)):
            await self.saves.idle()
        beyond = self.read_ahead.beyond
        if beyond is not None and len(self.read_ahead.entries) < BATCH and is_due(beyond):
            await self._refill()
        picked_us = self._clock.now_us()
        await self._read(self.read_ahead.until(is_due, BATCH))
        pass_point("files.picked")
        yield partial(self._due_now, [*self._opened.items()], picked_us)

    async def _read(self, entries: Sequence[Entry]) -> None:
        """Read as many of these entries as fit into a batch. Removes repeated and damaged entries.

        Messages that are read but not delivered this time are kept for the next time.
        """
        settled = await self.settled([entry.number for entry in entries])
        self._refuse_repeats([entry for entry in entries if entry.identity in settled])
        waiting = [entry for entry in entries if entry.identity not in settled]
        unread = [entry for entry in waiting if entry not in self._opened]
        contents = await self.records.contents(unread) if unread else {}
        opened: dict[Entry, StoredMessage] = {}
        for entry in waiting:
            message = self._opened.get(entry)
            if message is None and entry not in contents:
                break
            try:
                message = message or await self.records.message(entry, contents[entry])
                if entry.identity in settled:  # the same message with two due times
                    self._refuse_repeats([entry])
                else:
                    opened[entry] = message
                    settled.add(entry.identity)
            except DamagedFileError as error:
                await self._put_aside(entry, error)
            except EmulatorError:  # the database failed, not the message
                raise
            except Exception as error:  # noqa: BLE001 - one message must not hold up all others
                await self._put_aside(entry, DamagedFileError("defect", repr(error)))
        self._opened = opened

    def _due_now(self, opened: Sequence[tuple[Entry, StoredMessage]], picked_us: int) -> Iterator[Due]:
        following = self._before_saves(self.read_ahead.first_but({entry for entry, _ in opened}))
        delivered: list[Entry] = []
        for entry, message in opened:
            if following is not None and following < entry:
                break
            fires_us = self._fires_at(entry.due_us)
            deliver = partial(self._deliver, delivered, entry, message, fires_us, picked_us)
            yield Due(fires_us, deliver, delivers=True)
        if following is not None:
            yield Due(self._fires_at(following.due_us), None)

    def _deliver(
        self,
        delivered: list[Entry],
        entry: Entry,
        message: StoredMessage,
        fires_us: int,
        picked_us: int,
        batch: Batch,
    ) -> None:
        self.deliver(batch, message, fires_us=fires_us, picked_us=picked_us)
        if not delivered:
            batch.on_commit(partial(self._delivered, delivered))
        delivered.append(entry)

    def _delivered(self, entries: Sequence[Entry]) -> None:
        pass_point("files.delivered")
        self._remove(entries)

    # Looking up

    def holds(self, parked: StoredMessage) -> bool:
        """Return whether this message is still pending."""
        return parked.due_us is not None and self._waits(entry_of(parked))

    def _waits(self, entry: Entry) -> bool:
        return entry not in self._others and self.store.holds(entry)

    async def find_by_key(self, unique_key: str, max_bytes: int = NO_LIMIT) -> list[StoredMessage]:
        return await self._pending_reader.with_key(unique_key, max_bytes)

    async def numbered(self, number: int) -> StoredMessage | None:
        return next(iter(await self._pending_reader.with_number(number)), None)

    async def page(
        self,
        after: int,
        limit: int,
        *,
        topic: str | None = None,
        level: int | None = None,
        max_bytes: int = NO_LIMIT,
    ) -> list[StoredMessage]:
        """Return pending messages in order of arrival; none for a delay level."""
        if level is not None:
            return []
        return await self._pending_reader.by_arrival(after, limit, topic, max_bytes)

    async def newest(self, before: int, limit: int) -> NewestPage:
        return await self._pending_reader.newest(before, limit)

    async def first_due(self, limit: int) -> list[StoredMessage]:
        return await self._pending_reader.first_due(limit)

    # Removal

    def remove_settled(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these settled messages."""
        self._remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget all pending messages on commit, except messages that are still being saved."""
        entries = [entry for entry in self.store.all() if entry not in self._others]
        for entry in {entry.identity: entry for entry in entries}.values():
            self.settle(batch, entry.identity, entry.due_ms, "cleared")
        batch.on_commit(partial(self._remove, entries, is_cleared=True))

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget records of settled messages, which a kill left, or a user copied back."""
        self.repeats += len(entries)
        self._remove(entries)

    def _remove(self, entries: Iterable[Entry], *, is_cleared: bool = False) -> None:
        gone = []
        for entry in dict.fromkeys(entries):
            if entry not in self.marks.gone and (self.read_ahead.remove(entry) or self.store.holds(entry)):
                self._opened.pop(entry, None)
                self._pending -= 1
                gone.append(entry)
        self.marks.mark_soon(gone, is_cleared=is_cleared)

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        """Quarantine what is left of the message, with the reason."""
        if self.read_ahead.remove(entry):
            self._pending -= 1
        elif error.kind == MISSING:
            return  # the store has removed it already
        log.warning("quarantining the delayed message %s: %s", entry.name, error)
        await self._in_thread(partial(self.store.put_aside, entry, error.kind, str(error)))

    # Snapshots

    def choose_records(self) -> Callable[[], Iterable[KeptRecord]]:
        entries = [entry for entry in self.store.all() if entry not in self._others]

        def read() -> Iterator[KeptRecord]:
            for entry in entries:
                with suppress(FileNotFoundError, DamagedFileError):  # it will not be delivered either
                    yield KeptRecord(*entry, self.store.read(entry))

        return read

    async def stage(self, records: Sequence[KeptRecord]) -> None:
        """Write the records that are not pending.

        Their identities are recorded as settled before, so that a start after a kill marks these records. The
        transaction of the restore turns this around: it forgets these identities, and settles those of the
        messages that are to go.
        """
        await self.marks.done()
        new = {entry: one.content for one in records if not self._waits(entry := Entry(*one[:3]))}
        if not self.marks.gone.isdisjoint(new):
            raise StoreUnavailableError(_NOT_REMOVED)

        def note(batch: Batch) -> None:
            for entry in new:
                batch.execute(_NOTE_STAGED, (*entry.identity, entry.due_ms))

        def write() -> None:
            for entry, content in new.items():
                self.store.write(entry, content)
            self.store.sync(new)

        self._staged.update(new)
        try:
            if new:
                await self.context.store.writer.commit(note)
                pass_point("snapshots.noted")
                await self._in_thread(write)
                pass_point("snapshots.staged")
        except BaseException:
            await self.unstage()
            raise

    async def unstage(self) -> None:
        staged = [*self._staged]
        await self._in_thread(lambda: [self.store.remove_record(entry) for entry in staged])
        self._staged.clear()

    def restore(self, batch: Batch, records: Sequence[KeptRecord]) -> None:
        entries = {Entry(*one[:3]) for one in records}
        leaving = [one for one in self.store.all() if one not in self._others and one not in entries]
        for entry in leaving:
            batch.execute(_SETTLE_AGAIN, (*entry.identity, entry.due_ms))
        batch.on_commit(partial(self._restored, leaving))

    def _restored(self, leaving: Sequence[Entry]) -> None:
        pass_point("snapshots.restored")
        staged = [*self._staged]
        self._staged.clear()
        self._opened.clear()
        self._remove(leaving, is_cleared=True)
        for entry in staged:
            self.context.numbers.note(entry.number)
            self._saved(entry)
        self.context.changed()

    # The store

    async def marked(self) -> None:
        """Wait until all settled records are marked, or the disk has refused a mark."""
        await self.marks.done()

    async def tidy(self) -> None:
        """Retry failed marks, remove files of the past, and adopt records that other programs added."""
        await self.marks.retry()
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

    async def _synced(self) -> None:
        await self.context.store.writer.synced()

    async def _in_thread(self, act: Callable[[], T], thread: ThreadPoolExecutor | None = None) -> T:
        """Run ``act`` in a thread. Raises StoreUnavailableError for an OSError."""
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
