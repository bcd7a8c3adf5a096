"""Delay schemes: ways to keep messages until they are due.

The level queues are one, for the fixed delay levels. For absolute due times the app puts in another, which
no room below it knows by name.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.timer import DueSource
from mocketmq.store.queues import Queue
from mocketmq.store.writer import Batch


class DelayScheme(DueSource, Protocol):
    """What every scheme answers about the messages that it keeps. Instants in emulated microseconds.

    A kept message is known by its ``commit_offset``: of its parked record, or for a scheme that keeps it
    outside of the store a number that is larger than any commit offset and rises in order of arrival.
    """

    name: str  # as in the ledger
    delivered: int  # since the start
    early: int  # of these, those before their due time: a defect

    @property
    def pending(self) -> int:
        """How many messages wait."""

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible; None when nothing waits."""

    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits here."""

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order, of one topic or level."""

    async def cancel(self, parked: StoredMessage) -> None:
        """Never deliver the message. Under the timer's lock. Raises NotPendingError."""

    async def force(self, parked: StoredMessage) -> None:
        """Deliver the message now. Under the timer's lock. Raises NotPendingError."""


class Reply(NamedTuple):
    """What the sender of a delayed message is told of its record, by the fields of upstream's answer."""

    offset_message_id: str
    queue_id: int
    queue_offset: int


class TimedState(NamedTuple):
    """What a timed scheme holds. Sizes in bytes, instants in emulated microseconds."""

    pending: int
    directories: int
    disk_bytes: int
    next_due_us: int | None
    oldest_overdue_us: int | None  # due time of the first message, if that should have been delivered
    quarantined: int  # files that are put aside
    unremoved: int  # files that are done with, but cannot be removed
    repeats: int  # files that were refused because their message was done with
    put_aside: Mapping[str, int]  # damaged, missing and foreign files, by kind


class TimedScheme(DelayScheme, Protocol):
    """A scheme for absolute due times, which keeps messages outside of the store."""

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""

    def start(self) -> asyncio.Task[None]:
        """Begin what is done in the background."""

    async def close(self) -> None:
        """End that. May be called twice."""

    async def keep(self, draft: Draft, queue: Queue, due_us: int, number: int | None = None) -> StoredMessage:
        """Keep the message until ``due_us``, then let it become visible in ``queue``; durable on return.

        A ``number`` given by the caller makes this repeatable: the same message with the same number is kept
        and delivered once. Raises a StoreError: then nothing was kept.
        """

    async def has_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""

    def reply(self, stored: StoredMessage, queue: Queue) -> Reply:
        """What the sender is told."""

    async def find(self, message_id: str) -> list[StoredMessage]:
        """Pending messages with this unique key or offset message id."""

    async def cancel_all(self, messages: Sequence[StoredMessage]) -> None:
        """Cancel many. Under the timer's lock."""

    async def discard(self, messages: Sequence[StoredMessage]) -> None:
        """Forget messages of which nobody was told, as if they had never been kept."""

    def state(self) -> TimedState:
        """What it holds, for people and metrics."""

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed. Under the timer's lock."""


class DueTimes(Protocol):
    """Reads from a message's properties until when it is to be kept."""

    def due_us(self, properties: dict[str, str], level: int) -> int | None:
        """The emulated instant, or None for no absolute delay; ``level`` is the message's delay level.

        May change what the properties say. Raises IllegalMessageError or InvalidArgumentError.
        """
