"""Pull and commit times: written to the ledger in the background, the newest also kept in memory.

No response waits for a note to be stored, unless too many are unstored. Events are made from the notes in
memory, because the store has no times of pulls and commits.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from mocketmq.errors import EmulatorError
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Writer

log = logging.getLogger(__name__)

MOST = 64
"""Number of unstored notes from which pulls wait. Writing more notes at once would delay sends."""
LENGTH = 1_000
"""Maximum number of pulls and commits kept in memory."""

_Record = Callable[[Batch, int, int], None]
"""``record(batch, log_offset, at_us)`` writes one note."""


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
        self._writing: set[asyncio.Task[None]] = set()

    async def pulled(self, log_offsets: Sequence[int], group_name: str) -> None:
        """Note a pull of the group. Waits only if too many notes are unstored."""
        if len(self._writing) >= MOST:
            await self.written()

        def record(batch: Batch, offset: int, at_us: int) -> None:
            self._ledger.pulled(batch, offset, group_name, at_us)

        self._note("pull", record, log_offsets)

    def acked(self, log_offsets: Sequence[int]) -> None:
        """Note that a group has committed an offset above these messages."""
        self._note("acknowledgement", self._ledger.acked, log_offsets)

    def _note(self, kind: str, record: _Record, log_offsets: Sequence[int]) -> None:
        note = asyncio.create_task(self._write(kind, record, log_offsets, self._writer.now_us()))
        self._writing.add(note)
        note.add_done_callback(self._writing.discard)

    async def _write(self, kind: str, record: _Record, log_offsets: Sequence[int], at_us: int) -> None:
        def work(batch: Batch) -> None:
            for log_offset in log_offsets:
                record(batch, log_offset, at_us)

        try:
            await self._writer.commit(work, until="visible")
        except EmulatorError as error:
            log.warning(
                "cannot record %s times in the ledger: %s (deliveries: %d)", kind, error, len(log_offsets)
            )

    async def written(self) -> None:
        """Wait until all notes so far are stored, or have failed."""
        await asyncio.gather(*self._writing)
