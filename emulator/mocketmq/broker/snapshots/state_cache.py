"""Keeps the states of a few snapshots in memory, because tests restore the same ones many times.

A state in memory is neither read nor checked again.
"""

from threading import Lock
from typing import Final

from mocketmq.broker.snapshots.snapshot_file import SnapshotState

MAX_CACHED_BYTES: Final = 32 << 20
"""Largest size of all databases together."""


class StateCache:
    """States by name of their snapshot, least recently used first. Any thread may call the methods.

    The stamp of a state says which file it was read from, or written to. Equal stamps mean equal files.
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
        """Keep this state in the place of an earlier one, or none if it is None or larger than the cache."""
        with self._lock:
            self._states.pop(name, None)
            if state is not None and len(state.content) <= MAX_CACHED_BYTES:
                self._states[name] = stamp, state
            size = sum(len(each.content) for _, each in self._states.values())
            while size > MAX_CACHED_BYTES:
                _, dropped = self._states.pop(next(iter(self._states)))
                size -= len(dropped.content)
