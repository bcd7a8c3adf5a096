"""The entries that are delivered next, in memory, so that memory does not grow with pending messages."""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable
from itertools import islice, takewhile
from typing import Final

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.store import BOUND

SIZE: Final = 16_384
"""Entries that a refill brings; twice as many fit."""


class Front:
    """All entries that wait before ``beyond``, in order of delivery; None: there are no others.

    ``beyond`` is the first of the others, or a bound: nobody knows yet which of them comes first.

    While a refill reads the store, entries come and go: what it misses is noted and done again at its end.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.beyond: Entry | None = None
        self._is_outdated = False  # ``beyond`` is a bound, or was removed
        self._meanwhile: list[tuple[bool, Entry]] | None = None

    def add(self, entry: Entry) -> None:
        """Take in an entry that waits from now on."""
        if self._meanwhile is not None:
            self._meanwhile.append((True, entry))
        if self.beyond is None or entry < self.beyond:
            insort(self.entries, entry)
            if len(self.entries) > 2 * SIZE:
                self.beyond = self.entries[SIZE]
                self._is_outdated = False
                del self.entries[SIZE:]

    def remove(self, entry: Entry) -> bool:
        """Take out an entry; whether it was here."""
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
        """Whether there may be entries, and nobody knows the first one."""
        return self._is_outdated and not self.entries and self._meanwhile is None

    @property
    def is_refilling(self) -> bool:
        """Whether changes are noted."""
        return self._meanwhile is not None

    def first(self) -> Entry | None:
        """The first entry; the first one beyond, if that is all there is."""
        return self.entries[0] if self.entries else self.beyond

    def until(self, is_due: Callable[[Entry], bool], limit: int) -> list[Entry]:
        """Up to ``limit`` of the entries that are due."""
        return [*takewhile(is_due, islice(self.entries, limit))]

    def first_but(self, others: Container[Entry]) -> Entry | None:
        """The first entry that is none of these."""
        return next((entry for entry in self.entries if entry not in others), self.beyond)

    def begin_refill(self) -> None:
        """From now on, note what changes."""
        self._meanwhile = []

    def abandon_refill(self) -> None:
        """The store cannot be read: everything stays as it is."""
        self._meanwhile = None

    def end_refill(self, found: Iterable[Entry]) -> None:
        """Hold the first ``SIZE`` of what was found; one more than that, or a bound, stands for others."""
        meanwhile, self._meanwhile = self._meanwhile or (), None
        self.entries = sorted(found)
        self.beyond, self._is_outdated = None, False
        if self.entries and self.entries[-1].number == BOUND:
            self.beyond, self._is_outdated = self.entries.pop(), True
        elif len(self.entries) > SIZE:
            self.beyond = self.entries[SIZE]
            del self.entries[SIZE:]
        for is_new, entry in meanwhile:
            self.remove(entry)
            if is_new:
                self.add(entry)
