"""The interface of delay schemes, which keep messages until due, and the parts of the broker they use.

There are two kinds: the level queues, for the fixed delay levels, and schemes that the app plugs in, for
absolute due times (:class:`~mocketmq.schedule.timed_scheme.TimedScheme`).
"""

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, Literal, NamedTuple, Protocol

from mocketmq.clock import wall_us
from mocketmq.event_loop import pieces_of
from mocketmq.message.message import StoredMessage
from mocketmq.schedule.delivery import Catch, DeliveryListener
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.schedule.timer import DueSource
from mocketmq.store.batch import Batch
from mocketmq.store.messages import NO_LIMIT
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store
from mocketmq.store.writer import MAX_BATCH_BYTES

EndOfWait = Literal["cancelled", "lost"]
"""Why a pending message is never delivered. A message is ``lost`` if its broker lost it in a crash."""
_PAGE: Final = 16_384
"""Number of pending messages per page. Some schemes scan all their messages for each page."""
_OTHERS_NUMBER: Final = 1 << 60
"""Lower bound of numbers from elsewhere. Numbers made here come from the wall clock and stay below it."""


class PendingFigures(NamedTuple):
    """Pending messages of one delay level, or of a scheme without levels. Instants are emulated."""

    scheme: str
    level: int | None
    pending: int
    next_due_us: int | None
    oldest_overdue_us: int | None  # due time of the first message, if overdue


class FileFigures(NamedTuple):
    """Figures on the files of pending messages."""

    parts: int = 0  # number of directories, or of ten-minute or day files, with a message
    disk_bytes: int = 0
    quarantined: int = 0  # number of quarantined files
    unremoved: int = 0  # number of files of settled messages that cannot be removed
    repeats: int = 0  # number of files refused because their message was already settled
    put_aside: Mapping[str, int] = {}  # numbers of damaged, missing and foreign files, by kind

    def plus(self, other: "FileFigures") -> "FileFigures":
        """The sum of these and other figures."""
        return FileFigures(
            self.parts + other.parts,
            self.disk_bytes + other.disk_bytes,
            self.quarantined + other.quarantined,
            self.unremoved + other.unremoved,
            self.repeats + other.repeats,
            Counter(self.put_aside) + Counter(other.put_aside),
        )


class PendingFilter(NamedTuple):
    """Pending messages of one topic, of one level, or without a level (``timed``); by default, all."""

    topic: str | None = None
    level: int | None = None
    timed: bool = False


ALL_PENDING: Final = PendingFilter()


class DelayScheme(DueSource, Protocol):
    """Keeps messages until they are due. Instants in emulated microseconds.

    A pending message is identified by the ``log_offset`` of its parked record. A scheme that keeps messages
    outside of the store assigns numbers instead, above any log offset and rising in order of arrival.
    """

    name: str  # its name in the ledger

    @property
    def delivered(self) -> int:
        """Messages delivered since the start, without forced ones."""

    @property
    def early(self) -> int:
        """Messages delivered before their due time, which is a defect."""

    @property
    @abstractmethod
    def pending(self) -> int:
        """The number of pending messages."""

    def next_delivery_us(self) -> int | None:
        """The instant of the next delivery; None without pending messages."""

    def figures(self) -> Sequence[PendingFigures]:
        """Pending messages, one row per level."""

    @abstractmethod
    def holds(self, parked: StoredMessage) -> bool:
        """Whether this message is still pending here."""

    @abstractmethod
    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order.

        The page may end when its bodies reach ``max_bytes`` in total.
        """

    def cancel(self, batch: Batch, messages: Iterable[StoredMessage], why: EndOfWait = "cancelled") -> int:
        """Cancel these messages, and return how many were cancelled. Ignores messages that are not pending.

        Takes effect with the commit. Call this method and those below under the timer's lock.
        """

    async def cancel_topic(self, topic: str) -> Callable[[Batch], int]:
        """Look up the topic's pending messages, and return the work that cancels them.

        If they are many, some may be cancelled at once. The work returns the number of all.
        """

    def force(self, batch: Batch, parked: StoredMessage) -> None:
        """Deliver the message now. The message must be pending in this scheme (``holds``)."""

    @abstractmethod
    def clear(self, batch: Batch) -> None:
        """Forget all pending messages."""

    def retained(self) -> Iterable[tuple[Queue, int]]:
        """Queues of the store, each with the lowest offset that retention must keep."""


async def pending_in(scheme: DelayScheme, which: PendingFilter = ALL_PENDING) -> AsyncIterator[StoredMessage]:
    """All messages pending in a scheme, read page by page. Other tasks run between pieces of a page."""
    after = -1
    while page := await scheme.page(after, _PAGE, which, MAX_BATCH_BYTES):
        for some in pieces_of(page):
            await asyncio.sleep(0)
            for message in some:
                yield message
        after = page[-1].log_offset


def cancel_in_pieces(
    scheme: DelayScheme, batch: Batch, messages: Sequence[StoredMessage], why: EndOfWait = "cancelled"
) -> Generator[None, None, int]:
    """Cancel many messages, oldest first, in one transaction. Returns how many were cancelled."""
    count = 0
    # A scheme recognizes copies of a message, whose files someone has copied, only within one call.
    for some in pieces_of(messages, attrgetter("log_offset")):
        count += scheme.cancel(batch, some, why)
        yield
    return count


class Numbers:
    """Numbers messages outside of the store by the wall clock, so above all log offsets and never twice."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """Return a new number, above all earlier ones."""
        self.last = max(self.last + 1, wall_us())
        return self.last

    def note(self, number: int) -> None:
        """Note a number in use. Later numbers will be above it."""
        if number < _OTHERS_NUMBER:
            self.last = max(self.last, number)


class TopicQueues(Protocol):
    """The part of a topic that a scheme uses."""

    @property
    def queues(self) -> Sequence[Queue]:
        """The topic's queues, by queue id."""


class TopicLookup(Protocol):
    """The topic look-ups that a scheme uses."""

    def get(self, name: str) -> TopicQueues:
        """The topic. Raises TopicNotFoundError."""

    def levels(self) -> Iterable[Queue]:
        """The queues of the delay levels."""

    def queue(self, key: int) -> Queue:
        """The queue with this key. Its topic may have been deleted."""

    async def ensure(self, name: str, queues: int) -> TopicQueues:
        """The topic, created with this number of queues if it does not exist."""


@dataclass(frozen=True)
class SchemeContext:
    """The collaborators that all schemes of a broker share."""

    store: Store
    started_us: int  # emulated instant of the broker's start
    ledger: LedgerWriter
    topics: TopicLookup
    parked_queue: Queue  # the queue shown for pending messages outside of the store
    changed: Callable[[], None]  # call it when a message is due earlier than all others
    on_delivered: DeliveryListener
    intervention: Callable[[], AbstractAsyncContextManager[None]]  # of the timer
    cancel_all: Callable[[Sequence[StoredMessage]], Awaitable[int]]  # of the scheme set, in an intervention
    catch: Catch  # lets an injected fault hold a delivery
    numbers: Numbers = field(default_factory=Numbers)
