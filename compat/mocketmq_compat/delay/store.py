"""The interface of a delay store, the main part of a new delay scheme; ``schemes.py`` has the rest.

A store keeps records of pending messages in order of delivery. A record has an entry (due time, number, key
hash) and a content in the format of :mod:`~mocketmq_compat.delay.delayed_file`. The engine in
``stored_scheme.py`` implements the rest: durability policies, delivery, exactly once.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Protocol

from mocketmq.clock import US_PER_MS
from mocketmq_compat.delay.delayed_file import Entry

BOUND: Final = -1
"""The number that identifies an entry as a bound instead of a record."""


def bound(due_us: int) -> Entry:
    """Make the final entry of a list of first records: all unread records are due at ``due_us`` or later."""
    return Entry(due_us // US_PER_MS, BOUND, 0)


class DelayStore(Protocol):
    """A store of records in order of delivery. Methods block, may raise OSError, and are thread-safe."""

    @property
    def count(self) -> int:
        """The number of pending records."""

    @property
    def recounts(self) -> int:
        """Incremented whenever the index is rebuilt; cached answers are then stale."""

    @property
    def last_number(self) -> int:
        """The largest number of a record; 0 without records."""

    @property
    def disk_bytes(self) -> int:
        """Approximate disk space of the pending records, in bytes."""

    @property
    def parts(self) -> int:
        """The number of files or folders with pending records."""

    @property
    def damaged(self) -> dict[str, int]:
        """The number of records quarantined since the store was opened, by kind of damage."""

    @property
    def quarantined(self) -> int:
        """The number of pieces in the quarantine."""

    @property
    def repeats(self) -> int:
        """The number of duplicate records removed since the store was opened."""

    @property
    def adopted(self) -> set[Entry]:
        """Records that ``adopt`` has added. They are not pending until the engine takes them from the set."""

    def by_second(self) -> Mapping[int, int]:
        """Return the number of records due in each second; empty for a store without these counts.

        With many records, those of neighbouring seconds may count for the last of these seconds.
        """

    def disk_bytes_of(self, size: int) -> int:
        """Return the disk space in bytes of a new record whose content has this size."""

    def write(self, entry: Entry, content: bytes) -> None:
        """Add a new record; it is durable after ``sync``."""

    def sync(self, entries: Iterable[Entry]) -> None:
        """Make all writes so far durable, including these entries."""

    def first_records(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """Return the first ``limit`` entries in order of delivery, except entries in ``without``.

        Returns fewer if there are no others, or if the list ends with a :func:`bound`.
        """

    def holds(self, entry: Entry) -> bool:
        """Return whether this record is pending. Must be fast, because the event loop calls it."""

    def read(self, entry: Entry) -> bytes:
        """Read the content of a record. Raises FileNotFoundError, or DamagedFileError."""

    def with_number(self, number: int) -> list[Entry]:
        """Return the entries with this number: one, or several after two stores were merged."""

    def with_key(self, key_hash: int) -> list[Entry]:
        """Return the entries of messages whose unique key has this hash."""

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` entries numbered above ``after``, in order of their numbers."""

    def all(self) -> Iterator[Entry]:
        """Yield every entry, in any order."""

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Remove these records, of settled and refused messages, or mark them. Ignores unknown records.

        Returns the records that the disk has refused to mark; the caller must retry them.
        """

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Quarantine a damaged record; it is no longer pending."""

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove past files without pending records; after a reset, also future files."""

    def adopt(self, now_us: int) -> None:
        """Load records that are due soon. Adopt records that other programs added."""

    def close(self) -> None:
        """Close all files. May be called twice."""


class BaseStore(ABC):
    """A base for stores that remove their own files, and whose files no other program writes.

    A store overrides the methods for which it has a better implementation.
    """

    @abstractmethod
    def all(self) -> Iterator[Entry]:
        """See :class:`DelayStore`, like the others."""

    @cached_property
    def adopted(self) -> set[Entry]:
        return set()

    def by_second(self) -> Mapping[int, int]:
        return {}

    def disk_bytes_of(self, size: int) -> int:
        return size

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        later = (entry for entry in self.all() if entry.number > after)
        return heapq.nsmallest(limit, later, key=lambda entry: entry.number)

    def adopt(self, now_us: int) -> None:  # noqa: B027 - see above
        """Do nothing."""

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:  # noqa: B027 - see above
        """Do nothing."""
