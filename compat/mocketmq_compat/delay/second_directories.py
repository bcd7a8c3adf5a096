"""Second directories: a delay scheme for any due time, one file per message in a directory per second.

The layout is that of the broker patch (docs/protocol/aliyun.md §3.3, D-10), without its weaknesses (§3.5).
A pending message is on disk and nowhere else: a send is answered once its file is saved, and the store gets
the message when it is due.

Delivery is exactly once. The transaction that makes a message visible also records its identity in the
table ``timed_messages``; the file is removed afterwards. A file that is still there after a kill, or was
copied back from a backup, is known by that identity, and removed instead of delivered.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError, NotPendingError
from mocketmq.failpoint import pass_point
from mocketmq.message.message import COMMITTED_FLAG, Draft, StoredMessage, draft_of
from mocketmq.message.message_id import commit_offset_of, offset_message_id
from mocketmq.schedule.ledger import Ledger
from mocketmq.schedule.scheme import Reply, TimedState
from mocketmq.schedule.timer import Fired
from mocketmq.store.ground import Ground
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Batch

from mocketmq_compat.delay.delay_directory import SCHEME, DelayDirectory
from mocketmq_compat.delay.delay_files import DelayFiles
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, Identity, decode, key_hash
from mocketmq_compat.delay.file_saves import Sync
from mocketmq_compat.delay.memory_directory import MemoryDirectory
from mocketmq_compat.delay.parked_message import (
    check_deliverable,
    content_of,
    entry_of,
    message_in,
    parked_message,
)

BATCH = 256
"""Messages per delivering transaction, as of the level queues."""

_SETTLE = "INSERT INTO timed_messages VALUES (?, ?, ?, ?, ?)"
_INTERVENE = "INSERT INTO interventions VALUES (?, 'cancelled', ?)"
_SETTLED = "SELECT number, key_hash FROM timed_messages WHERE number IN ({})"
_SETTLED_EARLY = (
    "SELECT due_ms, number, key_hash FROM timed_messages WHERE outcome <> 'delivered' AND due_ms > ?"
)


def exact(due_us: int) -> int:
    """A due time is acted upon at itself."""
    return due_us


class Waiting(NamedTuple):
    """A file that was read: its entry, its message, and the queue that the message goes to."""

    entry: Entry
    message: StoredMessage
    queue: Queue


class SecondDirectories:
    """The scheme. Fired by the timer, under whose lock messages leave.

    ``fires_at`` says when a due time is acted upon; ``parked_queue`` is where those who look see what waits.
    """

    name = SCHEME

    def __init__(
        self,
        directory: DelayDirectory | MemoryDirectory,
        ground: Ground,
        ledger: Ledger,
        topics: Topics,
        parked_queue: Queue,
        *,
        changed: Callable[[], None],
        on_delivered: Callable[[int], None],
        others_due_us: Callable[[], int | None],
        sync: Sync,
        quota_bytes: int,
        fires_at: Callable[[int], int],
    ) -> None:
        clock = ground.clock
        self.delivered = 0  # since the start
        self.early = 0  # of these, those before their due time: a defect
        self._others_due_us = others_due_us
        self.files = DelayFiles(
            directory, sync, quota_bytes, self._settled, changed, lambda: clock.now_us() // US_PER_S
        )
        self._clock = clock
        self._database = ground.database
        self._writer = ground.writer
        self._ledger = ledger
        self._topics = topics
        self._parked_queue = parked_queue
        self._fires_at = fires_at
        self._on_delivered = on_delivered

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""
        await self.files.load()
        # What was cancelled or forced, and copied back, would otherwise be shown until it is due.
        early = await self._database.rows(_SETTLED_EARLY, (self._clock.now_us() // US_PER_MS,))
        entries = map(Entry._make, early)
        self.files.refuse_repeats([entry for entry in entries if entry in self.files.index])

    def start(self) -> asyncio.Task[None]:
        """Begin what is done in the background."""
        return self.files.start()

    async def close(self) -> None:
        """Let go of the directory. May be called twice."""
        await self.files.close()

    # Keep

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Save the message's file, due at ``due_us`` rounded up to whole milliseconds.

        As :meth:`TimedScheme.keep`; StoreFullError when the quota is used up.
        """
        now_us = self._clock.now_us()
        due_ms = -(-due_us // US_PER_MS)
        digest = key_hash(draft.unique_key)
        is_new = number is None
        if number is None:
            # Above any commit offset, and another on any other broker.
            number = self.files.last_number = max(self.files.last_number + 1, wall_us())
        parked = parked_message(
            draft, number, now_us, self._writer.store_host, due_ms * US_PER_MS, self._parked_queue, queue
        )
        if is_new or not await self.has_kept(number, draft.unique_key):
            began_us = steady_us()
            await self.files.save(Entry(due_ms, number, digest), content_of(parked, queue))
            self._writer.tell_stored([(self._parked_queue, 1, len(draft.body))], steady_us() - began_us)
        return parked

    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""
        digest = key_hash(unique_key)
        if any(entry.key_hash == digest for entry in self.files.index.with_number(number)):
            return True
        return (number, digest) in await self._settled([number])

    def reply(self, stored: StoredMessage, queue: Queue) -> Reply:
        """Its number stands in the place of the commit offset."""
        return Reply(_offset_id(stored), queue.queue_id, 0)

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return len(self.files.index)

    def state(self) -> TimedState:
        """What waits, and what befell files."""
        files = self.files
        first = files.index.first()
        due_us = None if first is None else first.due_us
        return TimedState(
            self.pending,
            files.index.directories,
            files.disk_bytes,
            due_us,
            due_us if due_us is not None and due_us < self._clock.now_us() else None,
            files.quarantined,
            files.unremoved,
            files.repeats,
            files.put_aside,
        )

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible."""
        first = self.files.first()
        return None if first is None else self._fires_at(first.due_us)

    next_due_us = next_delivery_us

    async def fire(self, until_us: int) -> Fired:
        """Deliver one batch of what fires by ``until_us``, in order of due millisecond and arrival."""
        if any(self._fires_at(entry.due_us) <= until_us for entry in self.files.saves.in_flight):
            await self.files.saves.idle()
        index = self.files.index
        picked_us = self._clock.now_us()
        picked: list[Entry] = []
        while len(picked) < BATCH and (first := index.first()) and self._fires_at(first.due_us) <= until_us:
            picked.append(index.pick())
        try:
            waiting = await self._read(picked)
            pass_point("files.picked")
            delivered: list[Waiting] = []
            if waiting:
                work = partial(self._deliver, waiting, picked_us)
                delivered = await self._writer.commit(work, alone=until_us > picked_us)
                pass_point("files.delivered")
                self.files.remove(each.entry for each in delivered)
        finally:
            index.put_back(picked)  # those that are gone do not come back
        last_us = self._fires_at(delivered[-1].entry.due_us) if delivered else picked_us
        return Fired(len(delivered), min(max(last_us, picked_us), until_us))

    async def _read(self, picked: Sequence[Entry]) -> list[Waiting]:
        """The messages of these entries, as many as fit a batch; what is none any more is removed."""
        settled = await self._settled([entry.number for entry in picked])
        repeats = [entry for entry in picked if (entry.number, entry.key_hash) in settled]
        self.files.refuse_repeats(repeats)
        waiting: list[Waiting] = []
        for entry, content in await self.files.read([entry for entry in picked if entry not in repeats]):
            try:
                one = await self._open(entry, content)
                identity = (entry.number, entry.key_hash)
                if identity in settled:  # it is there under two due times, in names and headers
                    self.files.refuse_repeats([entry])
                else:
                    waiting.append(one)
                    settled.add(identity)
            except DamagedFileError as error:
                await self.files.quarantine(entry, error)
            except EmulatorError:  # the store's, not the file's
                raise
            except Exception as error:  # noqa: BLE001 - one file must not hold up all others (W20)
                await self.files.quarantine(entry, DamagedFileError("defect", repr(error)))
        return waiting

    async def _open(self, entry: Entry, content: bytes | OSError) -> Waiting:
        """Raises DamagedFileError for a file that cannot be delivered as what its name says."""
        if isinstance(content, OSError):
            kind = "missing" if isinstance(content, FileNotFoundError) else "unreadable"
            raise DamagedFileError(kind, f"the file cannot be read: {content.strerror}")
        file = decode(content)
        if file.header.entry != entry:
            raise DamagedFileError("name", f"by its header, the file is {file.header.entry.name}")
        properties = check_deliverable(file)
        topic = await self._topics.ensure(file.header.topic, file.header.queue_id + 1)
        queue = topic.queues[file.header.queue_id % len(topic.queues)]
        return Waiting(entry, message_in(file, properties, self._parked_queue, queue), queue)

    async def _settled(self, numbers: Sequence[int]) -> set[Identity]:
        found: set[Identity] = set()
        for start in range(0, len(numbers), MAX_AT_ONCE):
            some = numbers[start : start + MAX_AT_ONCE]
            rows = await self._database.rows(_SETTLED.format(",".join("?" * len(some))), some)
            found.update((number, digest) for number, digest in rows)
        return found

    def _deliver(self, waiting: Sequence[Waiting], picked_us: int, batch: Batch) -> list[Waiting]:
        # While the clock is moved, a delivery jumps to its instant, but not over what was sent meanwhile.
        first, others_us = self.files.first(), self._others_due_us()
        delivered: list[Waiting] = []
        early = 0
        for each in waiting:
            fires_us = self._fires_at(each.entry.due_us)
            is_overtaken = first is not None and first < each.entry
            if is_overtaken or (others_us is not None and others_us < fires_us):
                break
            delivered.append(each)
            batch.reach(fires_us)
            early += batch.now_us < each.entry.due_us
            self._append(batch, each, max(picked_us, fires_us), "delivered")
        batch.on_commit(partial(self._delivered, len(delivered), early))
        return delivered

    def _append(self, batch: Batch, each: Waiting, picked_us: int, outcome: str) -> None:
        entry, parked, queue = each
        draft = draft_of(parked)
        if draft.sys_flag & COMMITTED_FLAG and entry.number < batch.next_commit_offset:
            draft = draft._replace(prepared_offset=entry.number)
        stored = batch.append(queue, draft, parked_offset=entry.number)
        self._ledger.record(
            batch,
            stored.commit_offset,
            queue,
            parked_offset=entry.number,
            scheme=self.name,
            level=None,
            stored_us=parked.store_us,
            due_us=entry.due_us,
            picked_us=picked_us,
            forced=outcome == "forced",
        )
        batch.execute(_SETTLE, (entry.number, entry.key_hash, entry.due_ms, outcome, stored.commit_offset))

    def _delivered(self, count: int, early: int) -> None:
        self.delivered += count
        self._on_delivered(count)
        self.early += early

    # By hand

    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits."""
        return parked.due_us is not None and entry_of(parked) in self.files.index

    async def find(self, message_id: str) -> list[StoredMessage]:
        """Pending messages with this unique key or offset message id."""
        number = commit_offset_of(message_id)
        entries = [] if number is None else self.files.index.with_number(number)
        found = await self._messages(entries or self.files.index.with_key(key_hash(message_id)))
        return [m for m in found if message_id == m.unique_key or message_id.upper() == _offset_id(m)]

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages in order of arrival; none for any level."""
        if level is not None:
            return []
        keys = None if topic is None else {queue.key for queue in self._topics.get(topic).queues}
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
        everything = ((entry.number, entry) for entry in self.files.index if entry.number > after)
        first = heapq.nsmallest(likely, everything)
        yield from (entry for _, entry in first)
        if first and len(first) == likely:
            others = ((entry.number, entry) for entry in self.files.index)
            yield from (entry for _, entry in sorted(one for one in others if one > first[-1]))

    async def _messages(self, entries: Sequence[Entry]) -> list[StoredMessage]:
        """As many of them as can be read; the others are dealt with when they are due."""
        found: list[StoredMessage] = []
        left = entries
        settled = await self._settled([entry.number for entry in entries])
        while left:
            contents = await self.files.read(left)
            left = left[len(contents) :]
            for entry, content in contents:
                try:
                    each = await self._open(entry, content)
                except DamagedFileError:
                    continue
                if (entry.number, entry.key_hash) not in settled:
                    found.append(each.message)
        return found

    async def cancel(self, parked: StoredMessage) -> None:
        """Never deliver the message; a record of it stays in the store. Raises NotPendingError."""
        if not self.holds(parked):
            raise _not_pending(parked)
        await self.cancel_all([parked])

    async def cancel_all(self, messages: Sequence[StoredMessage]) -> None:
        """As ``cancel``, for many; those that do not wait any more are passed over."""
        waiting = [message for message in messages if self.holds(message)]
        each_once = {(m.commit_offset, m.unique_key): m for m in waiting}.values()

        def work(batch: Batch) -> None:
            for message in each_once:
                record = batch.append(
                    self._parked_queue,
                    draft_of(message),
                    due_us=message.due_us,
                    real_queue_key=message.real_queue_key,
                )
                entry = entry_of(message)
                batch.execute(_INTERVENE, (record.commit_offset, batch.now_us))
                batch.execute(
                    _SETTLE,
                    (entry.number, entry.key_hash, entry.due_ms, "cancelled", record.commit_offset),
                )
            batch.on_commit(partial(self.files.remove, [entry_of(message) for message in waiting]))

        if waiting:
            await self._writer.commit(work)

    async def force(self, parked: StoredMessage) -> None:
        """Deliver the message now. Raises NotPendingError."""
        entry = entry_of(parked)
        waiting = await self._read([entry]) if entry in self.files.index else []
        if not waiting:
            raise _not_pending(parked)

        def work(batch: Batch) -> None:
            self._append(batch, waiting[0], batch.now_us, "forced")
            batch.on_commit(partial(self.files.remove, [entry]))

        await self._writer.commit(work)

    async def discard(self, messages: Sequence[StoredMessage]) -> None:
        """Forget messages of which nobody was told, as if they had never been kept."""
        self.files.remove(map(entry_of, messages))

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. What is being saved meanwhile stays."""
        entries = list(self.files.index)
        for entry in {(entry.number, entry.key_hash): entry for entry in entries}.values():
            batch.execute(_SETTLE, (entry.number, entry.key_hash, entry.due_ms, "cleared", -1))
        batch.on_commit(partial(self.files.remove, entries))


def _not_pending(parked: StoredMessage) -> NotPendingError:
    return NotPendingError(
        f"message {parked.unique_key} is not waiting for its due time: it was delivered or cancelled"
    )


def _offset_id(parked: StoredMessage) -> str:
    return offset_message_id(parked.store_host, parked.commit_offset)
