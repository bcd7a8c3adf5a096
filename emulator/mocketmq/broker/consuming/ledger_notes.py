"""What consumers by offset do: noted in the ledger in the background, the newest also remembered here.

No answer waits for a note. The store keeps no time of pulls and commits, so events are told from the trail.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mocketmq.errors import EmulatorError
from mocketmq.schedule.ledger import Ledger
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch, Writer

log = logging.getLogger(__name__)

MOST = 64
"""Notes that are not stored yet, before pulls wait for them: more would hold up sends."""
LENGTH = 1_000
"""Pulls and commits that are remembered."""

_Record = Callable[[Batch, int, int], None]
"""``record(batch, log_offset, at_us)`` writes one note."""


class Step(NamedTuple):
    """A group was given messages of a queue by a pull, or committed past them (``is_commit``)."""

    at_us: int
    group: str
    queue: Queue
    offsets: Sequence[int]
    is_commit: bool


class PullTrail:
    """The newest steps, oldest first."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque(maxlen=LENGTH)

    def pulled(self, at_us: int, group: str, queue: Queue, offsets: Sequence[int]) -> None:
        """A pull gave these messages to the group."""
        self.steps.append(Step(at_us, group, queue, offsets, is_commit=False))

    def committed(self, at_us: int, group: str, queue: Queue, offsets: range) -> None:
        """The group's committed offset passed these messages."""
        self.steps.append(Step(at_us, group, queue, offsets, is_commit=True))


class LedgerNotes:
    """Notes when delayed messages, given by their log offsets, were pulled and acknowledged.

    A note has the time at which it was made, however late it is stored. A kill or a power cut may lose the
    notes of the last answers; the messages are as they were.
    """

    def __init__(self, writer: Writer, ledger: Ledger) -> None:
        self._writer = writer
        self._ledger = ledger
        self.trail = PullTrail()
        self._writing: set[asyncio.Task[None]] = set()

    async def pulled(self, log_offsets: Sequence[int], group_name: str) -> None:
        """Note that a consumer of the group is given them. Waits only if too many notes are behind."""
        if len(self._writing) >= MOST:
            await self.written()

        def record(batch: Batch, offset: int, at_us: int) -> None:
            self._ledger.pulled(batch, offset, group_name, at_us)

        self._note("pull", record, log_offsets)

    def acked(self, log_offsets: Sequence[int]) -> None:
        """Note that a group has committed an offset behind them."""
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
            log.warning("%s times missing in the ledger: %d (%s)", kind, len(log_offsets), error)

    async def written(self) -> None:
        """Wait until all notes so far are stored, or cannot be."""
        await asyncio.gather(*self._writing)
