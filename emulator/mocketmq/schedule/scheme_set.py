"""All delay schemes of a broker combined: chooses the scheme for a message, and lists pending messages."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from mocketmq.clock import Clock, whole_ms_us
from mocketmq.delay_limits import WaitingLine
from mocketmq.errors import EmulatorError, NotPendingError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.scheme import ALL_PENDING, DelayScheme, FileFigures, PendingFigures, PendingFilter
from mocketmq.schedule.timed_scheme import NewestPage, TimedScheme
from mocketmq.store.batch import Batch
from mocketmq.store.messages import NO_LIMIT, until_bytes
from mocketmq.store.queue import Queue
from mocketmq.store.writer import MAX_BATCH_BYTES, Writer

_PAGE: Final = 100_000


class Claim(NamedTuple):
    """The scheme chosen for a message, and the message's due time in emulated microseconds."""

    scheme: TimedScheme
    due_us: int


class WaitingLines:
    """Holds messages back behind earlier ones of their topic, as in systems that deliver in queue order.

    A cancelled message keeps its place until it is due.
    """

    def __init__(self, clock: Clock, ahead: int) -> None:
        self._clock = clock
        self._ahead = ahead
        self._lines: dict[str, WaitingLine] = {}

    def join(self, queue: Queue, due_us: int) -> int:
        """Add a message to the line of its topic, and return the message's due time in that line."""
        line = self._lines.setdefault(queue.topic, WaitingLine(self._ahead))
        return line.join(self._clock.now_us(), whole_ms_us(due_us))

    def leave(self, queue: Queue, due_us: int) -> None:
        """Take a message that was refused after all out of its line."""
        if (line := self._lines.get(queue.topic)) is not None:
            line.leave(due_us)

    def load(self, queue: Queue, due_us: int) -> None:
        """Add a message that was already waiting when the broker started."""
        self._lines.setdefault(queue.topic, WaitingLine(self._ahead)).load(due_us)

    def forget(self, topic: str) -> None:
        """Drop the line of a topic whose messages were all cancelled."""
        self._lines.pop(topic, None)

    def forget_all(self) -> None:
        """Forget all lines."""
        self._lines.clear()


class SchemeSet:
    """Every delay scheme: the level queues first, then the plugged-in schemes in their order.

    ``on_kept`` is called for each message that a scheme has saved outside of the store, and ``on_cancelled``
    for each message that was cancelled.
    """

    def __init__(self, writer: Writer, lines: WaitingLines | None = None) -> None:
        self._writer = writer
        self._lines = lines
        self._all: list[DelayScheme] = []
        self.all_timed: list[TimedScheme] = []  # the schemes for absolute due times
        self.due_properties: frozenset[str] = frozenset()  # without any of these, no scheme claims a message
        self.on_kept: Callable[[StoredMessage], None] | None = None
        self.on_cancelled: Callable[[StoredMessage], None] | None = None

    def add_scheme(self, scheme: DelayScheme) -> None:
        """Add a scheme. Raises ValueError if another scheme has the same name."""
        if any(scheme.name == one.name for one in self._all):
            raise ValueError(f"a delay scheme named {scheme.name} is already registered")
        self._all.append(scheme)
        if isinstance(scheme, TimedScheme):
            self.all_timed.append(scheme)
            self.due_properties |= scheme.due_properties

    def __iter__(self) -> Iterator[DelayScheme]:
        return iter(self._all)

    def start(self) -> list[asyncio.Task[None]]:
        """Start the background work of every scheme."""
        return [task for scheme in self.all_timed for task in scheme.start()]

    async def load_lines(self, queue_of: Callable[[int], Queue]) -> None:
        """Rebuild the waiting lines of pending messages after a start, if the delay limits require lines."""
        if self._lines is not None:
            after = -1
            while found := await self.outside(after, _PAGE, max_bytes=MAX_BATCH_BYTES):
                for message in found:
                    self._lines.load(queue_of(message.real_queue_key or 0), message.due_us or 0)
                after = found[-1].log_offset

    # Keeping messages

    def claim(self, properties: dict[str, str], level: int) -> Claim | None:
        """Choose the first scheme that accepts these properties; None without a delay, or for a delay level.

        Raises the errors of :meth:`TimedScheme.due_us`.
        """
        for scheme in self.all_timed:
            due_us = scheme.due_us(properties, level)
            if due_us is not None:
                return Claim(scheme, due_us)
        return None

    async def keep(
        self, claim: Claim, draft: Draft, queue: Queue, number: int | None = None
    ) -> StoredMessage:
        """Like :meth:`TimedScheme.keep`, but join the topic's waiting line first, if it has one."""
        scheme, due_us = claim
        if self._lines is not None:
            due_us = self._lines.join(queue, due_us)
        try:
            kept = await scheme.keep(draft, queue, due_us, number)
        except EmulatorError:
            if self._lines is not None:
                self._lines.leave(queue, due_us)
            raise
        if self.on_kept is not None:
            self.on_kept(kept)
        return kept

    async def reload_lines(self, queue_of: Callable[[int], Queue]) -> None:
        """Rebuild the waiting lines after a restore."""
        if self._lines is not None:
            self._lines.forget_all()
            await self.load_lines(queue_of)

    def timed(self, name: str = "") -> TimedScheme:
        """The scheme with this name, otherwise the first. Raises LookupError if there are no schemes."""
        return next((scheme for scheme in self.all_timed if scheme.name == name), self.all_timed[0])

    def note(self, claim: Claim) -> str:
        """Encode the claim as text, to store it with a half message."""
        is_first = claim.scheme is self.all_timed[0]
        return str(claim.due_us) if is_first else f"{claim.due_us} {claim.scheme.name}"

    def noted(self, text: str) -> Claim:
        """Decode a claim. The first scheme replaces a scheme that no longer exists."""
        due_us, _, name = text.partition(" ")
        return Claim(self.timed(name), int(due_us))

    async def have_kept(self, number: int, unique_key: str) -> bool:
        """Whether a message was kept under this number, pending or settled."""
        for scheme in self.all_timed:
            if await scheme.has_kept(number, unique_key):
                return True
        return False

    def discard(self, messages: Sequence[StoredMessage]) -> None:
        """Forget messages whose sends failed, as if they had never been kept."""
        for scheme in self.all_timed:
            if held := [message for message in messages if scheme.holds(message)]:
                scheme.remove_settled(held)
                if self._lines is not None:
                    queue_of = scheme.context.topics.queue
                    for one in held:
                        self._lines.leave(queue_of(one.real_queue_key or 0), one.due_us or 0)

    # Due times

    def next_delivery_us(self) -> int | None:
        """The instant of the next delivery; None without pending messages."""
        return min((due for one in self._all if (due := one.next_delivery_us()) is not None), default=None)

    # Pending messages

    @property
    def pending(self) -> int:
        return sum(scheme.pending for scheme in self._all)

    def holding(self, message: StoredMessage) -> DelayScheme | None:
        """The scheme in which this message is pending, if any."""
        return next((scheme for scheme in self._all if scheme.holds(message)), None)

    async def find_by_key(self, unique_key: str, max_bytes: int = NO_LIMIT) -> list[StoredMessage]:
        """The newest pending messages outside of the store with this unique key.

        ``max_bytes`` limits the bodies from each scheme; see :meth:`TimedScheme.find_by_key`.
        """
        return [
            message
            for scheme in self.all_timed
            for message in await scheme.find_by_key(unique_key, max_bytes)
        ]

    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message outside of the store with this number, or None."""
        for scheme in self.all_timed:
            if found := await scheme.numbered(number):
                return found
        return None

    async def outside(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Like :meth:`page`, but only messages outside of the store."""
        pages = [await one.page(after, limit, which, max_bytes) for one in self.all_timed]
        return _merged_pages(pages, limit, max_bytes)

    async def newest_outside(self, before: int, limit: int) -> NewestPage:
        """Like :meth:`TimedScheme.newest`, over all schemes."""
        pages = [await one.newest(before, limit) for one in self.all_timed]
        nexts = [page.next_before for page in pages if page.next_before is not None]
        next_before = max(nexts, default=None)
        found = [
            message
            for page in pages
            for message in page.messages
            if next_before is None or message.log_offset >= next_before
        ]
        found.sort(key=lambda message: message.log_offset, reverse=True)
        return NewestPage(found, next_before)

    async def first_due_outside(self, limit: int) -> list[StoredMessage]:
        """The first ``limit`` messages of each scheme outside of the store, by due time."""
        return [message for one in self.all_timed for message in await one.first_due(limit)]

    async def page(
        self, after: int, limit: int, which: PendingFilter = ALL_PENDING, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order.

        The page ends when its bodies reach ``max_bytes`` in total.
        """
        pages = [await one.page(after, limit, which, max_bytes) for one in self._all]
        return _merged_pages(pages, limit, max_bytes)

    # Cancelling and forcing on request, in an intervention of the timer, and durable after it

    async def cancel(self, messages: Sequence[StoredMessage]) -> None:
        """Cancel all of these messages, or none. Raises NotPendingError if a message is not pending."""
        for message in messages:
            await self._require(message)

        def work(batch: Batch) -> None:
            for scheme in self._all:
                scheme.cancel(batch, messages)
            for message in messages:
                self._tell_cancelled(batch, message)

        await self._writer.commit(work, until="visible")

    async def force(self, message: StoredMessage) -> None:
        """Deliver the message now. Raises NotPendingError."""
        scheme = await self._require(message)
        await self._writer.commit(partial(scheme.force, parked=message), until="visible")

    async def cancel_all(self, messages: Sequence[StoredMessage]) -> int:
        """Cancel the messages that are still pending, and return how many were cancelled."""

        def cancel(scheme: DelayScheme, batch: Batch, message: StoredMessage) -> None:
            scheme.cancel(batch, [message])
            self._tell_cancelled(batch, message)

        return await self._with_all(messages, cancel)

    def _tell_cancelled(self, batch: Batch, message: StoredMessage) -> None:
        if self.on_cancelled is not None:
            batch.on_commit(partial(self.on_cancelled, message))

    async def force_all(self, messages: Sequence[StoredMessage]) -> int:
        """Deliver the messages that are still pending now, and return how many were delivered."""
        return await self._with_all(messages, lambda scheme, batch, one: scheme.force(batch, one))

    async def _with_all(
        self, messages: Sequence[StoredMessage], act: Callable[[DelayScheme, Batch, StoredMessage], object]
    ) -> int:
        """Act on each pending message, in one transaction."""
        each_once = {(one.log_offset, one.unique_key): one for one in messages}.values()

        def work(batch: Batch) -> int:
            waiting = [(scheme, one) for one in each_once if (scheme := self.holding(one)) is not None]
            for scheme, one in waiting:
                act(scheme, batch, one)
            return len(waiting)

        return int(await self._writer.commit(work, until="visible"))

    async def _require(self, message: StoredMessage) -> DelayScheme:
        scheme = self.holding(message)
        if scheme is None or (isinstance(scheme, TimedScheme) and await scheme.is_settled(message)):
            raise not_pending(message.unique_key)
        return scheme

    @asynccontextmanager
    async def listing(self) -> AsyncIterator[None]:
        """List the pending messages of all schemes, like :meth:`TimedScheme.listing`."""
        async with AsyncExitStack() as stack:
            for scheme in self.all_timed:
                await stack.enter_async_context(scheme.listing())
            yield

    def clear(self, batch: Batch) -> None:
        """Forget all pending messages when this batch is committed. The caller is inside a ``listing``."""
        for scheme in self._all:
            scheme.clear(batch)
        if self._lines is not None:
            batch.on_commit(self._lines.forget_all)

    def leave_line(self, batch: Batch, topic: str) -> None:
        """Drop a topic's waiting line when this batch, which cancels all its messages, is committed."""
        if self._lines is not None:
            batch.on_commit(partial(self._lines.forget, topic))

    def retained(self) -> list[tuple[Queue, int]]:
        """Queues of the store, each with the lowest offset that retention must keep."""
        return [each for scheme in self._all for each in scheme.retained()]

    # Figures

    @property
    def delivered(self) -> int:
        return sum(scheme.delivered for scheme in self._all)

    @property
    def early(self) -> int:
        return sum(scheme.early for scheme in self._all)

    def figures(self) -> list[PendingFigures]:
        return [row for scheme in self._all for row in scheme.figures()]

    def timed_figures(self) -> PendingFigures:
        """Pending messages with absolute due times, over all schemes."""
        rows = [row for scheme in self.all_timed for row in scheme.figures()]
        return PendingFigures(
            "",
            None,
            sum(row.pending for row in rows),
            min((row.next_due_us for row in rows if row.next_due_us is not None), default=None),
            min((row.oldest_overdue_us for row in rows if row.oldest_overdue_us is not None), default=None),
        )

    def due_seconds(self) -> Counter[int]:
        """Count the messages with an absolute due time by the second in which they are due.

        May omit the latest due times, and count those of neighbouring seconds together if they are many.
        """
        total: Counter[int] = Counter()
        for scheme in self.all_timed:
            total.update(scheme.due_seconds())
        return total

    def file_figures(self) -> FileFigures:
        """The file figures of all schemes together."""
        total = FileFigures()
        for scheme in self.all_timed:
            if (one := scheme.file_figures()) is not None:
                total = total.plus(one)
        return total


def _merged_pages(pages: Iterable[list[StoredMessage]], limit: int, max_bytes: int) -> list[StoredMessage]:
    """Merge pages of several schemes into one, with the same limits.

    The bodies of a page that ended early reach ``max_bytes``, so the merged page ends no later than that
    page.
    """
    found = sorted((message for page in pages for message in page), key=lambda one: one.log_offset)
    return until_bytes(found[:limit], max_bytes, lambda one: len(one.body))


def not_pending(message_id: str) -> NotPendingError:
    """Return the error for a message that is not pending, or no longer pending."""
    return NotPendingError(
        f"message {message_id} is not pending: it was delivered, cancelled, or never delayed"
    )
