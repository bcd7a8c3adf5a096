"""The entries of pending messages: their number, and the entries that are due next.

The store has a record for each pending message, and also records of messages that are not pending: settled
and refused messages whose record is not marked yet, messages that are still being saved or adopted, and
messages that a restore has written but not committed. :class:`ReadAhead` keeps the first entries in order of
delivery in memory. When it runs out, a thread refills it from the store. So memory holds only these entries,
however many messages are pending.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from mocketmq.schedule.timer import BATCH
from mocketmq_compat.delay.cleared_messages import pages_of
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.group_saves import GroupSaves
from mocketmq_compat.delay.marks import Marks
from mocketmq_compat.delay.store import BOUND, DelayStore

SIZE: Final = 16_384
"""Number of entries that a refill loads. A read-ahead that reaches twice this size is cut back to it."""


class ReadAhead:
    """All pending entries before ``beyond``, in order of delivery: a sorted prefix of the store.

    New entries that are due before its end are inserted, and settled entries are removed. Entries added or
    removed while a refill reads the store are noted, and applied to the result of the refill.

    ``beyond`` is the first entry that is only in the store, or a bound while that entry is unknown; None
    if the read-ahead holds every pending entry.
    """

    def __init__(self) -> None:
        self.size = SIZE
        self.entries: list[Entry] = []
        self.beyond: Entry | None = None
        self._is_outdated = False  # ``beyond`` is only a bound, or its entry was removed
        self._meanwhile: list[tuple[bool, Entry]] | None = None

    def add(self, entry: Entry) -> None:
        """Add a new pending entry, unless a refill has already found it."""
        if self._meanwhile is not None:
            self._meanwhile.append((True, entry))
        place = bisect_left(self.entries, entry)
        is_there = place < len(self.entries) and self.entries[place] == entry
        if not is_there and (self.beyond is None or entry < self.beyond):
            self.entries.insert(place, entry)
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


class PendingList:
    """All pending entries at one time, and those added since: what a reset removes. A restore lets some stay.

    Entries that are removed meanwhile remain in the list.
    """

    def __init__(self) -> None:
        self.entries: dict[Entry, None] = {}  # roughly in order of delivery
        self.pages: Sequence[str] = ()  # the same for ``cleared_messages``
        self.added: set[Entry] = set()
        # Entries that are pending after a restore. ``entries`` does not contain them.
        self.staying: Set[Entry] = frozenset()
        self.first: Sequence[Entry] = ()  # the first ones of these, like the store's ``first_records``

    def __contains__(self, entry: object) -> bool:
        return entry in self.entries or entry in self.added

    def take_added(self) -> set[Entry]:
        """Return the entries that were added since the last call."""
        added, self.added = self.added, set()
        return added


class _AnyOf:
    """A live union of sets."""

    def __init__(self, *sets: Container[Entry]) -> None:
        self._sets = sets

    def __contains__(self, entry: object) -> bool:
        return any(entry in one for one in self._sets)


@dataclass(eq=False, repr=False)
class PendingEntries:
    """The entries of all pending messages of a store.

    ``run`` runs a function in a thread, and turns its OSError into a StoreError. ``changed`` is called when
    the first entry may have changed.
    """

    _store: DelayStore
    _saves: GroupSaves
    _marks: Marks
    _run: Callable[[Callable[[], Any]], Awaitable[Any]]
    _changed: Callable[[], None]

    def __post_init__(self) -> None:
        self.count = 0
        self.read_ahead = ReadAhead()
        self.staged: set[Entry] = set()  # written by a restore that is not committed yet
        # Stored, but not pending:
        self._hidden = _AnyOf(self._marks.gone, self._saves.in_flight, self.staged)
        self._others = _AnyOf(self._hidden, self._store.adopted)
        self._recounts = self._store.recounts  # the store's value when the read-ahead was last filled
        self._listed: PendingList | None = None

    async def load(self) -> None:
        """Count the entries of the opened store. Raises a StoreError."""
        self.count = await self._run(lambda: self._store.count)

    def __contains__(self, entry: object) -> bool:
        return isinstance(entry, Entry) and entry not in self._others and self._store.holds(entry)

    def __iter__(self) -> Iterator[Entry]:
        """Yield every entry that is pending or being adopted, in any order."""
        return (entry for entry in self._store.all() if entry not in self._hidden)

    def add(self, entry: Entry) -> None:
        """Add the entry of a record that was saved, restored or adopted."""
        first = self.read_ahead.first()
        self.count += 1
        self.read_ahead.add(entry)
        if self._listed is not None:
            self._listed.added.add(entry)
        if first is None or entry < first:
            self._changed()

    def remove(self, entry: Entry) -> bool:
        """Remove the entry of a settled message. Returns whether the message was pending."""
        if entry in self._marks.gone or not (self.read_ahead.remove(entry) or self._may_hold(entry)):
            return False
        self.count -= 1
        return True

    def _may_hold(self, entry: Entry) -> bool:
        """Whether the store holds the entry, or cannot tell.

        Called after commits, where nothing may fail. After an error of the disk, ``Marks`` looks for the
        record again until the disk works.
        """
        try:
            return self._store.holds(entry)
        except OSError:
            return True

    def remove_unreadable(self, entry: Entry) -> bool:
        """Remove an entry whose record is damaged or missing. Returns whether it was among the first."""
        was_first = self.read_ahead.remove(entry)
        self.count -= was_first
        return was_first

    def first(self) -> Entry | None:
        """Return the first entry in order of delivery; None without pending messages.

        If the store cannot be read, this may be a bound or the entry of a settled message, due earlier.
        ``due`` then reports the error.
        """
        if self.read_ahead.needs_refill:
            # Runs on the event loop, because it is rare: only after many cancellations.
            with suppress(OSError):
                self.read_ahead.end_refill(self._read_first())
        return self.read_ahead.first()

    def first_or_saving(self) -> Entry | None:
        """Like ``first``, including the entries of messages that are being saved."""
        return self._before_saves(self.first())

    def first_but(self, others: Container[Entry]) -> Entry | None:
        """Like ``first_or_saving``, but skip ``others``, which are saved."""
        return self._before_saves(self.read_ahead.first_but(others))

    def _before_saves(self, first: Entry | None) -> Entry | None:
        """Return the earlier of this entry and the first entry that is being saved."""
        saving = min(self._saves.in_flight, default=None)
        return saving if first is None or (saving is not None and saving < first) else first

    async def due(self, is_due: Callable[[Entry], bool]) -> list[Entry]:
        """Return up to ``BATCH`` of the first entries that are due. Raises a StoreError."""
        beyond = self.read_ahead.beyond
        if beyond is not None and is_due(beyond):
            await self.look_ahead(BATCH)
        return self.read_ahead.until(is_due, BATCH)

    async def look_ahead(self, count: int) -> None:
        """Refill the read-ahead unless it has ``count`` entries, or all. Raises a StoreError."""
        if self.read_ahead.beyond is not None and len(self.read_ahead.entries) < count:
            await self.refill()

    async def refill(self) -> None:
        """Read the first entries from the store. Raises a StoreError."""
        self.read_ahead.begin_refill()
        # The read may return settled records that are marked, and leave ``gone``, before it ends.
        leaving = {*self._marks.gone}
        try:
            found = await self._run(partial(self._read_first, leaving))
        except BaseException:
            self.read_ahead.abandon_refill()
            raise
        if self.read_ahead.is_refilling:  # False if ``recount`` has filled it in the meantime
            self.read_ahead.end_refill(found)

    @asynccontextmanager
    async def listing(self) -> AsyncIterator[None]:
        """List all entries in a thread, and follow additions until the end of the block, as ``listed``.

        Raises a StoreError.
        """
        listed = self._listed = PendingList()
        # The read may return settled records that are marked, and leave ``gone``, before it ends.
        leaving = {*self._marks.gone}

        def read() -> None:
            listed.entries = {entry: None for entry in self if entry not in leaving}
            listed.pages = pages_of(listed.entries)

        try:
            if self.count or self._store.adopted:
                await self._run(read)
            yield
        finally:
            self._listed = None

    @property
    def listed(self) -> PendingList:
        """The list of the current :meth:`listing`."""
        assert self._listed is not None  # noqa: S101 - callers are inside a listing
        return self._listed

    def replace(self, count: int, first: Iterable[Entry], added: Iterable[Entry] = ()) -> None:
        """Replace all entries by ``count`` others, and then add further ones.

        ``first`` are the first of the others, as the store's ``first_records`` returns them.
        """
        self.count = count
        self.read_ahead.abandon_refill()
        self.read_ahead.end_refill(first)
        for entry in added:
            self.add(entry)
        self._changed()

    def recount(self) -> None:
        """Load the first entries again if the store has rebuilt its index. Rarely blocks the event loop."""
        recounts = self._store.recounts
        if recounts == self._recounts:
            return
        others = {*self._marks.gone, *self._saves.in_flight, *self.staged, *self._store.adopted}
        leaving = sum(map(self._store.holds, others))
        self.replace(self._store.count - leaving, self._read_first())
        self._recounts = recounts

    def _read_first(self, leaving: Container[Entry] = ()) -> list[Entry]:
        return self._store.first_records(self.read_ahead.size + 1, _AnyOf(leaving, self._others))

    def let_stay(self, staying: Set[Entry]) -> None:
        """Note which entries, pending or staged, are pending after a restore. Blocks."""
        listed = self.listed
        listed.staying = staying
        listed.entries = {entry: None for entry in listed.entries if entry not in staying}
        listed.pages = pages_of(listed.entries)
        adopted = self._store.adopted.difference(staying)
        leaving = {*self._marks.gone}
        others = _AnyOf(leaving, self._marks.gone, self._saves.in_flight, adopted, listed.entries)
        listed.first = self._store.first_records(self.read_ahead.size + 1, others)
