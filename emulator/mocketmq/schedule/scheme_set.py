"""All delay schemes of a broker as one: choose the scheme for a message, and list all waiting ones."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from mocketmq.errors import NotPendingError
from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.scheme import DelayScheme, Figures, FileFigures
from mocketmq.schedule.timed_scheme import TimedScheme
from mocketmq.schedule.waiting_lines import WaitingLines
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch, Writer

_PAGE: Final = 100_000


class Claim(NamedTuple):
    """The scheme that is to keep a message, and until when, in emulated microseconds."""

    scheme: TimedScheme
    due_us: int


class SchemeSet:
    """Every delay scheme: the level queues, then those that were plugged in, in order."""

    def __init__(self, writer: Writer, lines: WaitingLines | None = None) -> None:
        self._writer = writer
        self._lines = lines
        self._all: list[DelayScheme] = []
        self._timed: list[TimedScheme] = []

    def add(self, scheme: DelayScheme) -> None:
        """Add a scheme. Raises ValueError if there is one of its name."""
        if any(scheme.name == one.name for one in self._all):
            raise ValueError(f"a delay scheme named {scheme.name} is already registered")
        self._all.append(scheme)
        if isinstance(scheme, TimedScheme):
            self._timed.append(scheme)

    def __iter__(self) -> Iterator[DelayScheme]:
        return iter(self._all)

    def start(self) -> list[asyncio.Task[None]]:
        """Start the background work of every scheme."""
        return [task for scheme in self._timed for task in scheme.start()]

    async def load_lines(self, queue_of: Callable[[int], Queue]) -> None:
        """Let what waits since before the start take its place, if messages wait for others."""
        if self._lines is not None:
            after = -1
            while found := await self.outside(after, _PAGE):
                for message in found:
                    self._lines.load(queue_of(message.real_queue_key or 0), message.due_us or 0)
                after = found[-1].log_offset

    # Keep

    def claim(self, properties: dict[str, str], level: int) -> Claim | None:
        """The first scheme that is to keep a message with these properties; None for at once, or by level.

        Raises as :meth:`TimedScheme.due_us`.
        """
        for scheme in self._timed:
            due_us = scheme.due_us(properties, level)
            if due_us is not None:
                return Claim(scheme, due_us)
        return None

    async def keep(
        self, claim: Claim, draft: Draft, queue: Queue, number: int | None = None
    ) -> StoredMessage:
        """As :meth:`TimedScheme.keep`, behind the messages for which it has to wait."""
        scheme, due_us = claim
        if self._lines is not None:
            due_us = self._lines.join(queue, due_us)
        return await scheme.keep(draft, queue, due_us, number)

    def timed(self, name: str = "") -> TimedScheme:
        """The scheme of this name; the first if there is none. Raises LookupError without any scheme."""
        return next((scheme for scheme in self._timed if scheme.name == name), self._timed[0])

    def note(self, claim: Claim) -> str:
        """The claim as text, to be stored with a half message."""
        is_first = claim.scheme is self._timed[0]
        return str(claim.due_us) if is_first else f"{claim.due_us} {claim.scheme.name}"

    def noted(self, text: str) -> Claim:
        """The claim of a noted text; of the first scheme if there is none of its name any more."""
        due_us, _, name = text.partition(" ")
        return Claim(self.timed(name), int(due_us))

    async def have_kept(self, number: int, unique_key: str) -> bool:
        """Whether this message was kept by this number, and waits or is done with."""
        for scheme in self._timed:
            if await scheme.has_kept(number, unique_key):
                return True
        return False

    def discard(self, messages: Sequence[StoredMessage]) -> None:
        """Forget messages whose senders got no answer, as if they had never been kept."""
        for scheme in self._timed:
            if held := [message for message in messages if scheme.holds(message)]:
                scheme.remove(held)

    # When

    def next_delivery_us(self) -> int | None:
        """When the next message becomes visible; None when nothing waits."""
        return min((due for one in self._all if (due := one.next_delivery_us()) is not None), default=None)

    # What waits

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return sum(scheme.pending for scheme in self._all)

    def holding(self, message: StoredMessage) -> DelayScheme | None:
        """The scheme in which this message waits; None when it does not."""
        return next((scheme for scheme in self._all if scheme.holds(message)), None)

    async def find(self, unique_key: str) -> list[StoredMessage]:
        """Pending messages outside of the store with this unique key."""
        return [message for scheme in self._timed for message in await scheme.find(unique_key)]

    async def numbered(self, number: int) -> StoredMessage | None:
        """The pending message outside of the store with this number, or None."""
        for scheme in self._timed:
            if found := await scheme.numbered(number):
                return found
        return None

    async def outside(self, after: int, limit: int, *, topic: str | None = None) -> list[StoredMessage]:
        """As :meth:`page`, but only of what waits outside of the store."""
        found = [message for one in self._timed for message in await one.page(after, limit, topic=topic)]
        return sorted(found, key=lambda message: message.log_offset)[:limit]

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Up to ``limit`` pending messages numbered above ``after``, in order, of one topic or level."""
        found = [m for one in self._all for m in await one.page(after, limit, topic=topic, level=level)]
        return sorted(found, key=lambda message: message.log_offset)[:limit]

    # By hand: in an intervention of the timer's, after which it is durable

    async def cancel(self, messages: Sequence[StoredMessage]) -> None:
        """Never deliver these. Raises NotPendingError when one does not wait: then nothing is cancelled."""
        for message in messages:
            await self._require(message)

        def work(batch: Batch) -> None:
            for scheme in self._all:
                scheme.cancel(batch, messages)

        await self._writer.commit(work, until="visible")

    async def force(self, message: StoredMessage) -> None:
        """Deliver the message now. Raises NotPendingError."""
        scheme = await self._require(message)
        await self._writer.commit(partial(scheme.force, parked=message), until="visible")

    async def cancel_all(self, messages: Sequence[StoredMessage]) -> int:
        """Never deliver those that still wait; how many."""
        return await self._with_all(messages, lambda scheme, batch, one: scheme.cancel(batch, [one]))

    async def force_all(self, messages: Sequence[StoredMessage]) -> int:
        """Deliver those that still wait now; how many."""
        return await self._with_all(messages, lambda scheme, batch, one: scheme.force(batch, one))

    async def _with_all(
        self, messages: Sequence[StoredMessage], act: Callable[[DelayScheme, Batch, StoredMessage], object]
    ) -> int:
        """Act on each message that waits, in one transaction."""
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

    def clear(self, batch: Batch) -> None:
        """Forget everything that waits when this is committed."""
        for scheme in self._all:
            scheme.clear(batch)
        if self._lines is not None:
            batch.on_commit(self._lines.forget_all)

    def leave_line(self, batch: Batch, topic: str) -> None:
        """Forget who waits for whom in a topic whose messages are all cancelled when this is committed."""
        if self._lines is not None:
            batch.on_commit(partial(self._lines.forget, topic))

    def retained(self) -> list[tuple[Queue, int]]:
        """Queues of the store, and from which offset on retention must leave their messages alone."""
        return [each for scheme in self._all for each in scheme.retained()]

    # Figures

    @property
    def delivered(self) -> int:
        """How many messages became visible by themselves since the start."""
        return sum(scheme.delivered for scheme in self._all)

    @property
    def early(self) -> int:
        """How many of these did before their due time: a defect."""
        return sum(scheme.early for scheme in self._all)

    def figures(self) -> list[Figures]:
        """What waits in each level and scheme."""
        return [row for scheme in self._all for row in scheme.figures()]

    def timed_figures(self) -> Figures:
        """What waits for absolute due times, in whichever scheme."""
        rows = [row for scheme in self._timed for row in scheme.figures()]
        return Figures(
            "",
            None,
            sum(row.pending for row in rows),
            min((row.next_due_us for row in rows if row.next_due_us is not None), default=None),
            min((row.oldest_overdue_us for row in rows if row.oldest_overdue_us is not None), default=None),
        )

    def due_seconds(self) -> Counter[int]:
        """How many messages with an absolute due time are due in each second of the epoch."""
        total: Counter[int] = Counter()
        for scheme in self._timed:
            total.update(scheme.due_seconds())
        return total

    def file_figures(self) -> FileFigures:
        """The files of all schemes together."""
        total = FileFigures()
        for scheme in self._timed:
            if (one := scheme.file_figures()) is not None:
                total = total.plus(one)
        return total


def not_pending(message_id: str) -> NotPendingError:
    """The error for a message that does not wait, or no longer."""
    return NotPendingError(
        f"message {message_id} is not waiting for its due time: it was delivered, cancelled, or never delayed"
    )
