"""The base of schemes that know each message by an entry: its due time, number and key hash.

A pending message is on disk and nowhere else: a send is answered once it is saved, and the store gets the
message when it is due. A derived scheme says what is due and keeps the contents; one content, a file or a
record, is read and judged here.
"""

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

from mocketmq.clock import LATEST_US, US_PER_MS, steady_us
from mocketmq.errors import EmulatorError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import key_hash
from mocketmq.schedule.due import Due, DueNow
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.settings import Settings
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.parked_message import check_deliverable, content_of, draft_in, entry_of
from mocketmq_compat.delay.start_deliver_time import StartDeliverTime

_SETTLED_EARLY = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)


def exact(due_us: int) -> int:
    """Act at the due time itself."""
    return due_us


class EntryScheme(TimedScheme):
    """The scheme without its storage; ``fires_at`` gives the instant of delivery for a due time."""

    piece = "file"
    """What holds one message, as errors call it."""
    saves: GroupSaves

    def __init__(
        self, context: SchemeContext, settings: Settings, fires_at: Callable[[int], int] = exact
    ) -> None:
        super().__init__(context)
        self._clock = context.store.clock
        # A contract has limits of its own, which the broker applies.
        windows_us = (
            (settings.start_deliver_window_us,) if settings.contract is None else (LATEST_US, LATEST_US)
        )
        self._due_times = StartDeliverTime(self._clock, settings.start_deliver_time, *windows_us)
        self._fires_at = fires_at
        self._opened: dict[Entry, StoredMessage] = {}  # read, and due, but not delivered yet

    # To be written for each scheme

    @abstractmethod
    async def _save(self, entry: Entry, content: bytes) -> None:
        """Keep a new message. Raises a StoreError."""

    @abstractmethod
    async def _contents(self, entries: Sequence[Entry]) -> Mapping[Entry, bytes | DamagedFileError]:
        """Contents in this order, as many as fit a batch, at least one; or why one cannot be read."""

    @abstractmethod
    def _first(self) -> Entry | None:
        """The first saved entry in order of delivery."""

    @abstractmethod
    def _next(self, others: Container[Entry] | None = None) -> Entry | None:
        """Next entry due, skipping ``others``, which are being delivered; saved or still being written."""

    @abstractmethod
    def _waits(self, entry: Entry) -> bool:
        """Whether this message is saved, and not done with."""

    @abstractmethod
    def _all(self) -> list[Entry]:
        """All that waits and is saved, in any order."""

    @abstractmethod
    async def _with_number(self, number: int) -> list[Entry]:
        """The entries with this number."""

    @abstractmethod
    async def _with_key(self, key_hash: int) -> list[Entry]:
        """The entries of messages whose key has this hash."""

    @abstractmethod
    def _remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages, which are done with; also those in ``_opened``."""

    @abstractmethod
    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Forget messages that were done with before, left by a kill or copied back."""

    @abstractmethod
    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        """Put what there is of the message into the quarantine, with the reason."""

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

    async def _refuse_settled_early(self) -> None:
        """Refuse cancelled or forced messages copied back; they would be listed until they are due."""
        early = await self.context.store.database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        self._refuse_repeats([entry for entry in map(Entry._make, early) if self._waits(entry)])

    # What is due

    def first_due_us(self) -> int | None:
        """The due time of the first saved message."""
        first = self._first()
        return None if first is None else first.due_us

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible, be it saved or on its way to the disk."""
        first = self._next()
        return None if first is None else self._fires_at(first.due_us)

    async def _saved_until(self, until_us: int) -> None:
        """Wait for what fires by then and is on its way to the disk."""
        if any(self._fires_at(entry.due_us) <= until_us for entry in self.saves.in_flight):
            await self.saves.idle()

    async def _prepare(self, entries: Sequence[Entry]) -> DueNow:
        """Prepare these entries, which are due, in their order; as many as fit a batch are then opened."""
        picked_us = self._clock.now_us()
        await self._read(entries)
        pass_point("files.picked")
        return partial(self._due_now, [*self._opened.items()], picked_us)

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

    async def _open(self, entry: Entry, content: bytes | DamagedFileError) -> StoredMessage:
        """The message in a content. Raises DamagedFileError if it cannot be delivered, or is another's."""
        if isinstance(content, DamagedFileError):
            raise content
        file = decode(content)
        header = file.header
        if header.entry != entry:
            raise DamagedFileError("name", f"by its header, the {self.piece} is {header.entry.name}")
        properties = check_deliverable(file)
        topic = await self.context.topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        draft = draft_in(file, properties)
        return self.kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)

    def _due_now(self, opened: Sequence[tuple[Entry, StoredMessage]], picked_us: int) -> Iterator[Due]:
        following = self._next({entry for entry, _ in opened})
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

    async def find(self, unique_key: str) -> list[StoredMessage]:
        """Pending messages with this unique key."""
        found = await self._messages(await self._with_key(key_hash(unique_key)))
        return [message for message in found if message.unique_key == unique_key]

    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message with this number, or None."""
        return next(iter(await self._messages(await self._with_number(number))), None)

    async def _messages(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        """The messages of those that can be read; the others are put aside when they are due."""
        found: list[StoredMessage] = []
        left = entries
        settled = await self.settled([entry.number for entry in entries])
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
        entries = self._all()
        for entry in {entry.identity: entry for entry in entries}.values():
            self.settle(batch, entry.identity, entry.due_ms, "cleared")
        batch.on_commit(partial(self._cleared, entries))

    def _cleared(self, entries: Sequence[Entry]) -> None:
        self._remove(entries)
