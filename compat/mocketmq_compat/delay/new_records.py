"""Add messages to a record store that no broker uses, one by one."""

from mocketmq.message.message_id import Identity
from mocketmq_compat.delay.delayed_file import DamagedFileError, DelayedFile, Entry, encode
from mocketmq_compat.delay.parked_message import message_in
from mocketmq_compat.delay.store import DelayStore


class NewRecords:
    """As :class:`~mocketmq_compat.delay.scheme_kind.NewMessages`."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self._there: dict[Identity, Entry] | None = None
        self._added: list[Entry] = []

    def add(self, message: DelayedFile) -> bool:
        """Write the message's record, unless it is there. One that is damaged is put aside."""
        if self._there is None:
            self._there = {entry.identity: entry for entry in self._store.all()}
        entry = message.header.entry
        if (there := self._there.get(entry.identity)) is not None:
            try:
                known = message_in(there, self._store.read(there))
            except DamagedFileError as error:
                self._store.put_aside(there, error.kind, str(error))
            else:
                if known != message:
                    reason = f"{there.name} is another message with the same identity"
                    raise DamagedFileError("conflict", reason)
                return False
        self._store.write(entry, encode(*message))
        self._there[entry.identity] = entry
        self._added.append(entry)
        return True

    def sync(self) -> None:
        """Sync what was added."""
        self._store.sync(self._added)
