"""The interface of delay schemes, which keep messages until they are due.

Two kinds: the level queues, for the fixed delay levels, and those that the app plugs in, for absolute due
times (:class:`~mocketmq.schedule.timed_scheme.TimedScheme`). This is what the broker asks of both.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from mocketmq.message.message import StoredMessage
from mocketmq.schedule.due import DueSource
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch


class Figures(NamedTuple):
    """What waits in one delay level, or in all of a scheme without levels. Emulated microseconds."""

    scheme: str
    level: int | None
    pending: int
    next_due_us: int | None
    oldest_overdue_us: int | None  # due time of the first message, if that should have been delivered


class FileFigures(NamedTuple):
    """The files of messages that wait. Sizes in bytes."""

    parts: int = 0  # directories, files of ten minutes or days that hold a message
    disk_bytes: int = 0
    quarantined: int = 0  # files that are put aside
    unremoved: int = 0  # files that are done with, but cannot be removed
    repeats: int = 0  # files that were refused because their message was done with
    put_aside: Mapping[str, int] = {}  # damaged, missing and foreign files, by kind

    def plus(self, other: "FileFigures") -> "FileFigures":
        """These files and others together."""
        return FileFigures(
            self.parts + other.parts,
            self.disk_bytes + other.disk_bytes,
            self.quarantined + other.quarantined,
            self.unremoved + other.unremoved,
            self.repeats + other.repeats,
            Counter(self.put_aside) + Counter(other.put_aside),
        )


class DelayScheme(DueSource, Protocol):
    """A way to keep messages until they are due. Instants in emulated microseconds.

    A message that waits is known by its ``log_offset``: that of its parked record. A scheme that keeps it
    outside of the store gives it a number instead, above any log offset and rising in order of arrival.
    """

    name: str  # as in the ledger

    @property
    def delivered(self) -> int:
        """How many messages became visible by themselves since the start."""

    @property
    def early(self) -> int:
        """How many of these did before their due time: a defect."""

    @property
    def pending(self) -> int:
        """How many messages wait."""

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible; None when nothing waits."""

    def figures(self) -> Sequence[Figures]:
        """What waits, one row per level."""

    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message still waits here."""

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order, of one topic or level."""

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage]) -> int:
        """Never deliver these messages, without those that do not wait; how many.

        Takes effect with the commit. This and all that follows: under the timer's lock.
        """

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Look up what waits for the topic; the work that cancels all of it, as ``cancel``."""

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        """Deliver the message now; it must wait here (``holds``)."""

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits."""

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """Queues of the store, and from which offset on retention must leave their messages alone."""

    async def close(self) -> None:
        """Save all unsaved state, and release files and tasks. May be called twice."""
