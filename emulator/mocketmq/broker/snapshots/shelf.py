"""Keeps snapshots by name: as files of a directory, or in memory for a broker without one."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from threading import Lock
from typing import Final

import msgspec

from mocketmq.broker.snapshots.snapshot_file import Manifest, SnapshotState, read_archive, read_manifest
from mocketmq.clock import US_PER_S, wall_us
from mocketmq.errors import SnapshotNotFoundError, StoreUnavailableError
from mocketmq.failpoint import pass_point
from mocketmq.store.disk import sync_path

SUFFIX: Final = ".snapshot"
NAMES: Final = "1 to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit"
NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}")
_TEMPORARY: Final = ".saving"
MAX_CACHED_BYTES: Final = 32 << 20
"""Maximum total size of the databases that are kept in memory besides their files."""
_STALE_US: Final = 3600 * US_PER_S
"""Age from which a temporary file was left by a kill, rather than being written by another broker."""


class Kept(msgspec.Struct, frozen=True):
    """A snapshot's name and manifest."""

    name: str
    manifest: Manifest


class StateCache:
    """States of a few snapshots in memory, because tests restore the same ones many times.

    A state in memory is neither read nor checked again. States are kept by the name of their snapshot, the
    least recently used first. Any thread may call the methods.

    The stamp of a state identifies the file that it was read from, or written to. Equal stamps mean equal
    files.
    """

    def __init__(self) -> None:
        self._states: dict[str, tuple[object, SnapshotState]] = {}
        self._lock = Lock()

    def find(self, name: str, stamp: object) -> SnapshotState | None:
        """The state of the snapshot, unless its file has another stamp by now."""
        with self._lock:
            found = self._states.pop(name, None)
            if found is None or found[0] != stamp:
                return None
            self._states[name] = found
            return found[1]

    def keep(self, name: str, stamp: object, state: SnapshotState | None) -> None:
        """Replace an earlier state by this one, or by none if it is None or larger than the cache."""
        with self._lock:
            self._states.pop(name, None)
            if state is not None and len(state.content) <= MAX_CACHED_BYTES:
                self._states[name] = stamp, state
            size = sum(len(each.content) for _, each in self._states.values())
            while size > MAX_CACHED_BYTES:
                _, dropped = self._states.pop(next(iter(self._states)))
                size -= len(dropped.content)


def _unknown(name: str, names: list[str]) -> SnapshotNotFoundError:
    known = (
        f"there are {', '.join(names[:8])}{' and others' if names[8:] else ''}" if names else "there are none"
    )
    return SnapshotNotFoundError(f"no snapshot is named {name}; {known}")


class FileShelf:
    """Snapshots as files ``<name>.snapshot`` in a directory, which the first save creates.

    The methods block. They raise SnapshotNotFoundError, SnapshotDamagedError and StoreUnavailableError.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._cache = StateCache()

    def names(self) -> list[str]:
        return sorted(self._names())

    def _names(self) -> Iterator[str]:
        try:
            for entry in self.directory.iterdir():
                name = entry.name.removesuffix(SUFFIX)
                if name != entry.name and NAME.fullmatch(name) and entry.is_file():
                    yield name
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._refusal("read", error) from error

    def size(self, name: str) -> int:
        return self._stat(name).st_size

    def manifest(self, name: str) -> Manifest:
        self._stat(name)
        try:
            return read_manifest(self._path(name), name)
        except OSError as error:
            raise self._refusal("read", error) from error

    def read(self, name: str) -> SnapshotState:
        stamp = _stamp_of(self._stat(name))
        state = self._cache.find(name, stamp)
        if state is not None:
            return state
        try:
            state = read_archive(self._path(name), name)
        except OSError as error:
            raise self._refusal("read", error) from error
        self._cache.keep(name, stamp, state)
        return state

    def write(self, name: str, file: bytes, state: SnapshotState | None = None) -> None:
        """Save or replace a snapshot. After a failure or a kill, the former file still exists.

        ``state`` is what a read of the file would return, if the caller has it.
        """
        temporary = self.directory / f"{name}{_TEMPORARY}"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._remove_stale()
            with temporary.open("wb") as out:
                out.write(file)
                out.flush()
                os.fsync(out.fileno())
                stamp = _stamp_of(os.fstat(out.fileno()))
            pass_point("snapshots.written")
            temporary.replace(self._path(name))
            pass_point("snapshots.renamed")
            self._cache.keep(name, stamp, state)
            sync_path(self.directory)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise self._refusal("written", error) from error

    def remove(self, name: str) -> None:
        self._stat(name)
        try:
            self._path(name).unlink(missing_ok=True)
            self._cache.keep(name, None, None)
            sync_path(self.directory)
        except OSError as error:
            raise self._refusal("removed", error) from error

    def _remove_stale(self) -> None:
        """Remove temporary files that kills have left."""
        for path in self.directory.glob(f"*{_TEMPORARY}"):
            with suppress(OSError):
                if path.stat().st_mtime_ns // 1_000 < wall_us() - _STALE_US:
                    path.unlink()

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}{SUFFIX}"

    def _stat(self, name: str) -> os.stat_result:
        try:
            found = self._path(name).stat()
        except FileNotFoundError:
            raise _unknown(name, self.names()) from None
        except OSError as error:
            raise self._refusal("read", error) from error
        if not S_ISREG(found.st_mode):
            raise _unknown(name, self.names())
        return found

    def _refusal(self, done: str, error: OSError) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"a snapshot in {self.directory} cannot be {done}: {error.strerror or error}; nothing was changed"
        )


def _stamp_of(found: os.stat_result) -> tuple[int, ...]:
    """Attributes that distinguish a file from one that has replaced it."""
    return found.st_ino, found.st_mtime_ns, found.st_size


class MemoryShelf:
    """Snapshots in memory, which end with the broker. Has the methods of :class:`FileShelf`."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._cache = StateCache()

    def names(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return len(self._file(name))

    def manifest(self, name: str) -> Manifest:
        return read_manifest(io.BytesIO(self._file(name)), name)

    def read(self, name: str) -> SnapshotState:
        file = self._file(name)
        state = self._cache.find(name, file)
        if state is None:
            state = read_archive(io.BytesIO(file), name)
            self._cache.keep(name, file, state)
        return state

    def write(self, name: str, file: bytes, state: SnapshotState | None = None) -> None:
        self._files[name] = file
        self._cache.keep(name, file, state)

    def remove(self, name: str) -> None:
        self._file(name)
        del self._files[name]
        self._cache.keep(name, None, None)

    def _file(self, name: str) -> bytes:
        try:
            return self._files[name]
        except KeyError:
            raise _unknown(name, self.names()) from None


SnapshotShelf = FileShelf | MemoryShelf
"""Where snapshots are kept."""
