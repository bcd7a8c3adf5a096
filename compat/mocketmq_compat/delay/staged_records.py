"""The records that a restore of a snapshot writes before its transaction.

Their identities are first recorded as settled, so that a start after a kill marks these records. The
restore's transaction reverses this: it forgets these identities, and settles the messages that the restore
removes.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from mocketmq.errors import StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.schedule.timed_scheme import NOTE_CLEARED, KeptRecord
from mocketmq.store.batch import Batch
from mocketmq.store.writer import Writer
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.marks import NOT_REMOVED, Marks
from mocketmq_compat.delay.pending_entries import PendingEntries
from mocketmq_compat.delay.store import DelayStore


@dataclass(eq=False, repr=False)
class StagedRecords:
    """Writes records that do not count as pending yet, and then either hands them over or removes them.

    ``run`` runs a function in a thread, and turns its OSError into a StoreError.
    """

    _store: DelayStore
    _writer: Writer
    _marks: Marks
    _pending: PendingEntries
    _run: Callable[[Callable[[], Any]], Awaitable[Any]]

    async def write(self, records: Sequence[KeptRecord]) -> None:
        """Write the records that are not pending already. After a StoreError, no new record remains."""
        await self._marks.done()
        new = {entry: one.content for one in records if (entry := Entry(*one[:3])) not in self._pending}
        if not self._marks.gone.isdisjoint(new):
            raise StoreUnavailableError(NOT_REMOVED)

        def note(batch: Batch) -> None:
            for entry in new:
                batch.execute(NOTE_CLEARED, (*entry.identity, entry.due_ms))

        def write() -> None:
            for entry, content in new.items():
                self._store.write(entry, content)
            self._store.sync(new)

        self._pending.staged.update(new)
        try:
            if new:
                await self._writer.commit(note)
                pass_point("snapshots.noted")
                await self._run(write)
                pass_point("snapshots.staged")
        except BaseException:
            await self.remove()
            raise

    async def remove(self) -> None:
        """Remove the records, because the restore failed. The disk may refuse that for now."""
        kept: Sequence[Entry] = [*self._pending.staged]
        with suppress(StoreUnavailableError):  # the caller has an error of its own
            kept = await self._run(partial(self._store.forget, kept))
        self._marks.mark_soon(kept)
        self._pending.staged.clear()

    def hand_over(self) -> list[Entry]:
        """Return the entries of the records after the restore's commit."""
        staged = [*self._pending.staged]
        self._pending.staged.clear()
        return staged
