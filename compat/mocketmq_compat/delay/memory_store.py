"""The store of every delay scheme in a broker without a data directory: records in memory."""

import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.entry_table import EntryTable
from mocketmq_compat.delay.store import BaseStore


class MemoryStore(BaseStore):
    """A :class:`~mocketmq_compat.delay.store.DelayStore` in memory, which ends with the broker."""

    def __init__(self, block_bytes: int = 1) -> None:
        self._block_bytes = block_bytes  # a file of the scheme takes a multiple of this on disk
        self._contents: dict[Entry, bytes] = {}
        self._order = EntryTable()
        self._changing = threading.Lock()
        self.last_number = 0
        self.disk_bytes = 0
        self.parts = 0
        self.damaged: dict[str, int] = {}
        self.quarantined = 0
        self.recounts = 0
        self.repeats = 0

    @property
    def count(self) -> int:
        return len(self._contents)

    def write(self, entry: Entry, content: bytes) -> None:
        with self._changing:
            if entry not in self._contents:
                self._contents[entry] = content
                self._order.add(entry)
                self.disk_bytes += self.disk_bytes_of(len(content))

    def sync(self, entries: Iterable[Entry]) -> None:
        """Do nothing."""

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        return self._order.first(limit, without, self._changing)

    def holds(self, entry: Entry) -> bool:
        return entry in self._contents

    def read(self, entry: Entry) -> bytes:
        try:
            return self._contents[entry]
        except KeyError:
            raise FileNotFoundError(entry.name) from None

    def with_number(self, number: int) -> list[Entry]:
        return self._order.matching(1, number, self._changing)

    def with_key(self, key_hash: int) -> list[Entry]:
        return self._order.matching(2, key_hash, self._changing)

    def all(self) -> Iterator[Entry]:
        return chain.from_iterable(self._order.pages(self._changing))

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        for entry in entries:
            with self._changing:
                content = self._contents.pop(entry, None)
                if content is not None:
                    self.disk_bytes -= self.disk_bytes_of(len(content))
                    self._order.remove(entry)
        return ()

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:  # noqa: ARG002 - see DelayStore
        """Remove the record, because memory has no quarantine."""
        self.damaged[kind] = self.damaged.get(kind, 0) + 1
        self.forget([entry])

    def by_second(self) -> Mapping[int, int]:
        with self._changing:
            return self._order.due_seconds()

    def disk_bytes_of(self, size: int) -> int:
        """Return the disk space that a file of ``size`` bytes would take, in whole blocks."""
        return -(-size // self._block_bytes) * self._block_bytes

    def close(self) -> None:
        """Do nothing."""
