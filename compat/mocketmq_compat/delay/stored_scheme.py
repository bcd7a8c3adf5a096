"""The engine of all delay schemes: messages are records in a store, delivered in order of due time.

How it works. A pending message is a record in the store and nowhere else, identified by its entry: due time,
number, key hash. A send is acknowledged once its record is saved; :class:`GroupSaves` writes and syncs
records that arrive together as one group. :class:`PendingEntries` knows which entries are due next, and keeps
only these in memory, however many are pending. When the timer fires, :class:`DueMessages` reads the records
of the first entries, and the engine passes the messages to the broker's writer. After the commit,
:class:`Marks` marks their records as settled.

Delivery is exactly once. The transaction that makes a message visible also records its identity in the table
``timed_messages``; the record is marked only once the transaction is durable. An unmarked record of a
delivered message, left by a kill or restored from a backup, is recognized by its identity, and marked instead
of delivered.

A new scheme implements :class:`DelayStore`. Everything that blocks runs in threads: one for saves, one for
due messages, one for marks, and one for the rest, such as look-ups, which may read all records.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, TypeVar

from mocketmq.clock import LATEST_US, US_PER_MS, steady_us
from mocketmq.errors import StoreError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import Identity, key_hash
from mocketmq.schedule.scheme import ALL_PENDING, FileFigures, PendingFilter, SchemeContext
from mocketmq.schedule.timed_scheme import KeptRecord, NewestPage, TimedScheme
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.settings import Settings
from mocketmq.store.batch import Batch
from mocketmq.store.messages import MAX_AT_ONCE, NO_LIMIT
from mocketmq.store.queue import Queue
from mocketmq_compat.delay.cleared_messages import CLEAR_AGAIN, NOTE_CLEARED, clear_all, pages_of
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.marks import NOT_REMOVED, Marks, Tidying
from mocketmq_compat.delay.parked_message import content_of, entry_of
from mocketmq_compat.delay.pending_entries import PendingEntries
from mocketmq_compat.delay.pending_reader import DueMessages, PendingReader
from mocketmq_compat.delay.staged_records import StagedRecords
from mocketmq_compat.delay.start_deliver_time import DUE_PROPERTIES, StartDeliverTime
from mocketmq_compat.delay.store import DelayStore

_SETTLED_EARLY: Final = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)

_FORGET_CLEARED: Final = (
    "DELETE FROM timed_messages WHERE number = ? AND key_hash = ? AND outcome = 'cleared'"
)

T = TypeVar("T")


def exact(due_us: int) -> int:
    """Deliver at the due time itself; the default of ``fires_at``."""
    return due_us


class StoredScheme(TimedScheme):
    """A scheme over a store, which it closes.

    ``fires_at`` maps a due time to the time at which the scheme delivers, by default the same.
    """

    due_properties = DUE_PROPERTIES

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
        self.marks = Marks(store, context.store.writer.synced, context.store.clock.now_us, self._in_thread)
        self.saves = GroupSaves(
            store, settings.delay_sync, self._saved, self.marks.mark_soon, settings.delay_quota_bytes
        )
        self.entries = PendingEntries(store, self.saves, self.marks, self._in_due_thread, context.changed)
        self.tidying = Tidying(self.tidy)
        self.repeats = 0  # records not delivered, because their messages were already settled
        self._clock = context.store.clock
        # With the delay limits of another system, the broker applies these limits instead of the windows.
        windows_us = (
            (settings.start_deliver_window_us,) if settings.delay_limits is None else (LATEST_US, LATEST_US)
        )
        self._due_times = StartDeliverTime(self._clock, settings.start_deliver_time, *windows_us)
        self._fires_at = fires_at
        self._syncs_later = settings.delay_sync == "interval"
        self._thread = ThreadPoolExecutor(1, "delay-reads")
        self._due_thread = ThreadPoolExecutor(1, "delay-due")
        self.records = PendingReader(
            store, context.topics, self.entries, self.kept, self.settled, self._in_thread
        )
        self.due_records = replace(self.records, run=self._in_due_thread)
        self._due_messages = DueMessages(self.due_records, self.entries, self._refuse_repeats)
        self._staged = StagedRecords(store, context.store.writer, self.marks, self.entries, self._in_thread)

    # Start and stop

    async def load(self) -> None:
        """Load the pending messages. Raises a StoreError."""
        await self.entries.load()
        self.context.numbers.note(self.store.last_number)
        await self._tidy_store()
        await self.entries.refill()
        await self._refuse_settled_early()

    async def _refuse_settled_early(self) -> None:
        """Drop restored copies of cancelled or forced messages, which would count as pending until due."""
        early = await self.context.store.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        self._refuse_repeats([entry for entry in map(Entry._make, early) if entry in self.entries])

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
        self._due_thread.shutdown()
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
                await self._remove_former(entry)
            began_us = steady_us()
            await self.saves.save(entry, content_of(kept, queue))
            writer.tell_stored([(self.context.parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return kept

    async def has_kept(self, number: int, unique_key: str) -> bool:
        identity = number, key_hash(unique_key)
        if await self.was_cleared(identity):  # after a kill, the cleared message's record may still exist
            return False
        is_saved = not self.marks.gone.issuperset(await self._records_of(identity))
        return is_saved or identity in await self.settled([number])

    async def _records_of(self, identity: Identity) -> list[Entry]:
        found = await self._in_thread(partial(self.store.with_number, identity[0]))
        return [entry for entry in found if entry.identity == identity]

    async def _remove_former(self, entry: Entry) -> None:
        """Allow saving a message again that a restore has removed, or whose former save was refused.

        A committed message is numbered by the log offset of its half message, which repeats after a restore.
        Its old record must be gone first. Raises a StoreError.
        """
        was_cleared = await self.was_cleared(entry.identity)
        if not was_cleared and entry not in self.marks.gone:
            return
        records = [entry, *await self._records_of(entry.identity)]
        self._remove(records)
        await self.marks.done()
        if not self.marks.gone.isdisjoint(records):
            raise StoreUnavailableError(NOT_REMOVED)
        if was_cleared:
            await self.context.store.writer.commit(
                lambda batch: batch.execute(_FORGET_CLEARED, entry.identity)
            )

    def _saved(self, entry: Entry) -> None:
        self.entries.add(entry)

    # Due times

    @property
    def pending(self) -> int:
        return self.entries.count

    def first_due_us(self) -> int | None:
        """Return the due time of the first saved message."""
        first = self.entries.first()
        return None if first is None else first.due_us

    def next_delivery_us(self) -> int | None:
        """Return the instant of the next delivery, including messages that are still being saved."""
        first = self.entries.first_or_saving()
        return None if first is None else self._fires_at(first.due_us)

    def due_seconds(self) -> Mapping[int, int]:
        """Count the messages by the second in which they are due.

        If the store keeps no such counts, only the messages in the read-ahead are counted.
        """
        return self.store.by_second() or Counter(entry.second for entry in self.entries.read_ahead.entries)

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

    # Delivering

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare the messages that fire by ``until_us``, in order of due millisecond and arrival."""

        def is_due(entry: Entry) -> bool:
            return self._fires_at(entry.due_us) <= until_us

        if any(map(is_due, self.saves.in_flight)):
            await self.saves.idle()
        due = await self.entries.due(is_due)
        picked_us = self._clock.now_us()
        messages = await self._due_messages.read(due)
        pass_point("files.picked")
        yield partial(self._due_now, messages, picked_us)
        if self.entries.read_ahead.needs_refill:
            with suppress(StoreError):  # the deliveries are committed, and the next call reads again
                await self.entries.refill()

    def _due_now(self, opened: Sequence[tuple[Entry, StoredMessage]], picked_us: int) -> Iterator[Due]:
        following = self.entries.first_but({entry for entry, _ in opened})
        delivered: list[Entry] = []
        for entry, message in opened:
            if following is not None and following < entry:
                break
            fires_us = self._fires_at(entry.due_us)
            deliver = partial(self._deliver, delivered, entry, message, fires_us, picked_us)
            yield Due(fires_us, deliver, delivers=1)
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
        return parked.due_us is not None and entry_of(parked) in self.entries

    async def find_by_key(self, unique_key: str, max_bytes: int = NO_LIMIT) -> list[StoredMessage]:
        return await self.records.with_key(unique_key, max_bytes)

    async def numbered(self, number: int) -> StoredMessage | None:
        return next(iter(await self.records.with_number(number)), None)

    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        if which.level is not None:
            return []
        return await self.records.by_arrival(after, limit, which.topic, max_bytes)

    async def newest(self, before: int, limit: int) -> NewestPage:
        return await self.records.newest(before, limit)

    async def first_due(self, limit: int) -> list[StoredMessage]:
        return await self.records.first_due(limit)

    # Removal

    def remove_settled(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these settled messages."""
        self._remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget all pending messages on commit, except messages that are still being saved.

        Also removes records of messages that were settled before.
        """
        self._exchange(batch, NOTE_CLEARED)

    def _exchange(self, batch: Batch, statement: str) -> None:
        """Replace the pending messages on commit by those that stay: none after a reset."""
        listed = self.entries.listed
        added = listed.take_added().difference(listed.staying)
        clear_all(batch, statement, [*listed.pages, *pages_of(added)])

        def exchange() -> None:
            self.entries.staged.clear()
            self.store.adopted.difference_update(listed.entries, listed.staying)
            first = [entry for entry in listed.first if entry not in added]
            self.entries.replace(len(listed.staying), first, listed.take_added())
            self._due_messages.forget_all()
            self.marks.mark_soon(listed.entries, is_cleared=True)
            self.marks.mark_soon(added, is_cleared=True)

        batch.on_commit(exchange)

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget records of settled messages, which a kill left, or a user copied back."""
        self.repeats += len(entries)
        self._remove(entries)

    def _remove(self, entries: Iterable[Entry]) -> None:
        gone = [entry for entry in dict.fromkeys(entries) if self.entries.remove(entry)]
        self._due_messages.forget(gone)
        self.marks.mark_soon(gone)

    async def look_ahead(self, count: int) -> None:
        await self.entries.look_ahead(count + 1)

    # Snapshots

    def listing(self) -> AbstractAsyncContextManager[None]:
        return self.entries.listing()

    def choose_records(self) -> Callable[[], Iterable[KeptRecord]]:
        listed = self.entries.listed
        added = listed.take_added()

        def read() -> Iterator[KeptRecord]:
            for entry in chain(listed.entries, added):
                with suppress(FileNotFoundError, DamagedFileError):  # it would not be delivered either
                    yield KeptRecord(*entry, self.store.read(entry))

        return read

    async def stage(self, records: Sequence[KeptRecord]) -> None:
        self.context.numbers.note(await self._staged.write(records))

    async def unstage(self) -> None:
        await self._staged.remove()

    def restore(self, batch: Batch, records: Sequence[KeptRecord]) -> None:  # noqa: ARG002 - they are staged
        batch.on_commit(partial(pass_point, "snapshots.restored"))
        self._exchange(batch, CLEAR_AGAIN)

    # The store

    async def marked(self) -> None:
        """Wait until all settled records are marked, or the disk has refused a mark."""
        await self.marks.done()

    async def tidy(self) -> None:
        """Retry failed marks, remove past files, and adopt records that other programs added."""
        await self.marks.retry()
        await self._tidy_store()

    async def _tidy_store(self) -> None:
        now_us = self._clock.now_us()

        def act() -> list[Entry]:
            self.store.remove_over(now_us)
            self.store.adopt(now_us)
            return [*self.store.adopted]

        adopted = await self._in_thread(act)
        for begin in range(0, len(adopted), MAX_AT_ONCE):
            some = adopted[begin : begin + MAX_AT_ONCE]
            settled = await self.settled([entry.number for entry in some])
            # Others were removed by a reset, or added by another call.
            new = [entry for entry in some if entry in self.store.adopted]
            self.store.adopted.difference_update(new)
            for entry in new:
                self.context.numbers.note(entry.number)
                self._saved(entry)
            self._refuse_repeats([entry for entry in new if entry.identity in settled])

    async def _in_due_thread(self, act: Callable[[], T]) -> T:
        """Like ``_in_thread``, but wait for no look-up."""
        return await self._in_thread(act, self._due_thread)

    async def _in_thread(self, act: Callable[[], T], thread: ThreadPoolExecutor | None = None) -> T:
        """Run ``act`` in a thread. Raises StoreUnavailableError for an OSError."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(thread or self._thread, act)
            self.entries.recount()
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise StoreUnavailableError(
                f"the delay scheme {self.name} cannot use its files: {error.strerror or error}{place}"
            ) from error
        return result
