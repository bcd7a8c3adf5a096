"""The engine of all delay schemes: messages are records in a store, delivered in order of their due times.

How it works. A pending message is a record in the store and nowhere else; each record is known by its entry:
due time, number, key hash. A send is answered once its record is saved (:class:`GroupSaves` writes and syncs
those that come together as one). The engine holds the entries that are due next, the :class:`Front`, and no
others, however many wait. When the timer fires, it reads the records of the first of them, hands the messages
to the broker's writer, and once that has committed has their records marked as done with (:class:`Marks`).
When the front runs out it is filled again from the store, in a thread.

Delivery is exactly once. The transaction that makes a message visible also records its identity in the table
``timed_messages``; the record is marked once that is durable. A record without its mark, left by a kill or
copied back from a backup, is known by that identity, and marked instead of delivered. A record that cannot be
delivered is put aside, so that it holds up no other.

A scheme writes a :class:`DelayStore`. All that blocks runs in threads: saves, reads and marks have one each.
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
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeVar

from mocketmq.clock import LATEST_US, US_PER_MS, steady_us
from mocketmq.errors import EmulatorError, StoreFullError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import key_hash
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.scheme import FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import Settings
from mocketmq.store.chore import Chore
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq.store.queue import Queue
from mocketmq.store.writer import MAX_BATCH_BYTES, Batch
from mocketmq_compat.delay import front
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.marks import Marks
from mocketmq_compat.delay.parked_message import check_deliverable, content_of, draft_in, entry_of
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

MISSING: Final = "missing"
_SETTLED_EARLY: Final = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)

T = TypeVar("T")


class Tidying(Chore):
    """Looks after the store although nothing is delivered meanwhile, and retries marks."""

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


def exact(due_us: int) -> int:
    """Act at the due time itself."""
    return due_us


class StoredScheme(TimedScheme):
    """The scheme over a store, which it closes; ``fires_at`` gives the instant of delivery for a due time."""

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
        self.repeats = 0  # records that were refused because their message was done with
        self._clock = context.store.clock
        # A contract has limits of its own, which the broker applies.
        windows_us = (
            (settings.start_deliver_window_us,) if settings.contract is None else (LATEST_US, LATEST_US)
        )
        self._due_times = StartDeliverTime(self._clock, settings.start_deliver_time, *windows_us)
        self._fires_at = fires_at
        self._syncs_later = settings.delay_sync == "interval"
        self._quota_bytes = settings.delay_quota_bytes
        self._saving_bytes = 0
        self._front = front.Front()
        self._pending = 0
        self._opened: dict[Entry, StoredMessage] = {}  # read, and due, but not delivered yet
        self._others = _Either(self.marks.gone, self.saves.in_flight)  # in the store, and do not wait
        self._recounts = store.recounts  # of the store, when the front was filled
        self._thread = ThreadPoolExecutor(1, "delay-reads")

    # Start and stop

    async def load(self) -> None:
        """Load the pending messages. Raises a StoreError."""
        self._pending = await self._in_thread(lambda: self.store.count)
        self.context.numbers.note(self.store.last_number)
        await self._tidy_store()
        await self._refill()
        await self._refuse_settled_early()

    async def _refuse_settled_early(self) -> None:
        """Refuse cancelled or forced messages copied back; they would be listed until they are due."""
        early = await self.context.store.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        self._refuse_repeats([entry for entry in map(Entry._make, early) if self._waits(entry)])

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Start the tidying, and the syncs of the policy ``interval``."""
        tasks = [self.tidying.start()]
        return [*tasks, self.saves.start()] if self._syncs_later else tasks

    async def close(self) -> None:
        """Save all accepted messages, and close the store."""
        await self.tidying.close()
        await self.saves.close()
        await self.marks.close()
        self._thread.shutdown()
        self.store.close()

    # Keep

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """As :meth:`StartDeliverTime.due_us`."""
        return self._due_times.due_us(properties, level)

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Save the message, due at ``due_us`` rounded up to whole milliseconds.

        As :meth:`TimedScheme.keep`; StoreFullError when the quota is used up.
        """
        now_us = self._clock.now_us()
        is_new = number is None
        number = self.context.numbers.next() if number is None else number
        entry = Entry(-(-due_us // US_PER_MS), number, key_hash(draft.unique_key))
        writer = self.context.store.writer
        kept = self.kept(draft, queue, entry.due_us, number, now_us, writer.store_host)
        if is_new or not await self.has_kept(number, draft.unique_key):
            began_us = steady_us()
            await self._save(entry, content_of(kept, queue))
            writer.tell_stored([(self.context.parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return kept

    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""
        digest = key_hash(unique_key)
        if any(entry.key_hash == digest for entry in await self._with_number(number)):
            return True
        return (number, digest) in await self.settled([number])

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

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return self._pending

    def first_due_us(self) -> int | None:
        """The due time of the first saved message."""
        first = self._first()
        return None if first is None else first.due_us

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible, be it saved or on its way to the disk."""
        first = self._before_saves(self._first())
        return None if first is None else self._fires_at(first.due_us)

    def _first(self) -> Entry | None:
        if self._front.needs_refill:
            self._front.end_refill(self._read_front())  # rare: many were cancelled at once
        return self._front.first()

    def _before_saves(self, first: Entry | None) -> Entry | None:
        """The first of this entry and those on their way to the disk."""
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
            len(self.marks.gone),
            self.repeats + store.repeats,
            Counter(store.damaged),
        )

    async def _refill(self) -> None:
        self._front.begin_refill()
        leaving = {
            *self.marks.gone
        }  # once marked, they are not gone, but the store may have read them before
        try:
            found = await self._in_thread(self._read_front)
        except BaseException:
            self._front.abandon_refill()
            raise
        if self._front.is_refilling:  # not filled by ``_recount`` meanwhile
            self._front.end_refill(entry for entry in found if entry not in leaving)

    def _recount(self) -> None:
        """Reload the pending entries after the store rebuilt its index; rare, so on the event loop."""
        recounts = self.store.recounts
        leaving = sum(map(self.store.holds, {*self.marks.gone, *self.saves.in_flight}))
        self._pending = self.store.count - leaving
        self._front.abandon_refill()
        self._front.end_refill(self._read_front())
        self._recounts = recounts
        self.context.changed()

    def _read_front(self) -> list[Entry]:
        return self.store.first(front.SIZE + 1, self._others)

    # Deliver

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare what fires by ``until_us``, in order of due millisecond and arrival."""

        def is_due(entry: Entry) -> bool:
            return self._fires_at(entry.due_us) <= until_us

        if any(map(is_due, self.saves.in_flight)):
            await self.saves.idle()
        beyond = self._front.beyond
        if beyond is not None and len(self._front.entries) < BATCH and is_due(beyond):
            await self._refill()
        picked_us = self._clock.now_us()
        await self._read(self._front.until(is_due, BATCH))
        pass_point("files.picked")
        yield partial(self._due_now, [*self._opened.items()], picked_us)

    async def _read(self, entries: Sequence[Entry]) -> None:
        """Open these entries, as many as fit a batch; repeats and damaged ones are removed.

        What was read and not delivered is not read again the next time.
        """
        settled = await self.settled([entry.number for entry in entries])
        self._refuse_repeats([entry for entry in entries if entry.identity in settled])
        waiting = [entry for entry in entries if entry.identity not in settled]
        unread = [entry for entry in waiting if entry not in self._opened]
        contents = await self._contents(unread) if unread else {}
        opened: dict[Entry, StoredMessage] = {}
        for entry in waiting:
            message = self._opened.get(entry)
            if message is None and entry not in contents:
                break
            try:
                message = message or await self._open(entry, contents[entry])
                if entry.identity in settled:  # the same message with two due times
                    self._refuse_repeats([entry])
                else:
                    opened[entry] = message
                    settled.add(entry.identity)
            except DamagedFileError as error:
                await self._put_aside(entry, error)
            except EmulatorError:  # the store's, not the message's
                raise
            except Exception as error:  # noqa: BLE001 - one message must not hold up all others
                await self._put_aside(entry, DamagedFileError("defect", repr(error)))
        self._opened = opened

    async def _contents(self, entries: Sequence[Entry]) -> Mapping[Entry, bytes | DamagedFileError]:
        """Contents in this order, as many as fit a batch, at least one; or why one cannot be read."""

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

    async def _open(self, entry: Entry, content: bytes | DamagedFileError) -> StoredMessage:
        """The message in a content. Raises DamagedFileError if it cannot be delivered, or is another's."""
        if isinstance(content, DamagedFileError):
            raise content
        file = decode(content)
        header = file.header
        if header.entry != entry:
            raise DamagedFileError("name", f"by its header, the record is {header.entry.name}")
        properties = check_deliverable(file)
        topic = await self.context.topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        draft = draft_in(file, properties)
        return self.kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)

    def _due_now(self, opened: Sequence[tuple[Entry, StoredMessage]], picked_us: int) -> Iterator[Due]:
        following = self._before_saves(self._front.first_but({entry for entry, _ in opened}))
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

    # By hand

    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits."""
        return parked.due_us is not None and self._waits(entry_of(parked))

    def _waits(self, entry: Entry) -> bool:
        return entry not in self._others and self.store.holds(entry)

    async def find(self, unique_key: str) -> list[StoredMessage]:
        """Pending messages with this unique key."""
        entries = await self._in_thread(partial(self.store.with_key, key_hash(unique_key)))
        return [message for message in await self._messages(entries) if message.unique_key == unique_key]

    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message with this number, or None."""
        return next(iter(await self._messages(await self._with_number(number))), None)

    async def _with_number(self, number: int) -> list[Entry]:
        return await self._in_thread(partial(self.store.with_number, number))

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
        """The messages of those that wait and can be read; the others are put aside when they are due."""
        found: list[StoredMessage] = []
        left = [entry for entry in entries if self._waits(entry)]
        settled = await self.settled([entry.number for entry in left])
        while left:
            contents = await self._contents(left)
            left = left[len(contents) :]
            for entry, content in contents.items():
                try:
                    message = await self._open(entry, content)
                except DamagedFileError:
                    continue
                if entry.identity not in settled:
                    found.append(message)
        return found

    # Done with

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these messages."""
        self._remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. What is being saved meanwhile stays."""
        entries = [entry for entry in self.store.all() if entry not in self._others]
        for entry in {entry.identity: entry for entry in entries}.values():
            self.settle(batch, entry.identity, entry.due_ms, "cleared")
        batch.on_commit(partial(self._remove, entries, is_cleared=True))

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget messages that were done with before, left by a kill or copied back."""
        self.repeats += len(entries)
        self._remove(entries)

    def _remove(self, entries: Iterable[Entry], *, is_cleared: bool = False) -> None:
        gone = []
        for entry in dict.fromkeys(entries):
            if entry not in self.marks.gone and (self._front.remove(entry) or self.store.holds(entry)):
                self._opened.pop(entry, None)
                self._pending -= 1
                gone.append(entry)
        self.marks.add(gone, is_cleared=is_cleared)

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        """Put what there is of the message into the quarantine, with the reason."""
        if self._front.remove(entry):
            self._pending -= 1
        elif error.kind == MISSING:
            return  # the store has found out by itself
        log.warning("the delayed message %s is put aside: %s", entry.name, error)
        await self._in_thread(partial(self.store.put_aside, entry, error.kind, str(error)))

    # The store

    async def marked(self) -> None:
        """Wait until all that is done with is marked, where the disk lets it be."""
        await self.marks.done()

    async def tidy(self) -> None:
        """Try failed marks again, remove files that are over, and adopt records that others added."""
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
