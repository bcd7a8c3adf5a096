"""Records in memory, for brokers without a data directory."""

import heapq
import threading
from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from mocketmq_compat.delay.delayed_file import Entry


class MemoryStore:
    """As :class:`~mocketmq_compat.delay.store.DelayStore`; nothing outlives the broker."""

    def __init__(self, block_bytes: int = 1) -> None:
        self._block_bytes = block_bytes  # what a file of the scheme takes is a multiple of that
        self._contents: dict[Entry, bytes] = {}
        self._order: list[Entry] = []
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
        """How many records wait."""
        return len(self._contents)

    def write(self, entry: Entry, content: bytes) -> None:
        """Add the record."""
        with self._changing:
            if entry not in self._contents:
                self._contents[entry] = content
                insort(self._order, entry)
                self.disk_bytes += self.disk_bytes_of(len(content))

    def sync(self, entries: Iterable[Entry]) -> None:
        """Nothing to sync."""

    def remove(self, entry: Entry) -> None:
        """Remove the record, if it is there."""
        with self._changing:
            content = self._contents.pop(entry, None)
            if content is not None:
                self.disk_bytes -= self.disk_bytes_of(len(content))
                del self._order[bisect_left(self._order, entry)]

    def first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """The first records."""
        with self._changing:  # a copy would take longer
            return list(islice((entry for entry in self._order if entry not in without), limit))

    def holds(self, entry: Entry) -> bool:
        """Whether it is there."""
        return entry in self._contents

    def read(self, entry: Entry) -> bytes:
        """The content. Raises FileNotFoundError."""
        try:
            return self._contents[entry]
        except KeyError:
            raise FileNotFoundError(entry.name) from None

    def with_number(self, number: int) -> list[Entry]:
        """Those with this number."""
        return [entry for entry in [*self._order] if entry.number == number]

    def with_key(self, key_hash: int) -> list[Entry]:
        """Those with this hash."""
        return [entry for entry in [*self._order] if entry.key_hash == key_hash]

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """In order of their numbers."""
        later = (entry for entry in [*self._order] if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    def all(self) -> Iterator[Entry]:
        """Every record."""
        return iter([*self._order])

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Remove them."""
        for entry in entries:
            self.remove(entry)
        return ()

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:  # noqa: ARG002 - see DelayStore
        """Remove it: memory has no quarantine."""
        self.damaged[kind] = self.damaged.get(kind, 0) + 1
        self.remove(entry)

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """There are no files."""

    def by_second(self) -> Mapping[int, int]:
        """Not known."""
        return {}

    def disk_bytes_of(self, size: int) -> int:
        """As a file of the scheme would take."""
        return -(-size // self._block_bytes) * self._block_bytes

    def adopt(self, now_us: int) -> Sequence[Entry]:  # noqa: ARG002 - see DelayStore
        """Nobody else writes here."""
        return ()

    def close(self) -> None:
        """Nothing to close."""
