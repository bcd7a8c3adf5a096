"""Pull and commit times: written to the ledger in the background, the newest also kept in memory.

No response waits for a note to be stored, unless too many are unstored. Events are made from the notes in
memory, because the store has no times of pulls and commits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from mocketmq.errors import EmulatorError
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Work, Writer

log = logging.getLogger(__name__)

MOST = 64
"""Number of unstored notes from which pulls wait. Writing more notes at once would delay sends."""
LENGTH = 1_000
"""Maximum number of pulls and commits kept in memory."""


class Step(NamedTuple):
    """A pull of messages by a group, or a commit that moved its offset past them (``is_commit``)."""

    at_us: int
    group: str
    queue: Queue
    offsets: Sequence[int]
    is_commit: bool


class PullTrail:
    """The newest pulls and commits, oldest first. ``on_step`` is called with each."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque(maxlen=LENGTH)
        self.on_step: Callable[[Step], None] | None = None

    def pulled(self, at_us: int, group: str, queue: Queue, offsets: Sequence[int]) -> None:
        """Add a pull that gave these messages to the group."""
        self._add_step(Step(at_us, group, queue, offsets, is_commit=False))

    def committed(self, at_us: int, group: str, queue: Queue, offsets: range) -> None:
        """Add a commit by which the group's committed offset passed these messages."""
        self._add_step(Step(at_us, group, queue, offsets, is_commit=True))

    def forget(self, queues: Collection[Queue]) -> None:
        """Remove the steps in these queues, because their offsets start over."""
        self.remove(lambda step: step.queue in queues)

    def cut(self, ends: Mapping[Queue, int]) -> None:
        """Remove the offsets from these ends on, because the queues will reuse them."""
        cut = []
        for step in self.steps:
            end = ends.get(step.queue)
            offsets = step.offsets if end is None else [each for each in step.offsets if each < end]
            if offsets:
                cut.append(step._replace(offsets=offsets))
        self._replace(cut)

    def remove(self, is_removed: Callable[[Step], bool]) -> None:
        self._replace([step for step in self.steps if not is_removed(step)])

    def _replace(self, steps: Iterable[Step]) -> None:
        self.steps.clear()
        self.steps.extend(steps)

    def _add_step(self, step: Step) -> None:
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)


class LedgerNotes:
    """Writes the times at which delayed messages, given by log offset, were pulled and acknowledged.

    A note contains the time at which it was made, even if it is stored later. A kill or a power cut may lose
    the last notes, but no messages.
    """

    def __init__(self, writer: Writer, ledger: LedgerWriter) -> None:
        self._writer = writer
        self._ledger = ledger
        self.trail = PullTrail()
        self._writing: set[asyncio.Future[None]] = set()

    async def pulled(self, log_offsets: Sequence[int], group_name: str) -> None:
        """Note a pull of the group. Waits only if too many notes are unstored."""
        if len(self._writing) >= MOST:
            await self.written()
        at_us = self._writer.now_us()
        record = partial(self._ledger.pulled, delivered_offsets=log_offsets, group=group_name, at_us=at_us)
        self._note("pull", record, len(log_offsets))

    def acked(self, log_offsets: Sequence[int]) -> None:
        """Note that a group has committed an offset above these messages."""
        record = partial(self._ledger.acked, delivered_offsets=log_offsets, at_us=self._writer.now_us())
        self._note("acknowledgement", record, len(log_offsets))

    def _note(self, kind: str, record: Work, count: int) -> None:
        note: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing.add(note)
        note.add_done_callback(partial(self._written, kind, count))
        try:
            self._writer.put(record, note, until="visible")
        except EmulatorError as error:
            note.set_exception(error)

    def _written(self, kind: str, count: int, note: asyncio.Future[None]) -> None:
        self._writing.discard(note)
        error = note.exception()
        if error is not None:
            log.warning("cannot record %s times in the ledger: %s (deliveries: %d)", kind, error, count)

    async def written(self) -> None:
        """Wait until all notes so far are stored, or have failed."""
        if self._writing:
            await asyncio.wait(self._writing)
