"""The read-ahead: the next entries to deliver. Memory holds only these entries, however many are pending.

The read-ahead is a sorted prefix of the store. New entries that are due before its end are inserted, and
settled entries are removed. When it runs out, the engine refills it from the store. Entries added or removed
while a refill reads the store are noted, and applied to the result of the refill.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable
from itertools import islice, takewhile
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.store import BOUND

SIZE: Final = 16_384
"""Number of entries that a refill loads. A read-ahead of twice this size is cut back to it."""


class ReadAhead:
    """All pending entries before ``beyond``, in order of delivery.

    ``beyond`` is the first entry that is only in the store, or a bound while that entry is unknown; None
    if the read-ahead holds every pending entry.
    """

    def __init__(self) -> None:
        self.size = SIZE
        self.entries: list[Entry] = []
        self.beyond: Entry | None = None
        self._is_outdated = False  # ``beyond`` is a bound, or was removed
        self._meanwhile: list[tuple[bool, Entry]] | None = None

    def add(self, entry: Entry) -> None:
        """Add a new pending entry."""
        if self._meanwhile is not None:
            self._meanwhile.append((True, entry))
        if self.beyond is None or entry < self.beyond:
            insort(self.entries, entry)
            if len(self.entries) > 2 * self.size:
                self.beyond = self.entries[self.size]
                self._is_outdated = False
                del self.entries[self.size :]

    def remove(self, entry: Entry) -> bool:
        """Remove an entry. Returns whether the read-ahead held it."""
        if self._meanwhile is not None:
            self._meanwhile.append((False, entry))
        if entry == self.beyond:
            self._is_outdated = True
        place = bisect_left(self.entries, entry)
        if place == len(self.entries) or self.entries[place] != entry:
            return False
        del self.entries[place]
        return True

    @property
    def needs_refill(self) -> bool:
        """Whether there may be pending entries and the first one is unknown."""
        return self._is_outdated and not self.entries and self._meanwhile is None

    @property
    def is_refilling(self) -> bool:
        """Whether a refill is reading the store."""
        return self._meanwhile is not None

    def first(self) -> Entry | None:
        """Return the first pending entry, which may be ``beyond``."""
        return self.entries[0] if self.entries else self.beyond

    def until(self, is_due: Callable[[Entry], bool], limit: int) -> list[Entry]:
        """Return up to ``limit`` entries that are due."""
        return [*takewhile(is_due, islice(self.entries, limit))]

    def first_but(self, others: Container[Entry]) -> Entry | None:
        """Return the first pending entry that is not in ``others``."""
        return next((entry for entry in self.entries if entry not in others), self.beyond)

    def begin_refill(self) -> None:
        """Start recording changes, because the refill may miss them."""
        self._meanwhile = []

    def abandon_refill(self) -> None:
        """Stop recording changes, and keep the read-ahead as it is."""
        self._meanwhile = None

    def end_refill(self, found: Iterable[Entry]) -> None:
        """Take over the first ``size`` entries found; a further one, or a bound, becomes ``beyond``."""
        meanwhile, self._meanwhile = self._meanwhile or (), None
        self.entries = sorted(found)
        self.beyond, self._is_outdated = None, False
        if self.entries and self.entries[-1].number == BOUND:
            self.beyond, self._is_outdated = self.entries.pop(), True
        elif len(self.entries) > self.size:
            self.beyond = self.entries[self.size]
            del self.entries[self.size :]
        for is_new, entry in meanwhile:
            self.remove(entry)
            if is_new:
                self.add(entry)
