"""Reads records of a store as messages: pending messages by key, number and arrival, and due messages."""

import heapq
import logging
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from mocketmq.errors import EmulatorError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.message.message_id import Identity, key_hash
from mocketmq.schedule.scheme import TopicLookup
from mocketmq.schedule.timed_scheme import NewestPage
from mocketmq.store.messages import MAX_AT_ONCE, NO_LIMIT
from mocketmq.store.queue import Queue
from mocketmq.store.writer import MAX_BATCH_BYTES
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, FileHeader, decode
from mocketmq_compat.delay.parked_message import check_deliverable, draft_in
from mocketmq_compat.delay.pending_entries import PendingEntries
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)

MISSING: Final = "missing"


class Record(NamedTuple):
    """A decoded record, and the message to store from it."""

    header: FileHeader
    draft: Draft


Records = Mapping[Entry, Record | DamagedFileError]
"""Decoded records; for a record that cannot be delivered, the error."""
_READ_TOGETHER: Final = 10
"""Number of messages that a page of the newest messages reads between two checks of its size."""


@dataclass(eq=False, repr=False)
class PendingReader:
    """Reads records, and pending messages from them.

    ``kept`` is :meth:`TimedScheme.kept`, and ``settled`` :meth:`TimedScheme.settled`. ``pending`` has the
    entries of pending messages. ``run`` runs a function in a thread, and turns its OSError into a StoreError.
    """

    store: DelayStore
    _topics: TopicLookup
    _pending: Container[Entry]
    _kept: Callable[[Draft, Queue, int, int, int, str], StoredMessage]
    settled: Callable[[Sequence[int]], Awaitable[set[Identity]]]
    run: Callable[[Callable[[], Any]], Awaitable[Any]]

    async def with_key(self, unique_key: str, max_bytes: int) -> list[StoredMessage]:
        """Return the newest messages with this unique key, in order of arrival.

        The bodies have up to ``max_bytes`` in total, unless the newest body alone is larger.
        """
        entries = await self.run(partial(self.store.with_key, key_hash(unique_key)))
        newest_first = sorted(entries, key=lambda entry: entry.number, reverse=True)
        found: list[StoredMessage] = []
        size = 0
        for entry in newest_first:
            for message in await self._messages([entry]):
                size += len(message.body)
                if found and size > max_bytes:
                    return found[::-1]
                if message.unique_key == unique_key:
                    found.append(message)
        return found[::-1]

    async def with_number(self, number: int) -> list[StoredMessage]:
        """Return the messages with this number: one, or several after two stores were merged."""
        return await self._messages(await self.run(partial(self.store.with_number, number)))

    async def by_arrival(
        self, after: int, limit: int, topic: str | None, max_bytes: int
    ) -> list[StoredMessage]:
        """Return up to ``limit`` messages, of the topic if given, numbered above ``after``, in order.

        The list ends with the message that brings the bodies to ``max_bytes``.
        """
        keys = None if topic is None else {queue.key for queue in self._topics.get(topic).queues}
        found: list[StoredMessage] = []
        left = max_bytes
        # Only the record has the topic, so a filter by topic reads more records than the page needs.
        some = max(limit, MAX_AT_ONCE if keys else 0)
        while len(found) < limit:
            entries = await self.run(partial(self.store.by_arrival, after, some))
            for begin in range(0, len(entries), MAX_AT_ONCE):
                messages = await self._messages(entries[begin : begin + MAX_AT_ONCE], keys, left)
                left -= sum(len(message.body) for message in messages)
                found += messages
                if len(found) >= limit or left <= 0:
                    break
            if len(entries) < some or left <= 0:
                break
            after = entries[-1].number
            some *= 2  # some stores scan all entries at each call
        return found[:limit]

    async def newest(self, before: int, limit: int) -> NewestPage:
        """Return up to ``limit`` of the newest messages numbered below ``before``, and where to continue."""

        def find() -> list[Entry]:
            earlier = (entry for entry in self.store.all() if entry.number < before)
            return heapq.nlargest(limit, earlier, key=lambda entry: entry.number)

        entries = await self.run(find)
        found, done = await self._batch(entries)
        if len(entries) < limit and done == len(entries):
            return NewestPage(found, None)
        return NewestPage(found, entries[done - 1].number)

    async def first_due(self, limit: int) -> list[StoredMessage]:
        """Return the first ``limit`` messages by due time. Large bodies end the list early, as in a page."""
        # Read all entries, because the store's own list of its first records may end with a mere bound.
        entries = await self.run(lambda: heapq.nsmallest(limit, self.store.all()))
        found, _ = await self._batch(entries)
        return found

    async def _batch(self, entries: Sequence[Entry]) -> tuple[list[StoredMessage], int]:
        """Read as many of the first entries as fit into a batch, and return the messages and their number."""
        found: list[StoredMessage] = []
        size = done = 0
        while done < len(entries) and size < MAX_BATCH_BYTES:
            some = await self._messages(entries[done : done + _READ_TOGETHER])
            done = min(done + _READ_TOGETHER, len(entries))
            size += sum(len(message.body) for message in some)
            found += some
        return found, done

    async def read(self, entries: Sequence[Entry]) -> Records:
        """Read and decode as many records as fit into a batch, at least one."""

        def read() -> Records:
            found: dict[Entry, Record | DamagedFileError] = {}
            size = 0
            for entry in entries:
                try:
                    content = self.store.read(entry)
                    size += len(content)
                    found[entry] = _record_in(entry, content)
                except FileNotFoundError:
                    found[entry] = DamagedFileError(MISSING, "there is no such record")
                except DamagedFileError as error:
                    found[entry] = error
                if size > MAX_BATCH_BYTES:
                    break
            return found

        records: Records = await self.run(read)
        return records

    async def message(self, entry: Entry, record: Record | DamagedFileError) -> StoredMessage:
        """Make the pending message of a record, and its topic. Raises DamagedFileError, or a StoreError."""
        if isinstance(record, DamagedFileError):
            raise record
        header, draft = record
        topic = await self._topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        return self._kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)

    async def _messages(
        self, entries: Sequence[Entry], keys: Collection[int] | None = None, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Read the entries that are pending, of the queues with these keys.

        Ends with the message that brings the bodies to ``max_bytes``. Skips damaged records, which are
        quarantined when due.
        """
        found: list[StoredMessage] = []
        size = 0
        # In a thread, because the wheel may read a whole file to find out.
        left = await self.run(lambda: [entry for entry in entries if entry in self._pending])
        settled = await self.settled([entry.number for entry in left])
        while left:
            records = await self.read(left)
            left = left[len(records) :]
            for entry, record in records.items():
                try:
                    message = await self.message(entry, record)
                except DamagedFileError:
                    continue
                if entry.identity not in settled and (keys is None or message.real_queue_key in keys):
                    found.append(message)
                    size += len(message.body)
                    if size >= max_bytes:
                        return found
        return found


class DueMessages:
    """Due messages that were read, but are not delivered yet.

    The read takes place before the transaction that delivers the messages. A record that cannot be delivered
    is quarantined, so that it does not block other records. A record whose message was settled before is a
    repeat, left by a kill or restored from a backup, and is refused.

    ``refuse`` forgets the records of settled messages.
    """

    def __init__(
        self, records: PendingReader, pending: PendingEntries, refuse: Callable[[Sequence[Entry]], None]
    ) -> None:
        self._records = records
        self._pending = pending
        self._refuse = refuse
        self._messages: dict[Entry, StoredMessage] = {}

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, StoredMessage]]:
        """Read as many of these entries as fit into a batch. Removes repeated and damaged entries."""
        settled = await self._records.settled([entry.number for entry in entries])
        self._refuse([entry for entry in entries if entry.identity in settled])
        waiting = [entry for entry in entries if entry.identity not in settled]
        unread = [entry for entry in waiting if entry not in self._messages]
        records = await self._records.read(unread) if unread else {}
        found: dict[Entry, StoredMessage] = {}
        for entry in waiting:
            message = self._messages.get(entry)
            if message is None and entry not in records:
                break
            try:
                message = message or await self._records.message(entry, records[entry])
                if entry.identity in settled:  # the same message with two due times
                    self._refuse([entry])
                else:
                    found[entry] = message
                    settled.add(entry.identity)
            except DamagedFileError as error:
                await self._put_aside(entry, error)
            except EmulatorError:  # the database failed; the message itself is intact
                raise
            except Exception as error:  # noqa: BLE001 - one message must not hold up all others
                await self._put_aside(entry, DamagedFileError("defect", repr(error)))
        self._messages = found
        return [*found.items()]

    def forget(self, entries: Iterable[Entry]) -> None:
        """Drop messages that were settled."""
        for entry in entries:
            self._messages.pop(entry, None)

    def forget_all(self) -> None:
        """Drop all messages, because a restore may have replaced them."""
        self._messages.clear()

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        """Quarantine the rest of the message, with the reason."""
        was_first = self._pending.remove_unreadable(entry)
        if not was_first and error.kind == MISSING:
            return  # the store has already removed it
        log.warning("quarantining the delayed message %s: %s", entry.name, error)
        try:
            await self._records.run(partial(self._records.store.put_aside, entry, error.kind, str(error)))
        except EmulatorError:
            self._pending.count += was_first  # the store still has it, and the next refill finds it again
            raise


def _record_in(entry: Entry, content: bytes) -> Record:
    """Decode a record. Raises DamagedFileError if it cannot be delivered, or belongs to another entry."""
    try:
        file = decode(content)
        if file.header.entry != entry:
            raise DamagedFileError("name", f"its header belongs to record {file.header.entry.name}")
        return Record(file.header, draft_in(file, check_deliverable(file)))
    except DamagedFileError:
        raise
    except Exception as error:
        raise DamagedFileError("defect", repr(error)) from error
