"""Holds the pending messages of a partition on disk, in order of due time, in a delay scheme's store.

A shelf is rebuilt from the partition's pending log at every takeover. The files only save memory, so they
need not survive a crash and are never synced.
"""

import asyncio
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final, Literal, TypeVar

from mocketmq.clock import US_PER_MS
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.store.lock import DirectoryLock
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.memory_store import MemoryStore
from mocketmq_compat.delay.slots.slot_store import SlotStore
from mocketmq_compat.delay.sorted.reading import sorted_store
from mocketmq_compat.delay.store import DelayStore

ShelfScheme = Literal["slots", "sorted", "memory"]

BATCH: Final = 500
BATCH_BYTES: Final = 4 << 20
_PREFIX: Final = "shelf-"
_ID_SIZE: Final = struct.Struct(">H")
T = TypeVar("T")


class Shelf:
    """The pending messages of a partition. All methods except the properties may raise OSError."""

    def __init__(self, store: DelayStore, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self._highest = -1  # highest number so far; messages above it are new
        self._aside: set[Entry] = set()
        self._thread = ThreadPoolExecutor(1, "relay-shelf")

    @property
    def count(self) -> int:
        """The number of pending messages."""
        return self._store.count

    @property
    def aside(self) -> int:
        """The number of messages set aside."""
        return len(self._aside)

    async def take_in(self, log: Sequence[RelayedMessage | Settled]) -> None:
        """Add pending messages and remove settled messages.

        A repeated message replaces the earlier content. Settling an unknown message does nothing.
        """
        await self._in_thread(lambda: self._take_in(log))

    def _take_in(self, log: Sequence[RelayedMessage | Settled]) -> None:
        left = {_entry(one) for one in log if isinstance(one, Settled)}
        for one in log:
            entry = _entry(one)
            if isinstance(one, Settled):
                if entry.number <= self._highest:
                    self._store.forget([entry])
            elif entry not in left:  # otherwise a later record of this log settles the message
                if entry.number <= self._highest:
                    self._store.forget([entry])
                self._store.write(entry, _packed(one))
                self._highest = max(self._highest, entry.number)

    async def due(self, now_us: int) -> list[RelayedMessage]:
        """Return the first due messages that are not set aside, up to ``BATCH`` and about ``BATCH_BYTES``."""
        return await self._in_thread(lambda: list(self._due(now_us)))

    def _due(self, now_us: int) -> Iterator[RelayedMessage]:
        size = 0
        for entry in self._store.first_records(BATCH, self._aside):
            if entry.due_us > now_us or size > BATCH_BYTES:
                return
            record = self._store.read(entry)
            size += len(record)
            yield _unpacked(entry, record)

    async def next_due_us(self) -> int | None:
        """Return the earliest due time of messages that are not set aside."""
        first = await self._in_thread(lambda: self._store.first_records(1, self._aside))
        return first[0].due_us if first else None

    async def forget(self, gone: Iterable[RelayedMessage]) -> None:
        """Remove these messages."""
        entries = [_entry(one) for one in gone]
        self._aside.difference_update(entries)
        await self._in_thread(lambda: self._store.forget(entries))

    def set_aside(self, stayed: Iterable[RelayedMessage]) -> None:
        """Skip these messages until :meth:`bring_back` is called."""
        self._aside.update(map(_entry, stayed))

    def bring_back(self) -> None:
        """Return all messages that were set aside to the due messages."""
        self._aside.clear()

    async def tidy(self, now_us: int) -> None:
        """Remove files that are no longer needed."""
        await self._in_thread(lambda: self._store.remove_over(now_us))

    async def close(self) -> None:
        """Close the store and remove its files."""
        try:
            await self._in_thread(self._store.close)
        finally:
            self._thread.shutdown()
            if self._folder is not None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)


OpenShelf = Callable[[], Shelf]
"""Opens an empty shelf. Raises OSError, or StoreUnavailableError if the extra of a scheme is missing."""


@contextmanager
def shelves(scheme: ShelfScheme, root: Path | None) -> Iterator[OpenShelf]:
    """Yield a factory of shelves in folders below ``root``, by default below a temporary folder.

    Files left by a killed relay are removed. Raises OSError, and StoreLockedError if ``root`` is in use.
    """
    if scheme == "memory":
        yield lambda: Shelf(MemoryStore())
        return
    if root is None:
        with TemporaryDirectory(prefix="mocketmq-relay-") as folder:
            yield lambda: _open(scheme, Path(folder))
        return
    lock = DirectoryLock(root)
    try:
        for left in root.glob(f"{_PREFIX}*"):
            shutil.rmtree(left)
        yield lambda: _open(scheme, root)
    finally:
        lock.close()


def _open(scheme: ShelfScheme, root: Path) -> Shelf:
    folder = Path(mkdtemp(prefix=_PREFIX, dir=root))
    return Shelf(SlotStore(folder) if scheme == "slots" else sorted_store(folder), folder)


def _entry(one: RelayedMessage | Settled) -> Entry:
    return Entry(one.due_us // US_PER_MS, one.number, 0)


def _packed(pending: RelayedMessage) -> bytes:
    name = pending.id.encode()
    return _ID_SIZE.pack(len(name)) + name + pending.content


def _unpacked(entry: Entry, record: bytes) -> RelayedMessage:
    end = _ID_SIZE.size + _ID_SIZE.unpack_from(record)[0]
    return RelayedMessage(record[_ID_SIZE.size : end].decode(), entry.number, entry.due_us, record[end:])
