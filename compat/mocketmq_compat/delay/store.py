"""What a scheme needs of the place where its records are: of each an entry, and the content of a file."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from mocketmq.clock import US_PER_MS
from mocketmq_compat.delay.delayed_file import Entry

BOUND: Final = -1
"""The number of an entry that is no record."""


def bound(due_us: int) -> Entry:
    """What a list of first records ends in, if others are due from this time on that are not read yet."""
    return Entry(due_us // US_PER_MS, BOUND, 0)


class DelayStore(Protocol):
    """Records in order of delivery. Every method blocks, may raise OSError, and may be called by any thread.

    A record is the content of a delayed message's file (:mod:`~mocketmq_compat.delay.delayed_file`).
    """

    @property
    def count(self) -> int:
        """How many records wait."""

    @property
    def recounts(self) -> int:
        """Incremented whenever the index is rebuilt; cached answers are then stale."""

    @property
    def last_number(self) -> int:
        """The largest number of a record; 0 without any."""

    @property
    def disk_bytes(self) -> int:
        """About how much of the disk they take."""

    @property
    def parts(self) -> int:
        """How many parts of the store hold something that waits."""

    @property
    def damaged(self) -> dict[str, int]:
        """What was found damaged and put aside since the store was opened, by kind."""

    @property
    def quarantined(self) -> int:
        """How many pieces lie in the quarantine."""

    @property
    def repeats(self) -> int:
        """How many copies of records were removed since the store was opened."""

    def by_second(self) -> Mapping[int, int]:
        """How many records wait in each second; empty where that is not known."""

    def disk_bytes_of(self, size: int) -> int:
        """How much of the disk a new content of this size takes."""

    def write(self, entry: Entry, content: bytes) -> None:
        """Add a record, which is not there yet; it is durable after ``sync``."""

    def sync(self, entries: Iterable[Entry]) -> None:
        """Make all that was written durable."""

    def remove(self, entry: Entry) -> object:
        """Take back a record that could not be made durable."""

    def first(self, limit: int, without: Container[Entry]) -> list[Entry]:
        """The first ``limit`` records but ``without`` these, in order of delivery.

        Fewer if there are no others, or if a :func:`bound` says from when on there may be.
        """

    def holds(self, entry: Entry) -> bool:
        """Whether this record waits. Quick: it is asked on the event loop."""

    def read(self, entry: Entry) -> bytes:
        """The content of a record. Raises FileNotFoundError, or DamagedFileError."""

    def with_number(self, number: int) -> list[Entry]:
        """The records with this number: one, or several after two stores were put together."""

    def with_key(self, key_hash: int) -> list[Entry]:
        """The records of messages whose key has this hash."""

    def by_arrival(self, after: int, limit: int) -> list[Entry]:
        """Up to ``limit`` records numbered above ``after``, in order of their numbers."""

    def all(self) -> Iterator[Entry]:
        """Every record, in any order."""

    def forget(self, entries: Iterable[Entry]) -> Sequence[Entry]:
        """Mark these records as done with; unknown ones are ignored.

        Returns those that the disk does not let go, to be tried again.
        """

    def put_aside(self, entry: Entry, kind: str, reason: str) -> None:
        """Forget a damaged record, and keep what there is of it in the quarantine."""

    def remove_over(self, now_us: int, *, is_cleared: bool = False) -> None:
        """Remove files that nothing will need: those of the past, after a reset those of the future too."""

    def adopt(self, now_us: int) -> Sequence[Entry]:
        """Load ahead, and adopt records that other programs added; return the adopted ones."""

    def close(self) -> None:
        """Close all files. May be called twice."""
