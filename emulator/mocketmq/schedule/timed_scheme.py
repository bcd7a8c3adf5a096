"""The base of delay schemes for absolute due times, which keep messages outside of the store.

To add one, write a store for the engine of ``mocketmq_compat/delay/stored_scheme.py``, or derive from
:class:`TimedScheme`; CONTRIBUTING.md says where its name goes.

Delivery is exactly once. The transaction that makes a message visible also records its identity, number and
hash of the unique key, in the table ``timed_messages``; the scheme forgets the message afterwards. One that
is still there after a kill, or was copied back from a backup, is known by that identity.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple

from mocketmq.clock import US_PER_MS
from mocketmq.message.message import COMMITTED_FLAG, Draft, StoredMessage, draft_of
from mocketmq.message.message_id import Identity, key_hash, offset_message_id
from mocketmq.schedule.delivery import Delivery, DueMessage
from mocketmq.schedule.due import DueNow
from mocketmq.schedule.scheme import Figures, FileFigures
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.settings import Settings
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch

_SETTLE = "INSERT INTO timed_messages VALUES (?, ?, ?, ?, ?)"
_CANCELLED = "INSERT INTO interventions VALUES (?, 'cancelled', ?)"
_SETTLED = "SELECT number, key_hash FROM timed_messages WHERE number IN ({})"


class SendReceipt(NamedTuple):
    """What the sender of a message is told of its record, in the fields of upstream's answer."""

    offset_message_id: str
    queue_id: int
    queue_offset: int


class TimedScheme(ABC):
    """Keeps messages with an absolute due time. Fired by the timer, under whose lock messages leave.

    Implements :class:`~mocketmq.schedule.scheme.DelayScheme`, but for what is abstract.
    """

    name: str

    def __init__(self, context: SchemeContext) -> None:
        self.context = context
        self.delivery = Delivery(self.name, context.ledger, context.on_delivered, context.catch)

    # To be written for each scheme

    @abstractmethod
    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """The emulated instant until which the scheme is to keep a message, read from its properties.

        None for a message that is not for this scheme; the first scheme that answers gets it. A delay
        ``level`` above 0 goes before: then the answer is None. May change the properties. Raises
        IllegalMessageError or InvalidArgumentError.
        """

    @abstractmethod
    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Keep the message until ``due_us``, then let it become visible in ``queue``; durable on return.

        A ``number`` given by the caller makes this repeatable: the same message with the same number is kept
        and delivered once. Raises a StoreError: then nothing was kept.
        """

    @abstractmethod
    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""

    @abstractmethod
    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Forget these messages: they are done with."""

    @abstractmethod
    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. Under the timer's lock."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """How many messages wait."""

    @abstractmethod
    def first_due_us(self) -> int | None:
        """The due time of the message that is due first; None when nothing waits."""

    @abstractmethod
    def firing(self, until_us: int) -> AbstractAsyncContextManager[DueNow]:
        """Prepare a batch of what is due by ``until_us``; see :meth:`DueSource.firing`."""

    @abstractmethod
    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits here."""

    @abstractmethod
    async def find(self, unique_key: str) -> list[StoredMessage]:
        """Pending messages with this unique key."""

    @abstractmethod
    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message with this number, or None."""

    @abstractmethod
    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order; none for a ``level``."""

    # What a scheme may do otherwise

    def receipt(self, stored: StoredMessage, queue: Queue) -> SendReceipt:
        """What the sender is told: the number stands in the place of the log offset."""
        return SendReceipt(offset_message_id(stored.store_host, stored.log_offset), queue.queue_id, 0)

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible; None when nothing waits."""
        return self.first_due_us()

    def file_figures(self) -> FileFigures | None:
        """What is on the disk; None for a scheme without files of its own."""
        return None

    def due_seconds(self) -> Mapping[int, int]:
        """How many messages are due in each second of the epoch; empty for a scheme that does not know."""
        return {}

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Begin what is done in the background; a task that ends before ``close`` has failed."""
        return ()

    async def close(self) -> None:  # noqa: B027 - most have nothing to close
        """End the work in the background. May be called twice."""

    # The same for all

    @property
    def delivered(self) -> int:
        """How many messages became visible by themselves since the start."""
        return self.delivery.delivered

    @property
    def early(self) -> int:
        """How many of these did before their due time: a defect."""
        return self.delivery.early

    def next_due_us(self) -> int | None:
        """When there is something to fire."""
        return self.next_delivery_us()

    def figures(self) -> Sequence[Figures]:
        """What waits."""
        due_us = self.first_due_us()
        is_overdue = due_us is not None and due_us < self.context.store.clock.now_us()
        return [Figures(self.name, None, self.pending, due_us, due_us if is_overdue else None)]

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """Nothing: what waits is not in the store."""
        return ()

    def kept(
        self, draft: Draft, queue: Queue, due_us: int, number: int, stored_us: int, store_host: str
    ) -> StoredMessage:
        """The message as it is shown while it waits for its ``queue``; ``number`` is its log offset."""
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
        )

    def deliver(self, batch: Batch, message: StoredMessage, *, fires_us: int, picked_us: int) -> None:
        """Let the message become visible at ``fires_us``, or later; ``remove`` it on the commit."""
        due, draft = self._due(batch, message)
        offset = self.delivery.deliver(batch, due, draft, fires_us=fires_us, picked_us=picked_us)
        self.settle(batch, _identity(message), due.due_us // US_PER_MS, "delivered", offset)

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        """Deliver the pending message now."""
        due, draft = self._due(batch, parked)
        offset = self.delivery.force(batch, due, draft)
        self.settle(batch, _identity(parked), due.due_us // US_PER_MS, "forced", offset)
        batch.on_commit(partial(self.remove, [parked]))

    def _due(self, batch: Batch, message: StoredMessage) -> tuple[DueMessage, Draft]:
        number, draft = message.log_offset, draft_of(message)
        if draft.sys_flag & COMMITTED_FLAG and number < batch.next_log_offset:
            draft = draft._replace(prepared_offset=number)
        queue = self.context.topics.queue(message.real_queue_key or 0)
        return DueMessage(queue, number, None, message.store_us, message.due_us or 0), draft

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage]) -> int:
        """Never deliver these messages; a record of each stays in the store."""
        waiting = [message for message in messages if self.holds(message)]
        each_once = {(m.log_offset, m.unique_key): m for m in waiting}
        for message in each_once.values():
            record = batch.append(
                self.context.parked_queue,
                draft_of(message),
                due_us=message.due_us,
                real_queue_key=message.real_queue_key,
            )
            batch.execute(_CANCELLED, (record.log_offset, batch.now_us))
            due_ms = (message.due_us or 0) // US_PER_MS
            self.settle(batch, _identity(message), due_ms, "cancelled", record.log_offset)
        batch.on_commit(partial(self.remove, waiting))
        return len(each_once)

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Look up what waits for the topic; the work that cancels all of it."""
        messages = await self.page(-1, self.pending, topic=topic)
        return lambda batch: self.cancel(batch, messages)

    def settle(
        self, batch: Batch, identity: Identity, due_ms: int, outcome: str, log_offset: int = -1
    ) -> None:
        """Record for good that the message is done with, and at which offset its record is, if it has one."""
        batch.execute(_SETTLE, (*identity, due_ms, outcome, log_offset))

    async def is_settled(self, message: StoredMessage) -> bool:
        """Whether the message is done with, although another copy of it still waits."""
        return _identity(message) in await self.settled([message.log_offset])

    async def settled(self, numbers: Sequence[int]) -> set[Identity]:
        """The identities of messages with these numbers that are done with."""
        found: set[Identity] = set()
        for start in range(0, len(numbers), MAX_AT_ONCE):
            some = numbers[start : start + MAX_AT_ONCE]
            rows = await self.context.store.database.rows(_SETTLED.format(",".join("?" * len(some))), some)
            found.update((number, digest) for number, digest in rows)
        return found


def _identity(message: StoredMessage) -> Identity:
    return message.log_offset, key_hash(message.unique_key)


OpenScheme = Callable[[Settings, SchemeContext], Awaitable[TimedScheme]]
"""Opens a scheme and finds what waits in it. Raises a StoreError: then nothing is left open."""
