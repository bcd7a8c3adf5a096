"""Reads the messages that are due, before the transaction that delivers them.

A record that cannot be delivered is quarantined, so that it does not hold up other records. One whose message
was settled before is a repeat, left by a kill or restored from a backup, and is refused.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from mocketmq.errors import EmulatorError
from mocketmq.message.message import StoredMessage
from mocketmq.message.message_id import Identity
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.pending_entries import PendingEntries
from mocketmq_compat.delay.pending_reader import MISSING, PendingReader
from mocketmq_compat.delay.store import DelayStore

log = logging.getLogger(__name__)


class DueMessages:
    """Due messages that are read, but not delivered yet. They are kept until their turn comes.

    ``settled`` is :meth:`TimedScheme.settled`. ``refuse`` forgets the records of settled messages. ``run``
    runs a function in a thread, and turns its OSError into a StoreError.
    """

    def __init__(
        self,
        store: DelayStore,
        records: PendingReader,
        pending: PendingEntries,
        settled: Callable[[Sequence[int]], Awaitable[set[Identity]]],
        refuse: Callable[[Sequence[Entry]], None],
        run: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._store = store
        self._records = records
        self._pending = pending
        self._settled = settled
        self._refuse = refuse
        self._run = run
        self._messages: dict[Entry, StoredMessage] = {}

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, StoredMessage]]:
        """Read as many of these entries as fit into a batch. Removes repeated and damaged entries."""
        settled = await self._settled([entry.number for entry in entries])
        self._refuse([entry for entry in entries if entry.identity in settled])
        waiting = [entry for entry in entries if entry.identity not in settled]
        unread = [entry for entry in waiting if entry not in self._messages]
        contents = await self._records.contents(unread) if unread else {}
        found: dict[Entry, StoredMessage] = {}
        for entry in waiting:
            message = self._messages.get(entry)
            if message is None and entry not in contents:
                break
            try:
                message = message or await self._records.message(entry, contents[entry])
                if entry.identity in settled:  # the same message with two due times
                    self._refuse([entry])
                else:
                    found[entry] = message
                    settled.add(entry.identity)
            except DamagedFileError as error:
                await self._put_aside(entry, error)
            except EmulatorError:  # the database failed, not the message
                raise
            except Exception as error:  # noqa: BLE001 - one message must not hold up all others
                await self._put_aside(entry, DamagedFileError("defect", repr(error)))
        self._messages = found
        return [*found.items()]

    def forget(self, entries: Iterable[Entry]) -> None:
        """Drop messages that were settled."""
        for entry in entries:
            self._messages.pop(entry, None)

    def forget_all(self) -> None:
        """Drop all messages, because a restore may have put others in their places."""
        self._messages.clear()

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        """Quarantine what is left of the message, with the reason."""
        if not self._pending.remove_unreadable(entry) and error.kind == MISSING:
            return  # the store has removed it already
        log.warning("quarantining the delayed message %s: %s", entry.name, error)
        await self._run(partial(self._store.put_aside, entry, error.kind, str(error)))
