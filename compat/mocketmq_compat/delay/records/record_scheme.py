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
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, TypeVar

from mocketmq.clock import US_PER_MS, steady_us
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
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.file_saves import FileSaves
from mocketmq_compat.delay.parked_message import check_deliverable, content_of, draft_in, entry_of
from mocketmq_compat.delay.records import front
from mocketmq_compat.delay.records.record_store import RecordStore
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds that marks get when the broker stops; the next start deals with the rest."""
MARKS: Final = 256
"""Records that are marked in one go."""

_SETTLED_EARLY = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)

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


class RecordScheme(TimedScheme):
    """The scheme over a store, which it closes."""

    def __init__(self, name: str, context: SchemeContext, settings: Settings, store: RecordStore) -> None:
        self.name = name
        super().__init__(context)
        self.store = store
        self.saves = FileSaves(store, settings.delay_sync, self._saved)
        self.tidying = Tidying(self.tidy)
        self.repeats = 0  # records that were refused because their message was done with
        self._clock = context.ground.clock
        self._due_times = StartDeliverTime(
            self._clock, settings.start_deliver_time, settings.start_deliver_window_us
        )
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
        self._opened: dict[Entry, StoredMessage] = {}  # read, and due, but not delivered yet
        self._thread = ThreadPoolExecutor(1, "delay-records")

    # Start and stop

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""
        self._pending = await self._in_thread(lambda: self.store.count)
        self.context.numbers.note(self.store.last_number)
        await self._refill()
        # Cancelled or forced messages that were copied back would otherwise be listed until they are due.
        early = await self.context.ground.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        self._refuse_repeats([entry for entry in map(Entry._make, early) if self._waits(entry)])

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
        self._thread.shutdown()
        self.store.close()

    # Keep

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """As :meth:`StartDeliverTime.due_us`."""
        return self._due_times.due_us(properties, level)

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Save the message's record, due at ``due_us`` rounded up to whole milliseconds.

        As :meth:`TimedScheme.keep`; StoreFullError when the quota is used up.
        """
        due_ms = -(-due_us // US_PER_MS)
        digest = key_hash(draft.unique_key)
        is_new = number is None
        entry = Entry(due_ms, self.context.numbers.next() if number is None else number, digest)
        writer = self.context.ground.writer
        kept = self.kept(draft, queue, entry.due_us, entry.number, self._clock.now_us(), writer.store_host)
        if is_new or not await self.has_kept(entry.number, draft.unique_key):
            began_us = steady_us()
            await self._save(entry, content_of(kept, queue))
            writer.tell_stored([(self.context.parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return kept

    async def _save(self, entry: Entry, content: bytes) -> None:
        size = len(content)
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

    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""
        digest = key_hash(unique_key)
        waiting = await self._in_thread(partial(self.store.with_number, number))
        if any(entry.key_hash == digest for entry in waiting):
            return True
        return (number, digest) in await self.settled([number])

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return self._pending

    def first_due_us(self) -> int | None:
        """The due time of the first record."""
        first = self._first()
        return None if first is None else first.due_us

    def _first(self) -> Entry | None:
        if self._front.needs_refill:
            self._front.end_refill(self._read_front())  # rare: many were cancelled at once
        return self._front.first()

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible, be it saved or on its way to the disk."""
        first = self._next()
        return None if first is None else first.due_us

    def _next(self, others: Container[Entry] | None = None) -> Entry | None:
        """What is delivered first but for ``others``, saved or being saved."""
        first = self._first() if others is None else self._front.first_but(others)
        saving = min(self.saves.in_flight, default=None)
        return saving if first is None or (saving is not None and saving < first) else first

    def file_figures(self) -> FileFigures:
        """What the store takes of the disk, and counts of damaged and refused records."""
        store = self.store
        return FileFigures(
            store.parts,
            store.disk_bytes,
            store.quarantined,
            len(self._gone),
            self.repeats,
            Counter(store.damaged),
        )

    async def _refill(self) -> None:
        self._front.begin_refill()
        try:
            found = await self._in_thread(self._read_front)
        except BaseException:
            self._front.abandon_refill()
            raise
        self._front.end_refill(found)

    def _read_front(self) -> list[Entry]:
        return self.store.first(front.SIZE + 1, self._others)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare what fires by ``until_us``, in order of due millisecond and arrival."""
        if any(entry.due_us <= until_us for entry in self.saves.in_flight):
            await self.saves.idle()
        beyond = self._front.beyond
        if beyond is not None and len(self._front.entries) < BATCH and beyond.due_us <= until_us:
            await self._refill()
        picked_us = self._clock.now_us()
        messages = await self._read(self._front.until(until_us, BATCH))
        pass_point("files.picked")
        yield partial(self._due_now, messages, picked_us)

    async def _read(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        """The messages of these entries, as many as fit a batch; repeats and damaged records are removed.

        What was read and not delivered is not read again the next time.
        """
        settled = await self.settled([entry.number for entry in entries])
        self._refuse_repeats([entry for entry in entries if entry.identity in settled])
        waiting = [entry for entry in entries if entry.identity not in settled]
        contents = await self._contents([entry for entry in waiting if entry not in self._opened])
        opened: dict[Entry, StoredMessage] = {}
        for entry in waiting:
            message = self._opened.get(entry)
            if message is None and entry not in contents:
                break
            if entry.identity in settled:  # the same message with two due times
                self._refuse_repeats([entry])
                continue
            try:
                opened[entry] = message or await self._open(entry, contents[entry])
                settled.add(entry.identity)
            except DamagedFileError as error:
                await self._put_aside(entry, error)
            except EmulatorError:  # the store's, not the record's
                raise
            except Exception as error:  # noqa: BLE001 - one record must not hold up all others
                await self._put_aside(entry, DamagedFileError("defect", repr(error)))
        self._opened = opened
        return [*opened.values()]

    async def _contents(self, entries: Sequence[Entry]) -> dict[Entry, bytes | None]:
        """Contents of records, as many as fit a batch; None for one that is missing."""

        def read() -> dict[Entry, bytes | None]:
            found: dict[Entry, bytes | None] = {}
            size = 0
            for entry in entries:
                content = None
                with suppress(FileNotFoundError):
                    content = self.store.read(entry)
                found[entry] = content
                size += len(content or b"")
                if size > MAX_BATCH_BYTES:
                    break
            return found

        return await self._in_thread(read) if entries else {}

    async def _open(self, entry: Entry, content: bytes | None) -> StoredMessage:
        """The message of a record. Raises DamagedFileError if it cannot be delivered."""
        if content is None:
            raise DamagedFileError("missing", "there is no such record")
        file = decode(content)
        if file.header.entry != entry:
            raise DamagedFileError("name", f"by its header, the record is {file.header.entry.name}")
        properties = check_deliverable(file)
        header = file.header
        topic = await self.context.topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        draft = draft_in(file, properties)
        return self.kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)

    def _due_now(self, messages: Sequence[StoredMessage], picked_us: int) -> Iterator[Due]:
        entries = [entry_of(message) for message in messages]
        following = self._next(set(entries))
        delivered: list[StoredMessage] = []
        for entry, message in zip(entries, messages, strict=True):
            if following is not None and following < entry:
                break
            yield Due(entry.due_us, partial(self._deliver, delivered, message, picked_us), delivers=True)
        if following is not None:
            yield Due(following.due_us, None)

    def _deliver(
        self, delivered: list[StoredMessage], message: StoredMessage, picked_us: int, batch: Batch
    ) -> None:
        self.deliver(batch, message, fires_us=message.due_us or 0, picked_us=picked_us)
        if not delivered:
            batch.on_commit(partial(self._delivered, delivered))
        delivered.append(message)

    def _delivered(self, messages: Sequence[StoredMessage]) -> None:
        pass_point("files.delivered")
        self.remove(messages)

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
        entries = await self._in_thread(partial(self.store.with_number, number))
        return next(iter(await self._messages(entries)), None)

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages in order of arrival; none for any level."""
        if level is not None:
            return []
        keys = None if topic is None else {queue.key for queue in self.context.topics.get(topic).queues}
        found: list[StoredMessage] = []
        # Only a record knows its topic, and whether it can be read at all.
        while len(found) < limit:
            some = max(limit - len(found), MAX_AT_ONCE if keys else 0)
            entries = await self._in_thread(partial(self.store.by_arrival, after, some))
            found += [m for m in await self._messages(entries) if keys is None or m.real_queue_key in keys]
            if len(entries) < some:
                break
            after = entries[-1].number
        return found[:limit]

    async def _messages(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        """The messages of those that can be read; the others are put aside when they are due."""
        left = [entry for entry in entries if self._waits(entry)]
        settled = await self.settled([entry.number for entry in left])
        found: list[StoredMessage] = []
        while left:
            contents = await self._contents(left)
            left = left[len(contents) :]
            for entry, content in contents.items():
                with suppress(DamagedFileError):
                    message = await self._open(entry, content)
                    if entry.identity not in settled:
                        found.append(message)
        return found

    # Done with

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these messages; their records are marked soon."""
        self._remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. What is being saved meanwhile stays."""
        entries = [entry for entry in self.store.all() if entry not in self._others]
        for entry in {entry.identity: entry for entry in entries}.values():
            self.settle(batch, entry.identity, entry.due_ms, "cleared")
        batch.on_commit(partial(self._cleared, entries))

    def _cleared(self, entries: Sequence[Entry]) -> None:
        self._is_cleared = True
        self._remove(entries)

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget records of messages that are done with, left by a kill or copied back."""
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
                await self.context.ground.writer.synced()
                await self._in_thread(partial(self._mark, some, is_cleared))
                self._gone.difference_update(some)
                self._is_cleared = self._is_cleared and bool(self._unmarked)
        except EmulatorError as error:  # tried again with the next, and by the tidying
            self._unmarked.extendleft(some)
            log.warning("records of messages that are done with stay unmarked: %s", error)
        finally:
            self._marking = None

    def _mark(self, entries: Sequence[Entry], is_cleared: bool) -> None:
        self.store.forget(entries)
        pass_point("files.removed")
        self.store.tidy(self._clock.now_us(), is_cleared=is_cleared)

    async def tidy(self) -> None:
        """Try failed marks again, and remove files that are over."""
        self._remove(())
        await self.marked()
        await self._in_thread(lambda: self.store.tidy(self._clock.now_us()))

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        log.warning("the delayed message %s is put aside: %s", entry.name, error)
        if self._front.remove(entry):
            self._pending -= 1
        await self._in_thread(partial(self.store.put_aside, entry, error.kind, str(error)))

    async def _in_thread(self, act: Callable[[], T]) -> T:
        """Raises StoreUnavailableError for an OSError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            raise StoreUnavailableError(
                f"the delay scheme {self.name} cannot use its files: {error.strerror or error}{place}"
            ) from error
