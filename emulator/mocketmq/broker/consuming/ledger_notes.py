"""What consumers by offset do: noted in the ledger in the background, and remembered in memory."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from mocketmq.broker.consuming.pull_trail import PullTrail
from mocketmq.errors import EmulatorError
from mocketmq.schedule.ledger import Ledger
from mocketmq.store.writer import Batch, Writer

log = logging.getLogger(__name__)

MOST = 64
"""Notes that are not stored yet, before pulls wait for them: more would hold up sends."""

_Record = Callable[[Batch, int, int], None]
"""``record(batch, log_offset, at_us)`` writes one note."""


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
