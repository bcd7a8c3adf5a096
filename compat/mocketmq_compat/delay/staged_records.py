"""The records that a restore of a snapshot writes before its transaction.

Their identities are first recorded as settled, so that a start after a kill marks these records. The
restore's transaction reverses this: it forgets these identities, and settles the messages that the restore
removes. A thread does everything that takes long for many messages.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from mocketmq.errors import StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.schedule.scheme import Numbers
from mocketmq.schedule.timed_scheme import KeptRecord
from mocketmq.store.writer import Writer
from mocketmq_compat.delay.cleared_messages import NOTE_CLEARED, clear_all, pages_of
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

    async def write(self, records: Sequence[KeptRecord]) -> int:
        """Write the records that are not pending already, and prepare the current list for the exchange.

        Returns the largest number of these records, or 0. After a StoreError, no new record remains.
        """
        await self._marks.done()
        staying, new = await self._run(partial(self._compare, records))
        self._pending.staged.update(new)
        try:
            if new:
                pages = await self._run(partial(pages_of, new))
                await self._writer.commit(partial(clear_all, statement=NOTE_CLEARED, pages=pages))
                pass_point("snapshots.noted")
            last_number: int = await self._run(partial(self._write, staying, new))
            pass_point("snapshots.staged")
        except BaseException:
            await self.remove()
            raise
        return last_number

    def _compare(self, records: Sequence[KeptRecord]) -> tuple[Set[Entry], Mapping[Entry, bytes]]:
        """Return the entries of all records, and the records that are not pending."""
        listed = self._pending.listed
        staying = {Entry(*one[:3]): one.content for one in records}
        new = {entry: content for entry, content in staying.items() if entry not in listed}
        if not self._marks.gone.isdisjoint(new):
            raise StoreUnavailableError(NOT_REMOVED)
        return staying.keys(), new

    def _write(self, staying: Set[Entry], new: Mapping[Entry, bytes]) -> int:
        numbers = Numbers()
        for entry, content in new.items():
            self._store.write(entry, content)
            numbers.note(entry.number)
        if new:
            self._store.sync(new)
        self._pending.let_stay(staying)
        return numbers.last

    async def remove(self) -> None:
        """Remove the records, because the restore failed. The disk may refuse that for now."""
        kept: Sequence[Entry] = [*self._pending.staged]
        with suppress(StoreUnavailableError):  # the caller has an error of its own
            kept = await self._run(partial(self._store.forget, kept))
        self._marks.mark_soon(kept)
        self._pending.staged.clear()
