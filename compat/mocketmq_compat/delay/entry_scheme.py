"""The base of schemes that know each message by an entry: its due time, number and key hash.

A pending message is on disk and nowhere else: a send is answered once it is saved, and the store gets the
message when it is due. An index says what is due; a derived scheme gives the index and the files.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import key_hash
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import Settings
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.file_saves import FileSaves
from mocketmq_compat.delay.parked_message import check_deliverable, content_of, draft_in, entry_of
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime

_SETTLED_EARLY = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)


def exact(due_us: int) -> int:
    """Act at the due time itself."""
    return due_us


class OpenedFile(NamedTuple):
    """A file that was read: its entry and its message."""

    entry: Entry
    message: StoredMessage


class EntryIndex(Protocol):
    """What waits, by due time; see :class:`~mocketmq_compat.delay.delay_index.DelayIndex`."""

    def __len__(self) -> int: ...
    def __contains__(self, entry: Entry, /) -> bool: ...
    def __iter__(self) -> Iterator[Entry]: ...
    def first(self) -> Entry | None:
        """The entry that is due first, without those that were picked."""

    def pick(self) -> Entry:
        """Pick the first entry: it is out of the order until ``put_back``, or for good once removed."""

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Put picked entries back into the order."""

    def with_key(self, key_hash: int) -> list[Entry]:
        """The entries of messages whose key has this hash."""

    def with_number(self, number: int) -> list[Entry]:
        """The entries with this number."""

    def by_second(self) -> Mapping[int, int]:
        """How many messages wait in each second."""


class EntryFiles(Protocol):
    """Where a scheme keeps its messages, each known by its entry."""

    saves: FileSaves

    @property
    def index(self) -> EntryIndex:
        """All that waits and is saved."""

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""

    def start(self) -> asyncio.Task[None]:
        """Begin what is done in the background."""

    async def close(self) -> None:
        """Save what was accepted, and close."""

    async def save(self, entry: Entry, content: bytes) -> None:
        """Keep a new message. Raises a StoreError."""

    def first(self) -> Entry | None:
        """The first entry in order of delivery, saved or being saved."""

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, bytes | OSError]]:
        """Contents in this order, as many as fit a batch, or the error of reading one."""

    def remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages, which are done with; nothing may be left of them after a commit's sync."""

    def refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Remove messages that were done with before."""

    async def quarantine(self, entry: Entry, error: DamagedFileError) -> None:
        """Put the message aside, with the reason."""


class EntryScheme(TimedScheme):
    """The scheme over its ``files``; ``fires_at`` gives the instant of delivery for a due time."""

    def __init__(
        self,
        context: SchemeContext,
        settings: Settings,
        files: EntryFiles,
        fires_at: Callable[[int], int] = exact,
    ) -> None:
        super().__init__(context)
        self._files = files
        self._clock = context.ground.clock
        self._due_times = StartDeliverTime(
            self._clock, settings.start_deliver_time, settings.start_deliver_window_us
        )
        self._fires_at = fires_at
        self._opened: dict[Entry, OpenedFile] = {}  # read, and due, but not delivered yet

    async def load(self) -> None:
        """Build the index. Raises a StoreError."""
        await self._files.load()
        # Cancelled or forced messages that were copied back would otherwise be listed until they are due.
        early = await self.context.ground.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        entries = map(Entry._make, early)
        self._files.refuse_repeats([entry for entry in entries if entry in self._files.index])

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Look after the files in the background."""
        return [self._files.start()]

    async def close(self) -> None:
        """Save all accepted messages, and close the directory."""
        await self._files.close()

    # Keep

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """As :meth:`StartDeliverTime.due_us`."""
        return self._due_times.due_us(properties, level)

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Save the message's file, due at ``due_us`` rounded up to whole milliseconds.

        As :meth:`TimedScheme.keep`; StoreFullError when the quota is used up.
        """
        now_us = self._clock.now_us()
        due_ms = -(-due_us // US_PER_MS)
        digest = key_hash(draft.unique_key)
        is_new = number is None
        number = self.context.numbers.next() if number is None else number
        writer = self.context.ground.writer
        kept = self.kept(draft, queue, due_ms * US_PER_MS, number, now_us, writer.store_host)
        if is_new or not await self.has_kept(number, draft.unique_key):
            began_us = steady_us()
            await self._files.save(Entry(due_ms, number, digest), content_of(kept, queue))
            writer.tell_stored([(self.context.parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return kept

    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""
        digest = key_hash(unique_key)
        if any(entry.key_hash == digest for entry in self._files.index.with_number(number)):
            return True
        return (number, digest) in await self.settled([number])

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return len(self._files.index)

    def first_due_us(self) -> int | None:
        """The due time of the first file."""
        first = self._files.index.first()
        return None if first is None else first.due_us

    def due_seconds(self) -> Mapping[int, int]:
        """How many files are due in each second."""
        return self._files.index.by_second()

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible, be it saved or on its way to the disk."""
        first = self._files.first()
        return None if first is None else self._fires_at(first.due_us)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare what fires by ``until_us``, in order of due millisecond and arrival."""
        if any(self._fires_at(entry.due_us) <= until_us for entry in self._files.saves.in_flight):
            await self._files.saves.idle()
        index = self._files.index
        picked_us = self._clock.now_us()
        picked: list[Entry] = []
        try:
            while (
                len(picked) < BATCH and (first := index.first()) and self._fires_at(first.due_us) <= until_us
            ):
                picked.append(index.pick())
            opened = await self._read(picked)
            pass_point("files.picked")
            yield partial(self._due_now, opened, picked_us)
        finally:
            index.put_back(picked)  # those that are gone do not come back

    async def _read(self, picked: list[Entry]) -> list[OpenedFile]:
        """The messages of these entries, as many as fit a batch; repeats and damaged files are removed.

        What does not fit is put back. What was read and not delivered is not read again the next time.
        """
        settled = await self.settled([entry.number for entry in picked])
        repeats = [entry for entry in picked if entry.identity in settled]
        self._files.refuse_repeats(repeats)
        waiting = [entry for entry in picked if entry.identity not in settled]
        contents = dict(await self._files.read([entry for entry in waiting if entry not in self._opened]))
        opened: dict[Entry, OpenedFile] = {}
        for number, entry in enumerate(waiting):
            one = self._opened.get(entry)
            if one is None and entry not in contents:
                self._files.index.put_back(waiting[number:])
                break
            try:
                one = one or await self._open(entry, contents[entry])
                if entry.identity in settled:  # the same message with two due times
                    self._files.refuse_repeats([entry])
                else:
                    opened[entry] = one
                    settled.add(entry.identity)
            except DamagedFileError as error:
                await self._files.quarantine(entry, error)
            except EmulatorError:  # the store's, not the file's
                raise
            except Exception as error:  # noqa: BLE001 - one file must not hold up all others
                await self._files.quarantine(entry, DamagedFileError("defect", repr(error)))
        self._opened = opened
        return [*opened.values()]

    async def _open(self, entry: Entry, content: bytes | OSError) -> OpenedFile:
        """The message of a file. Raises DamagedFileError if it cannot be delivered, or its name is wrong."""
        if isinstance(content, OSError):
            kind = "missing" if isinstance(content, FileNotFoundError) else "unreadable"
            raise DamagedFileError(kind, f"the file cannot be read: {content.strerror}")
        file = decode(content)
        if file.header.entry != entry:
            raise DamagedFileError("name", f"by its header, the file is {file.header.entry.name}")
        properties = check_deliverable(file)
        header = file.header
        topic = await self.context.topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        draft = draft_in(file, properties)
        message = self.kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)
        return OpenedFile(entry, message)

    def _due_now(self, opened: Sequence[OpenedFile], picked_us: int) -> Iterator[Due]:
        first = self._files.first()  # without those that were picked
        delivered: list[Entry] = []
        for each in opened:
            if first is not None and first < each.entry:
                break
            fires_us = self._fires_at(each.entry.due_us)
            yield Due(fires_us, partial(self._deliver, delivered, each, fires_us, picked_us), delivers=True)
        if first is not None:
            yield Due(self._fires_at(first.due_us), None)

    def _deliver(
        self, delivered: list[Entry], each: OpenedFile, fires_us: int, picked_us: int, batch: Batch
    ) -> None:
        self.deliver(batch, each.message, fires_us=fires_us, picked_us=picked_us)
        if not delivered:
            batch.on_commit(partial(self._delivered, delivered))
        delivered.append(each.entry)

    def _delivered(self, entries: Sequence[Entry]) -> None:
        pass_point("files.delivered")
        for entry in entries:
            del self._opened[entry]
        self._files.remove(entries)

    # By hand

    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits."""
        return parked.due_us is not None and entry_of(parked) in self._files.index

    async def find(self, unique_key: str) -> list[StoredMessage]:
        """Pending messages with this unique key."""
        found = await self._messages(self._files.index.with_key(key_hash(unique_key)))
        return [message for message in found if message.unique_key == unique_key]

    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message with this number, or None."""
        return next(iter(await self._messages(self._files.index.with_number(number))), None)

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages in order of arrival; none for any level."""
        if level is not None:
            return []
        keys = None if topic is None else {queue.key for queue in self.context.topics.get(topic).queues}
        entries = self._by_arrival(after, limit)
        found: list[StoredMessage] = []
        # Only a file knows its topic, and whether it can be read at all.
        while some := list(islice(entries, limit - len(found) if keys is None else MAX_AT_ONCE)):
            found += [m for m in await self._messages(some) if keys is None or m.real_queue_key in keys]
            if len(found) >= limit:
                break
        return found[:limit]

    def _by_arrival(self, after: int, likely: int) -> Iterator[Entry]:
        """Everything numbered above ``after``; quick when no more than ``likely`` are asked for."""
        everything = ((entry.number, entry) for entry in self._files.index if entry.number > after)
        first = heapq.nsmallest(likely, everything)
        yield from (entry for _, entry in first)
        if first and len(first) == likely:
            others = ((entry.number, entry) for entry in self._files.index)
            yield from (entry for _, entry in sorted(one for one in others if one > first[-1]))

    async def _messages(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        """The messages of those that can be read; the others are quarantined when they are due."""
        found: list[StoredMessage] = []
        left = entries
        settled = await self.settled([entry.number for entry in entries])
        while left:
            contents = await self._files.read(left)
            left = left[len(contents) :]
            for entry, content in contents:
                try:
                    each = await self._open(entry, content)
                except DamagedFileError:
                    continue
                if entry.identity not in settled:
                    found.append(each.message)
        return found

    # Done with

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Remove the files of these messages."""
        self._files.remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. What is being saved meanwhile stays."""
        entries = list(self._files.index)
        for entry in {entry.identity: entry for entry in entries}.values():
            self.settle(batch, entry.identity, entry.due_ms, "cleared")
        batch.on_commit(partial(self._files.remove, entries))
