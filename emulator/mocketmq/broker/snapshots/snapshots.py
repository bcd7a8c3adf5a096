"""Saves the whole state of the broker under a name, and goes back to it, while clients are connected.

A save copies all rows in one transaction of the writer, and the messages of the delay schemes under the
timer's lock (``captured_state``). ``restorer`` puts a state back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.snapshots.captured_state import CapturedState, check_size
from mocketmq.broker.snapshots.differences import StateDifference, differences
from mocketmq.broker.snapshots.restorer import Restorer
from mocketmq.broker.snapshots.shelf import NAME, NAMES, FileShelf, Kept, MemoryShelf, SnapshotShelf
from mocketmq.broker.snapshots.snapshot_file import (
    Manifest,
    SnapshotState,
    unreadable_manifest,
    write_archive,
)
from mocketmq.clock import Clock
from mocketmq.errors import (
    InvalidArgumentError,
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
    StoreUnavailableError,
)
from mocketmq.event_loop import completed
from mocketmq.settings import Settings
from mocketmq.store.database import MEMORY

MAX_SNAPSHOTS: Final = 64
MAX_TOTAL_BYTES: Final = 1 << 30
"""Limits of all snapshots of one broker. Files that were copied into its directory count, too."""
FOLDER: Final = "snapshots"


class Restored(msgspec.Struct, frozen=True):
    """The result of a restore: the snapshot, and the time of the clock."""

    kept: Kept
    now_us: int


class Snapshots:
    """All snapshots of the broker."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        committed: CommittedOffsets,
        capture: Callable[[], Awaitable[CapturedState]],
        restorer: Restorer,
    ) -> None:
        """``capture`` is :func:`capture_state` of this broker."""
        self.shelf = _shelf_of(settings)
        self._clock = clock
        self._committed = committed
        self._copy_state = capture
        self._restorer = restorer
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
                continue  # somebody has removed it meanwhile
            except (SnapshotDamagedError, StoreUnavailableError) as error:
                damaged[name] = str(error)
        return found, damaged

    async def find_snapshot(self, name: str) -> Kept:
        """The snapshot. Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError."""
        _check_name(name)
        return Kept(name, await asyncio.to_thread(self.shelf.manifest, name))

    async def differences(self, name: str, other: str | None) -> "list[StateDifference]":
        """What happened from a snapshot to another one, or until now.

        Raises the errors of :meth:`find_snapshot`, and SnapshotQuotaError if the state now is too large.
        """
        before = await self._read(name)
        if other is None:
            after = (await self.capture()).state
        else:
            after = await self._read(other)
        return await asyncio.to_thread(differences, before, after)

    @completed
    async def capture(self) -> CapturedState:
        """The state now, without a name.

        Raises SnapshotQuotaError if the state is too large, or a StoreError.
        """
        async with self._busy:
            return await self._capture()

    async def _read(self, name: str) -> SnapshotState:
        _check_name(name)
        return await asyncio.to_thread(self.shelf.read, name)

    async def remove(self, name: str) -> Kept:
        """Delete a snapshot. Raises SnapshotNotFoundError, or a StoreError.

        Of a file that cannot be read, the result has only the name and the size.
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
        """Save the state under this name. It is durable on return.

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
            self._restorer.lineage.saved(manifest.sha256, captured.history)
            return Kept(name, manifest)

    def _check_room(self, name: str, replace: bool, size: int) -> None:
        names = self.shelf.names()
        if name in names and not replace:
            raise SnapshotExistsError(
                f"a snapshot with the name {name} exists; delete it, or save with replace"
            )
        others = [each for each in names if each != name]
        if len(others) >= MAX_SNAPSHOTS:
            raise SnapshotQuotaError(
                f"there are {len(names)} snapshots; allowed: {MAX_SNAPSHOTS}. Delete some"
            )
        check_size(size)
        total = size + sum(map(self._size_of, others))
        if total > MAX_TOTAL_BYTES:
            raise SnapshotQuotaError(
                f"all snapshots together would have {total} bytes; allowed: {MAX_TOTAL_BYTES}. Delete some"
            )

    def _size_of(self, name: str) -> int:
        try:
            return self.shelf.size(name)
        except SnapshotNotFoundError:
            return 0  # somebody has removed it meanwhile

    async def _capture(self) -> CapturedState:
        await self._committed.save_reported()
        return await self._copy_state()

    # Restore

    @completed
    async def restore(self, name: str) -> Restored:
        """Go back to the snapshot. Durable on return.

        Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError, and then changes nothing, unless
        the error says that the snapshot was restored: what the broker does next, as at a start, has failed.
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
