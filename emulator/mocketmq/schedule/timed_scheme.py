"""The base of delay schemes for absolute due times, which keep messages outside of the store.

To add a scheme, write a store for the engine of ``mocketmq_compat/delay/stored_scheme.py``, or derive from
:class:`TimedScheme`. CONTRIBUTING.md describes where to register the scheme's name.

Delivery is exactly once. The transaction that makes a message visible also records its identity (its number
and the hash of its unique key) in the table ``timed_messages``. The scheme forgets the message afterwards. A
message still in the scheme after a kill, or restored from a backup, is recognized by its identity.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import NamedTuple

from mocketmq.clock import US_PER_MS
from mocketmq.errors import RefusedError
from mocketmq.message.message import COMMITTED_FLAG, Draft, StoredMessage, draft_of
from mocketmq.message.message_id import Identity, key_hash, offset_message_id
from mocketmq.schedule.delivery import Delivery
from mocketmq.schedule.ledger import DueMessage
from mocketmq.schedule.scheme import (
    DelayScheme,
    EndOfWait,
    FileFigures,
    PendingFigures,
    PendingFilter,
    SchemeContext,
    pending_in,
)
from mocketmq.schedule.send_receipt import SendReceipt
from mocketmq.settings import Settings
from mocketmq.store.batch import Batch
from mocketmq.store.messages import MAX_AT_ONCE, NO_LIMIT
from mocketmq.store.queue import Queue

_SETTLE = "INSERT INTO timed_messages VALUES (?, ?, ?, ?, ?)"
_CANCELLED = "INSERT INTO interventions VALUES (?, ?, ?)"
_SETTLED = "SELECT number, key_hash FROM timed_messages WHERE number IN ({})"
_CLEARED = "SELECT 1 FROM timed_messages WHERE number = ? AND key_hash = ? AND outcome = 'cleared'"


class NewestPage(NamedTuple):
    """Pending messages, newest first. The next page begins below ``next_before``; None at the end.

    A page with large bodies ends early.
    """

    messages: list[StoredMessage]
    next_before: int | None


class KeptRecord(NamedTuple):
    """A pending message as stored in a snapshot. ``content`` has the format of a delayed message's file."""

    due_ms: int
    number: int
    key_hash: int
    content: bytes


class TimedScheme(DelayScheme):
    """Keeps messages with an absolute due time. The timer fires them and removes them under its lock.

    A scheme also implements the abstract methods of :class:`~mocketmq.schedule.scheme.DelayScheme`. A timed
    scheme has no levels, so its page of a level is empty.
    """

    due_properties: frozenset[str]
    """The properties that ``due_us`` reads. It is not called for messages without any of them."""

    def __init__(self, context: SchemeContext) -> None:
        self.context = context
        self.delivery = Delivery(self.name, context.ledger, context.on_delivered, context.catch)

    # Implemented by each scheme

    @abstractmethod
    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """Read the emulated due time of a message from its properties.

        Return None if the message is not for this scheme, or if a delay ``level`` above 0 takes precedence.
        The first scheme that returns an instant gets the message. May change the properties. Raises
        IllegalMessageError or InvalidArgumentError.
        """

    @abstractmethod
    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Keep the message durably until it becomes visible in ``queue`` at ``due_us``.

        A ``number`` from the caller makes the call idempotent: a message is kept and delivered only once
        under the same number. Raises a StoreError if nothing was kept.
        """

    @abstractmethod
    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether a message was kept under this number, pending or settled.

        A message that a reset or a restore has removed counts as never kept.
        """

    @abstractmethod
    def remove_settled(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these settled messages."""

    @abstractmethod
    def first_due_us(self) -> int | None:
        """The earliest due time; None without pending messages."""

    @abstractmethod
    async def find_by_key(self, unique_key: str, max_bytes: int = NO_LIMIT) -> list[StoredMessage]:
        """The newest pending messages with this unique key, in order of arrival.

        The bodies have up to ``max_bytes`` in total, unless the newest alone is larger.
        """

    @abstractmethod
    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message with this number, or None."""

    @abstractmethod
    async def newest(self, before: int, limit: int) -> NewestPage:
        """Up to ``limit`` of the newest pending messages numbered below ``before``."""

    @abstractmethod
    async def first_due(self, limit: int) -> list[StoredMessage]:
        """The first ``limit`` pending messages, by due time."""

    # Overridden by some schemes

    def receipt(self, stored: StoredMessage, queue: Queue) -> SendReceipt:
        """The position reported to the sender. The message's number replaces the log offset."""
        return SendReceipt(offset_message_id(stored.store_host, stored.log_offset), queue.queue_id, 0)

    def next_delivery_us(self) -> int | None:
        return self.first_due_us()

    def file_figures(self) -> FileFigures | None:
        """The files on disk; None for a scheme without files."""
        return None

    def due_seconds(self) -> Mapping[int, int]:
        """Count the messages by the second of the epoch in which they are due.

        May omit the latest due times, and count those of neighbouring seconds together if they are many.
        """
        return {}

    def listing(self) -> AbstractAsyncContextManager[object]:
        """List all pending messages, off the event loop, for the methods that are called inside the block.

        These are ``clear``, :meth:`choose_records`, and :meth:`stage` with :meth:`restore`. The caller holds
        the timer's lock. Raises a StoreError.
        """
        return nullcontext()

    async def look_ahead(self, count: int) -> None:
        """Read which messages are due first, off the event loop, even after ``count`` of them are removed.

        Raises a StoreError.
        """

    def choose_records(self) -> Callable[[], Iterable[KeptRecord]]:
        """Choose the messages that are pending now, for a snapshot. The returned function reads them.

        The function may run in a thread. The caller holds the timer's lock until the messages are read.
        """
        self._check_is_restorable(self.pending)
        return tuple

    async def stage(self, records: Sequence[KeptRecord]) -> None:
        """Write the messages of a snapshot that are not pending, but keep them hidden.

        If a kill prevents the restore, the next start removes them. Raises a StoreError, and then leaves
        nothing behind. Runs under the timer's lock, which is held until :meth:`restore` is committed.
        """
        self._check_is_restorable(len(records))

    async def unstage(self) -> None:
        """Remove what :meth:`stage` has written, because the restore failed."""

    def restore(self, batch: Batch, records: Sequence[KeptRecord]) -> None:
        """Make exactly these messages pending: the staged ones, and those that were already pending."""
        self._check_is_restorable(len(records))
        self.clear(batch)

    def _check_is_restorable(self, messages: int) -> None:
        if messages:
            raise RefusedError(
                f"the delay scheme {self.name} cannot save or restore snapshots of its messages"
            )

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Start background tasks; a task that ends before ``close`` has failed."""
        return ()

    async def close(self) -> None:
        """Save all unsaved state, and release files and tasks. May be called twice."""

    # Shared by all schemes

    @property
    def delivered(self) -> int:
        return self.delivery.delivered

    @property
    def early(self) -> int:
        return self.delivery.early

    def next_due_us(self) -> int | None:
        return self.next_delivery_us()

    def figures(self) -> Sequence[PendingFigures]:
        due_us = self.first_due_us()
        is_overdue = due_us is not None and due_us < self.context.store.clock.now_us()
        return [PendingFigures(self.name, None, self.pending, due_us, due_us if is_overdue else None)]

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """Nothing, because pending messages are not in the store."""
        return ()

    def kept(
        self, draft: Draft, queue: Queue, due_us: int, number: int, stored_us: int, store_host: str
    ) -> StoredMessage:
        """Make the stored form of a pending message, with ``number`` in place of the log offset."""
        stored_us = stored_us if draft.stored_us is None else draft.stored_us
        return StoredMessage(
            number,
            self.context.parked_queue.key,
            0,
            stored_us,
            stored_us if draft.born_us is None else draft.born_us,
            draft.born_host,
            store_host,
            draft.flag,
            draft.sys_flag,
            draft.body,
            draft.properties,
            draft.tag_hash,
            draft.reconsume_times,
            draft.unique_key,
            due_us,
            queue.key,
            None,
            door=draft.door,
            kind="parked",
        )

    def deliver(self, batch: Batch, message: StoredMessage, *, fires_us: int, picked_us: int) -> None:
        """Deliver the message at ``fires_us`` or later, and forget it on the commit."""
        due, draft = self._due(batch, message)
        offset = self.delivery.deliver(batch, due, draft, fires_us=fires_us, picked_us=picked_us)
        self.settle(batch, _identity(message), due.due_us // US_PER_MS, "delivered", offset)

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        due, draft = self._due(batch, parked)
        offset = self.delivery.force(batch, due, draft)
        self.settle(batch, _identity(parked), due.due_us // US_PER_MS, "forced", offset)
        batch.on_commit(partial(self.remove_settled, [parked]))

    def _due(self, batch: Batch, message: StoredMessage) -> tuple[DueMessage, Draft]:
        number, draft = message.log_offset, draft_of(message)
        if draft.sys_flag & COMMITTED_FLAG and number < batch.next_log_offset:
            draft.prepared_offset = number
        queue = self.context.topics.queue(message.real_queue_key or 0)
        return DueMessage(queue, number, None, message.store_us, message.due_us or 0), draft

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage], why: EndOfWait = "cancelled") -> int:
        """Cancel these messages. The store keeps a record of each."""
        waiting = [message for message in messages if self.holds(message)]
        each_once = {(m.log_offset, m.unique_key): m for m in waiting}
        for message in each_once.values():
            record = batch.append(
                self.context.parked_queue,
                draft_of(message),
                "cancelled",
                due_us=message.due_us,
                real_queue_key=message.real_queue_key,
            )
            batch.execute(_CANCELLED, (record.log_offset, why, batch.now_us))
            due_ms = (message.due_us or 0) // US_PER_MS
            self.settle(batch, _identity(message), due_ms, "cancelled", record.log_offset)
        batch.on_commit(partial(self.remove_settled, waiting))
        return len(each_once)

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Cancel the topic's messages in transactions of bounded size, and return the last one's work."""
        cancelled = 0
        messages: list[StoredMessage] = []
        async for message in pending_in(self, PendingFilter(topic)):
            if len(messages) == MAX_AT_ONCE:
                await self.look_ahead(len(messages))
                work = partial(self.cancel, messages=messages)
                cancelled += await self.context.store.writer.commit(work, until="visible")
                messages = []
            messages.append(message)
        await self.look_ahead(len(messages))
        return lambda batch: cancelled + self.cancel(batch, messages)

    def settle(
        self, batch: Batch, identity: Identity, due_ms: int, outcome: str, log_offset: int = -1
    ) -> None:
        """Record permanently that the message is settled, with the offset of its record, if any."""
        batch.execute(_SETTLE, (*identity, due_ms, outcome, log_offset))

    async def is_settled(self, message: StoredMessage) -> bool:
        """Whether the message is settled although a copy of it is still pending."""
        return _identity(message) in await self.settled([message.log_offset])

    async def was_cleared(self, identity: Identity) -> bool:
        """Whether a reset or a restore has removed the message."""
        return bool(await self.context.store.database.rows(_CLEARED, identity))

    async def settled(self, numbers: Sequence[int]) -> set[Identity]:
        """The identities of settled messages with these numbers."""
        found: set[Identity] = set()
        for start in range(0, len(numbers), MAX_AT_ONCE):
            some = numbers[start : start + MAX_AT_ONCE]
            rows = await self.context.store.database.rows(_SETTLED.format(",".join("?" * len(some))), some)
            found.update((number, digest) for number, digest in rows)
        return found


def _identity(message: StoredMessage) -> Identity:
    return message.log_offset, key_hash(message.unique_key)


OpenScheme = Callable[[Settings, SchemeContext], Awaitable[TimedScheme]]
"""Opens a scheme and loads its pending messages. Leaves nothing open if it raises a StoreError."""
