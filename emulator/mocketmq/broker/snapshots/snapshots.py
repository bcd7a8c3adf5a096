"""Saves the whole state of the broker under a name, and restores it, while clients are connected.

A save copies all rows in one transaction of the writer, and the messages of the delay schemes under the
timer's lock; sends wait a few milliseconds. ``restorer`` restores a state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.snapshots.differences import StateDifference, differences
from mocketmq.broker.snapshots.restorer import Lineage, Restorer, StateHistory
from mocketmq.broker.snapshots.shelf import NAME, NAMES, FileShelf, Kept, MemoryShelf, SnapshotShelf
from mocketmq.broker.snapshots.snapshot_file import (
    MAX_BYTES,
    Manifest,
    SnapshotState,
    new_manifest,
    unreadable_manifest,
    write_archive,
)
from mocketmq.clock import Clock, wall_us
from mocketmq.errors import (
    InvalidArgumentError,
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
    StoreUnavailableError,
)
from mocketmq.event_loop import completed
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import KeptRecord
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.attached_snapshot import attached_snapshot
from mocketmq.store.batch import Batch
from mocketmq.store.database import MEMORY
from mocketmq.store.snapshot_rows import empty_snapshot, save_rows
from mocketmq.store.store import Store

MAX_SNAPSHOTS: Final = 64
MAX_TOTAL_BYTES: Final = 1 << 30
"""Limits for all snapshots of one broker. Files that were copied into its directory count, too."""
FOLDER: Final = "snapshots"


class Restored(msgspec.Struct, frozen=True):
    """The result of a restore: the snapshot, and the time of the clock."""

    kept: Kept
    now_us: int


_KEEP: Final = "INSERT OR IGNORE INTO snapshot.kept_records VALUES (?, ?, ?, ?, ?)"


class CapturedState(NamedTuple):
    """A copy of the state, and the history of the store when its rows were copied."""

    state: SnapshotState
    history: StateHistory


class _Chosen(NamedTuple):
    """The pending messages of a scheme, chosen but not read."""

    scheme: str
    read: Callable[[], Iterable[KeptRecord]]


async def capture_state(
    store: Store, timer: Timer, schemes: SchemeSet, levels: LevelQueues, lineage: Lineage
) -> CapturedState:
    """Copy the state as it is now.

    Must not be cancelled, because a thread uses the connection that writes. Raises a StoreError, and
    SnapshotQuotaError before much is copied.
    """
    database = store.database
    size = await database.used_bytes()
    check_size(size)
    async with (
        attached_snapshot(database, empty_snapshot()) as connection,
        timer.intervention(),
        schemes.listing(),
    ):

        def work(batch: Batch) -> tuple[int, StateHistory, int, Sequence[_Chosen]]:
            chosen = [_Chosen(one.name, one.choose_records()) for one in schemes.all_timed]
            save_rows(batch, list(levels.delay_offsets))
            return batch.now_us, lineage.history(batch.next_log_offset), schemes.pending, chosen

        now_us, history, pending, chosen = await store.writer.commit(work, alone=True, until="visible")

        def finish() -> tuple[bytes, tuple[int, int, int]]:
            with connection:  # commits, or rolls back before a waiting send uses the connection
                connection.executemany(_KEEP, _kept_rows(chosen, size))
            counts = [
                connection.execute(f"SELECT count(*) FROM snapshot.{table}").fetchone()[0]
                for table in ("topics", "groups", "messages")
            ]
            return connection.serialize(name="snapshot"), (counts[0], counts[1], counts[2])

        async with database.exclusively():
            content, (topics, groups, messages) = await asyncio.to_thread(finish)
    manifest = new_manifest(
        saved_us=wall_us(),
        now_us=now_us,
        clock=store.clock.mode,
        topics=topics,
        groups=groups,
        messages=messages,
        pending=pending,
    )
    return CapturedState(SnapshotState(manifest, content), history)


def _kept_rows(chosen: Sequence[_Chosen], size: int) -> Iterator[tuple[object, ...]]:
    """The rows of pending messages. ``size`` is the size of the store."""
    for scheme, read in chosen:
        for record in read():
            size += len(record.content)
            check_size(size)
            yield scheme, *record


def check_size(size: int) -> None:
    """Raise SnapshotQuotaError if ``size`` bytes are too many for a snapshot."""
    if size > MAX_BYTES:
        raise SnapshotQuotaError(
            f"the snapshot would take at least {size} bytes; allowed: {MAX_BYTES}. Remove messages, or begin"
            " with an empty store"
        )


@dataclass(eq=False, repr=False)
class Snapshots:
    """All snapshots of the broker."""

    _settings: Settings
    _clock: Clock
    _committed: CommittedOffsets
    _copy_state: Callable[[], Awaitable[CapturedState]]  # :func:`capture_state` of this broker
    _restorer: Restorer

    def __post_init__(self) -> None:
        self.shelf = _shelf_of(self._settings)
        self._busy = asyncio.Lock()  # one save or restore at a time

    # Look

    async def listed(self) -> "tuple[list[Kept], dict[str, str]]":
        """All snapshots, sorted by name, and why others cannot be read, by name. Raises a StoreError."""
        return await asyncio.to_thread(self._listed)

    def _listed(self) -> "tuple[list[Kept], dict[str, str]]":
        found, damaged = [], {}
        for name in self.shelf.names()[:MAX_SNAPSHOTS]:
            try:
                found.append(Kept(name, self.shelf.manifest(name)))
            except SnapshotNotFoundError:
                continue  # removed in the meantime
            except (SnapshotDamagedError, StoreUnavailableError) as error:
                damaged[name] = str(error)
        return found, damaged

    async def find_snapshot(self, name: str) -> Kept:
        """The snapshot. Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError."""
        _check_name(name)
        return Kept(name, await asyncio.to_thread(self.shelf.manifest, name))

    async def differences(self, name: str, other: str | None) -> "list[StateDifference]":
        """What happened between a snapshot and another one, or since the snapshot.

        Raises the errors of :meth:`find_snapshot`, and SnapshotQuotaError if the current state is too large.
        """
        before = await self._read(name)
        if other is None:
            after = (await self.capture()).state
        else:
            after = await self._read(other)
        return await asyncio.to_thread(differences, before, after)

    @completed
    async def capture(self) -> CapturedState:
        """Copy the current state, without a name.

        Raises SnapshotQuotaError if the state is too large, or a StoreError.
        """
        async with self._busy:
            return await self._capture()

    async def _read(self, name: str) -> SnapshotState:
        _check_name(name)
        return await asyncio.to_thread(self.shelf.read, name)

    async def remove(self, name: str) -> Kept:
        """Delete a snapshot. Raises SnapshotNotFoundError, or a StoreError.

        For a file that cannot be read, the result has only the name and the size.
        """
        _check_name(name)
        async with self._busy:
            return await asyncio.to_thread(self._remove, name)

    def _remove(self, name: str) -> Kept:
        size = self.shelf.size(name)
        try:
            manifest = self.shelf.manifest(name)
        except (SnapshotDamagedError, StoreUnavailableError):
            manifest = unreadable_manifest(size)
        self.shelf.remove(name)
        return Kept(name, manifest)

    # Save

    @completed
    async def save(self, name: str, *, replace: bool = False) -> Kept:
        """Save the state durably under this name.

        Raises SnapshotExistsError unless ``replace`` is set, SnapshotQuotaError, or a StoreError. The earlier
        snapshot is then unchanged.
        """
        _check_name(name)
        async with self._busy:
            await asyncio.to_thread(self._check_room, name, replace, 0)
            captured = await self._capture()
            state = captured.state
            await asyncio.to_thread(self._check_room, name, replace, len(state.content))

            def write() -> Manifest:
                complete, file = write_archive(state)
                self.shelf.write(name, file, complete)
                return complete.manifest

            manifest = await asyncio.to_thread(write)
            self._restorer.lineage.remember(manifest.sha256, captured.history)
            return Kept(name, manifest)

    def _check_room(self, name: str, replace: bool, size: int) -> None:
        names = self.shelf.names()
        if name in names and not replace:
            raise SnapshotExistsError(
                f"a snapshot named {name} already exists; delete it, or save with replace"
            )
        others = [each for each in names if each != name]
        if len(others) >= MAX_SNAPSHOTS:
            raise SnapshotQuotaError(
                f"there are already {len(names)} snapshots; allowed: at most {MAX_SNAPSHOTS}. Delete some"
                " first"
            )
        check_size(size)
        total = size + sum(map(self._size_of, others))
        if total > MAX_TOTAL_BYTES:
            raise SnapshotQuotaError(
                f"all snapshots together would take {total} bytes; allowed: {MAX_TOTAL_BYTES}. Delete some"
                " first"
            )

    def _size_of(self, name: str) -> int:
        try:
            return self.shelf.size(name)
        except SnapshotNotFoundError:
            return 0  # removed in the meantime

    async def _capture(self) -> CapturedState:
        await self._committed.save_reported()
        return await self._copy_state()

    # Restore

    @completed
    async def restore(self, name: str) -> Restored:
        """Go back to the snapshot. Durable on return.

        Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError, and then changes nothing, unless
        the error says that the snapshot was restored: then a later step, as at a start, has failed.
        """
        _check_name(name)
        async with self._busy:
            state = await self._read(name)
            await self._restorer.restore(name, state)
        return Restored(Kept(name, state.manifest), self._clock.now_us())


def _shelf_of(settings: Settings) -> SnapshotShelf:
    if settings.snapshots is not None:
        return FileShelf(Path(settings.snapshots))
    return MemoryShelf() if settings.data == MEMORY else FileShelf(Path(settings.data, FOLDER))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidArgumentError("name", name, NAMES)
