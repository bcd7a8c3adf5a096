"""States of snapshots in memory: the newest ones that fit, of the files that are there."""

import weakref
from pathlib import Path

import pytest

from mocketmq.broker.snapshots import shelf as shelves
from mocketmq.broker.snapshots.shelf import FileShelf, MemoryShelf, StateCache
from mocketmq.broker.snapshots.snapshot_file import SnapshotState, new_manifest, write_archive

MANIFEST = new_manifest(saved_us=0, now_us=0, clock="manual", topics=0, groups=0, messages=0, pending=0)


def state(size: int) -> SnapshotState:
    return SnapshotState(MANIFEST, b"x" * size)


def test_the_least_recently_used_states_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MAX_CACHED_BYTES", 10)
    cache, states = StateCache(), {name: state(4) for name in ("a", "b", "c")}
    cache.keep("a", 1, states["a"])
    cache.keep("b", 1, states["b"])
    assert cache.find("a", 1) is states["a"]
    cache.keep("c", 1, states["c"])
    assert [cache.find(name, 1) for name in ("a", "b", "c")] == [states["a"], None, states["c"]]


def test_a_state_larger_than_the_cache_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MAX_CACHED_BYTES", 10)
    cache, small = StateCache(), state(4)
    cache.keep("small", 1, small)
    cache.keep("large", 1, state(4))
    cache.keep("large", 2, state(11))
    assert [cache.find("small", 1), cache.find("large", 1), cache.find("large", 2)] == [small, None, None]


def test_a_removed_snapshot_leaves_no_state_in_memory(tmp_path: Path) -> None:
    for shelf in (MemoryShelf(), FileShelf(tmp_path)):
        complete, file = write_archive(state(4))
        shelf.write("here", file, complete)
        kept = weakref.ref(complete)
        del complete
        assert kept()
        shelf.remove("here")
        assert kept() is None


def test_another_file_under_the_name_has_another_state() -> None:
    cache = StateCache()
    cache.keep("a", 1, state(1))
    assert cache.find("a", 2) is None
    cache.keep("a", 2, state(1))
    assert cache.find("a", 2)
    cache.keep("a", 0, None)
    assert cache.find("a", 2) is None
