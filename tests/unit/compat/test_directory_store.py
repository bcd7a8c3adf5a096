"""A directory store keeps an entry for each file."""

import os
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq_compat.delay.delayed_file import MS_PER_S
from mocketmq_compat.delay.directories.directory_store import COPYING_NS, DirectoryStore
from tests.support.delayed_files import made

FILES = [made(f"M{number}", number=number) for number in range(1, 101)]
NS_PER_S = 10**9
ENTRIES = {file.entry for file in FILES}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DirectoryStore]:
    store = DirectoryStore(tmp_path)
    yield store
    store.close()


@pytest.mark.parametrize("step", [1, -1])
def test_saved_files_are_held(step: int, store: DirectoryStore) -> None:
    for file in FILES[:-1][::step]:
        store.write(file.entry, file.content)
    assert [store.holds(file.entry) for file in FILES] == [True] * (len(FILES) - 1) + [False]
    assert (store.count, set(store.all())) == (len(FILES) - 1, ENTRIES - {FILES[-1].entry})


def test_file_written_twice_is_one_entry(store: DirectoryStore) -> None:
    for file in (FILES[0], FILES[1], FILES[0]):
        store.write(file.entry, file.content)
    assert (store.count, [*store.all()]) == (2, [FILES[0].entry, FILES[1].entry])


def test_foreign_files_are_found_among_own_ones(store: DirectoryStore, tmp_path: Path) -> None:
    for file in FILES[:-2]:
        store.write(file.entry, file.content)
    other = DirectoryStore(tmp_path)
    for file in FILES[-2:]:
        other.write(file.entry, file.content)
    other.close()
    store.adopt(0)
    assert store.adopted == {file.entry for file in FILES[-2:]}
    assert set(store.all()) == ENTRIES


@pytest.mark.parametrize("name", ["", "copy"])
def test_a_file_is_adopted_when_its_copy_is_complete(
    store: DirectoryStore, tmp_path: Path, name: str
) -> None:
    file = FILES[0]
    path = file.put(tmp_path, f"{file.entry.second}/{name or file.entry.name}")
    path.write_bytes(file.content[:-1])
    for _ in range(2):
        store.adopt(0)
        assert (store.count, store.quarantined, path.exists()) == (0, 0, True)
    path.write_bytes(file.content)
    store.adopt(0)
    assert ([*store.all()], store.quarantined) == ([file.entry], 0)


def test_a_file_that_stays_incomplete_is_quarantined(store: DirectoryStore, tmp_path: Path) -> None:
    path = FILES[0].put(tmp_path)
    path.write_bytes(b"")
    store.adopt(0)
    written_s = path.stat().st_mtime - COPYING_NS / NS_PER_S
    os.utime(path, (written_s, written_s))
    store.adopt(0)
    assert (store.damaged, store.count, path.exists()) == (Counter({"torn": 1}), 0, False)


def test_a_file_going_into_the_quarantine_is_not_taken_for_a_foreign_one(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = FILES[0].entry
    store.write(entry, b"torn")
    quarantine = store.directory.quarantine

    def after_a_look(second: int, name: str, reason: str) -> int:
        monkeypatch.undo()
        store.adopt(0)
        return quarantine(second, name, reason)

    monkeypatch.setattr(store.directory, "quarantine", after_a_look)
    store.put_aside(entry, "torn", "it ends after 4 bytes")
    assert (store.damaged, store.quarantined, store.count) == (Counter({"torn": 1}), 1, 0)


def test_opening_takes_hardly_more_memory_than_the_index(tmp_path: Path) -> None:
    filled = DirectoryStore(tmp_path)
    for number in range(2_000):
        file = made(f"M{number}", number=number, due_ms=number * MS_PER_S)
        filled.write(file.entry, file.content)
    filled.directory.close()  # without writing down what is known, so that all names are read
    tracemalloc.start()
    try:
        opened = DirectoryStore(tmp_path)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    opened.close()
    assert opened.count == 2_000
    assert most < 2 * kept
