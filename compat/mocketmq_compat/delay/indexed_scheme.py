"""The base of entry schemes with an index, which says what is due, over files, which hold the messages."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from typing import Protocol

from mocketmq.message.message import StoredMessage
from mocketmq.schedule.due import DueNow
from mocketmq.schedule.scheme_context import SchemeContext
from mocketmq.schedule.timer import BATCH
from mocketmq.settings import Settings
from mocketmq.store.messages import MAX_AT_ONCE
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry
from mocketmq_compat.delay.entry_scheme import EntryScheme, exact
from mocketmq_compat.delay.group_saves import GroupSaves


class EntryIndex(Protocol):
    """What waits, by due time; see :class:`~mocketmq_compat.delay.delay_index.DelayIndex`."""

    def __len__(self) -> int: ...
    def __contains__(self, entry: Entry, /) -> bool: ...
    def __iter__(self) -> Iterator[Entry]: ...
    def first(self) -> Entry | None:
        """The entry that is due first, without those that were picked."""

    def pick(self) -> Entry:
        """Pick the first entry: it is out of the order until ``put_back``, or for good once removed."""

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Put picked entries back into the order."""

    def with_key(self, key_hash: int) -> list[Entry]:
        """The entries of messages whose key has this hash."""

    def with_number(self, number: int) -> list[Entry]:
        """The entries with this number."""

    def by_second(self) -> Mapping[int, int]:
        """How many messages wait in each second."""


class EntryFiles(Protocol):
    """Where a scheme keeps its messages, each known by its entry."""

    saves: GroupSaves

    @property
    def index(self) -> EntryIndex:
        """All that waits and is saved."""

    async def load(self) -> None:
        """Find what waits. Raises a StoreError."""

    def start(self) -> asyncio.Task[None]:
        """Begin what is done in the background."""

    async def close(self) -> None:
        """Save what was accepted, and close."""

    async def save(self, entry: Entry, content: bytes) -> None:
        """Keep a new message. Raises a StoreError."""

    def first(self) -> Entry | None:
        """The first entry in order of delivery, saved or being saved."""

    async def read(self, entries: Sequence[Entry]) -> list[tuple[Entry, bytes | OSError]]:
        """Contents in this order, as many as fit a batch, or the error of reading one."""

    def remove(self, entries: Iterable[Entry]) -> None:
        """Forget these messages, which are done with; nothing may be left of them after a commit's sync."""

    def refuse_repeats(self, entries: Sequence[Entry]) -> None:
        """Remove messages that were done with before."""

    async def quarantine(self, entry: Entry, error: DamagedFileError) -> None:
        """Put the message aside, with the reason."""


class IndexedScheme(EntryScheme):
    """The scheme over its ``files``."""

    def __init__(
        self,
        context: SchemeContext,
        settings: Settings,
        files: EntryFiles,
        fires_at: Callable[[int], int] = exact,
    ) -> None:
        super().__init__(context, settings, fires_at)
        self.saves = files.saves
        self._files = files
        self._picked: list[Entry] = []  # are being delivered, in their order

    async def load(self) -> None:
        """Build the index. Raises a StoreError."""
        await self._files.load()
        await self._refuse_settled_early()

    def start(self) -> Sequence[asyncio.Task[None]]:
        """Look after the files in the background."""
        return [self._files.start()]

    async def close(self) -> None:
        """Save all accepted messages, and close the directory."""
        await self._files.close()

    # What is due

    @property
    def pending(self) -> int:
        """How many messages wait."""
        return len(self._files.index)

    def due_seconds(self) -> Mapping[int, int]:
        """How many files are due in each second."""
        return self._files.index.by_second()

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        """Prepare what fires by ``until_us``, in order of due millisecond and arrival."""
        await self._saved_until(until_us)
        index = self._files.index
        picked = self._picked
        try:
            while (
                len(picked) < BATCH and (first := index.first()) and self._fires_at(first.due_us) <= until_us
            ):
                picked.append(index.pick())
            due_now = await self._prepare(picked)
            index.put_back([entry for entry in picked if entry not in self._opened])
            yield due_now
        finally:
            index.put_back(picked)  # those that are gone do not come back
            picked.clear()

    # By hand

    async def page(
        self, after: int, limit: int, *, topic: str | None = None, level: int | None = None
    ) -> list[StoredMessage]:
        """Pending messages in order of arrival; none for any level."""
        if level is not None:
            return []
        keys = None if topic is None else {queue.key for queue in self.context.topics.get(topic).queues}
        entries = self._by_arrival(after, limit)
        found: list[StoredMessage] = []
        # Only a file knows its topic, and whether it can be read at all.
        while some := list(islice(entries, limit - len(found) if keys is None else MAX_AT_ONCE)):
            found += [m for m in await self._messages(some) if keys is None or m.real_queue_key in keys]
            if len(found) >= limit:
                break
        return found[:limit]

    def _by_arrival(self, after: int, likely: int) -> Iterator[Entry]:
        """Everything numbered above ``after``; quick when no more than ``likely`` are asked for."""
        everything = ((entry.number, entry) for entry in self._files.index if entry.number > after)
        first = heapq.nsmallest(likely, everything)
        yield from (entry for _, entry in first)
        if first and len(first) == likely:
            others = ((entry.number, entry) for entry in self._files.index)
            yield from (entry for _, entry in sorted(one for one in others if one > first[-1]))

    # The index and the files

    async def _save(self, entry: Entry, content: bytes) -> None:
        await self._files.save(entry, content)

    async def _contents(self, entries: Sequence[Entry]) -> Mapping[Entry, bytes | DamagedFileError]:
        return {
            entry: _unreadable(content) if isinstance(content, OSError) else content
            for entry, content in await self._files.read(entries)
        }

    def _first(self) -> Entry | None:
        index = self._files.index
        picked = next((entry for entry in self._picked if entry in index), None)
        first = index.first()
        return picked if first is None or (picked is not None and picked < first) else first

    def _next(self, others: Container[Entry] | None = None) -> Entry | None:  # noqa: ARG002 - they are picked
        return self._files.first()

    def _waits(self, entry: Entry) -> bool:
        return entry in self._files.index

    def _all(self) -> list[Entry]:
        return list(self._files.index)

    async def _with_number(self, number: int) -> list[Entry]:
        return self._files.index.with_number(number)

    async def _with_key(self, key_hash: int) -> list[Entry]:
        return self._files.index.with_key(key_hash)

    def _remove(self, entries: Iterable[Entry]) -> None:
        gone = [*entries]
        for entry in gone:
            self._opened.pop(entry, None)
        self._files.remove(gone)

    def _refuse_repeats(self, entries: Sequence[Entry]) -> None:
        self._files.refuse_repeats(entries)

    async def _put_aside(self, entry: Entry, error: DamagedFileError) -> None:
        await self._files.quarantine(entry, error)


def _unreadable(error: OSError) -> DamagedFileError:
    kind = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
    return DamagedFileError(kind, f"the file cannot be read: {error.strerror}")
